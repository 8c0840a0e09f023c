"""Executors: every call is answered, a death or an error disturbs no other, and both executors agree."""

import os
import signal
import time

import pytest

from rsa2c.errors import ConfigError, described
from rsa2c.runs.executors import run_all


def square_or_fail(argument):
    """A call of a worker: numbers are squared, words say what should happen."""
    if argument == "raise":
        raise ZeroDivisionError("nothing to divide")
    if argument == "config":
        raise ConfigError("kl must be positive, got -1.")
    if argument == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if argument == "exit":
        os._exit(3)
    return argument * argument


@pytest.fixture
def restored_interrupts():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def sleep_then(argument):
    time.sleep(argument)
    return argument


def outcomes(function, arguments, **options):
    """What every call ended with: (value, error) in order; each must have begun first and ended once."""
    began, ended = [], {}
    for event in run_all(function, arguments, **options):
        if event.index is None:
            continue
        if not event.ended:
            began.append(event.index)
        else:
            assert event.index in began and event.index not in ended
            ended[event.index] = (event.value, event.error)
    assert sorted(began) == sorted(ended) == list(range(len(arguments)))
    return [ended[i] for i in range(len(arguments))]


@pytest.mark.parametrize("workers", [1, 2])
def test_failures_and_deaths_are_answers_and_stop_no_other_call(workers):
    found = outcomes(square_or_fail, [1, "raise", 2, "die", 3, "config", "exit", 4], workers=workers)
    assert [value for value, _ in found] == [1, None, 4, None, 9, None, None, 16]
    errors = [error for _, error in found]
    assert errors[1].startswith("ZeroDivisionError: nothing to divide (test_executors.py, line")
    assert "SIGKILL" in errors[3]
    assert errors[5] == "kl must be positive, got -1."
    assert "exit code 3" in errors[6]


def test_an_event_comes_at_least_about_once_a_second():
    events = list(run_all(sleep_then, [2.5], workers=1))
    assert sum(event.index is None for event in events) >= 1
    assert events[-1].value == 2.5


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_closing_the_iterator_ends_the_workers(handler, restored_interrupts):
    signal.signal(signal.SIGINT, handler)
    events = run_all(sleep_then, [60.0, 60.0], workers=2)
    next(events)
    next(events)
    began = time.monotonic()
    events.close()
    assert time.monotonic() - began < 30


def test_nothing_to_do_is_done_at_once():
    assert list(run_all(sleep_then, [])) == []


def test_bad_choices_are_named():
    with pytest.raises(ConfigError, match="workers must be at least 1, got 0"):
        run_all(sleep_then, [1], workers=0)
    with pytest.raises(ConfigError, match="--executor ray"):
        run_all(sleep_then, [1], address="here:1")
    with pytest.raises(ConfigError, match="must be processes or ray, got 'threads'"):
        run_all(sleep_then, [1], executor="threads")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_an_unreachable_ray_address_is_an_error_with_a_remedy(address):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=f"no Ray cluster answers at {address}.*ray start --head"):
        list(run_all(sleep_then, [1], executor="ray", address=address))


def test_ray_without_an_address_joins_no_cluster(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert [event.value for event in run_all(abs, [-2], executor="ray", workers=1) if event.ended] == [2]


def test_described_names_type_and_place_of_what_nobody_foresaw():
    try:
        square_or_fail("raise")
    except ZeroDivisionError as error:
        assert described(error).startswith("ZeroDivisionError: nothing to divide (test_executors.py")


def deaf_at_first(argument):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(3.0)
    signal.signal(signal.SIGINT, before)
    return sleep_then(argument)


def test_a_worker_that_missed_the_interruption_is_reminded():
    events = run_all(deaf_at_first, [60.0], workers=1)
    next(events)
    began = time.monotonic()
    events.close()
    assert time.monotonic() - began < 45
