"""How a Ray cluster is reached: one connection in a process, shared, and never another cluster than was asked for."""

from __future__ import annotations

import socket
import threading

import pytest

from rsa2c.errors import ConfigError
from rsa2c.workers import cluster
from rsa2c.workers.cluster import connected


class Ray:
    """As much of Ray as a connection needs."""

    def __init__(self) -> None:
        self.where: str | None = None
        self.inits = 0

    def is_initialized(self) -> bool:
        return self.where is not None

    def init(self, address, **options) -> None:
        self.where, self.inits = {"local": "10.0.0.1:1"}.get(address, address), self.inits + 1

    def shutdown(self) -> None:
        self.where = None

    def get_runtime_context(self):
        return self

    @property
    def gcs_address(self):
        return self.where


@pytest.fixture
def ray(monkeypatch) -> Ray:
    made = Ray()
    monkeypatch.setattr(cluster, "require", lambda *names: made)
    monkeypatch.setattr(cluster, "_check_reachable", lambda address: None)
    monkeypatch.setattr(cluster, "_current", None)
    return made


def test_the_last_of_several_users_disconnects(ray):
    first, second = (connected("10.0.0.2:6379", None, "a test") for _ in range(2))
    assert ray.inits == 1
    first.release()
    assert ray.is_initialized()
    second.release()
    assert not ray.is_initialized()
    connected("10.0.0.3:6379", None, "a test").release()
    assert ray.inits == 2


@pytest.mark.parametrize(("first", "second"), [
    ("10.0.0.2:6379", "10.0.0.3:6379"),
    ("10.0.0.2:6379", "10.0.0.2:6380"),
    ("10.0.0.2:6379", "ray://10.0.0.2:10001"),
    ("10.0.0.2:6379", "local"),
    ("local", "10.0.0.2:6379"),
])  # fmt: skip
def test_a_second_address_is_refused_and_both_are_named(ray, first, second):
    connected(first, None, "a test")
    with pytest.raises(ConfigError, match=rf"the Ray cluster at {first} already.*asks for {second}\..*close"):
        connected(second, None, "a test")


@pytest.mark.parametrize("again", ["10.0.0.2:6379", "auto", None])
def test_a_connection_of_the_callers_own_is_used_and_stays(ray, again):
    ray.init("10.0.0.2:6379")
    connected(again, None, "a test").release()
    assert ray.inits == 1 and ray.is_initialized()
    with pytest.raises(ConfigError, match=r"at 10\.0\.0\.2:6379 already.*asks for local"):
        connected("local", 2, "a test")


def test_what_answers_but_is_no_ray_cluster_is_refused_at_once():
    """Ray itself would try for minutes."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with server.accept()[0] as connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request")

    threading.Thread(target=answer, daemon=True).start()
    address = f"127.0.0.1:{server.getsockname()[1]}"
    with server, pytest.raises(ConfigError, match=f"no Ray cluster answers at {address} .*is no Ray cluster"):
        cluster._check_reachable(address)


def test_silence_is_waited_for_a_stated_time(monkeypatch):
    monkeypatch.setattr(cluster, "REACH_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"no Ray cluster answers at {address} .*timed out"):
            cluster._check_reachable(address)


@pytest.mark.parametrize(("error", "said"), [
    (ConnectionError("nobody there"), "no Ray cluster answers at auto .*nobody there"),
    (RuntimeError("Version mismatch: 2.40 and 2.60"), "cluster at auto could not be joined: Version mismatch: 2.40"),
])  # fmt: skip
def test_what_ray_says_is_kept(ray, error, said, monkeypatch):
    def init(**options):
        raise error

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConfigError, match=said) as caught:
        connected("auto", None, "a test")
    assert caught.value.__cause__ is error
