"""Films of episodes: they show what the agent did, and every environment has one, with a renderer or without."""

from __future__ import annotations

import numpy as np
import pytest

import rsa2c
from rsa2c.cli import main
from rsa2c.envs import Source
from rsa2c.errors import ConfigError, EnvError, Notice
from rsa2c.report import watch as module
from rsa2c.report.episodes import drawn_env, rendered, replay
from rsa2c.report.watch import sheet, watch

image = pytest.importorskip("PIL.Image", reason="pip install 'rsa2c[watch]'")
PENDULUM = "zoo:Pendulum-v1"


@pytest.fixture(scope="module")
def agent():
    return rsa2c.load(PENDULUM)


@pytest.fixture(scope="module")
def episode(agent):
    return replay(agent, 3)


def test_contributions_add_up_to_the_actions(agent, episode):
    steps = range(0, 200, 20)
    shown = sheet(agent, episode, steps)
    rest = shown.chosen - shown.contributions.sum(axis=1)
    np.testing.assert_allclose(rest, rest[:1].repeat(len(rest), axis=0), atol=1e-6)  # the background's action
    np.testing.assert_array_equal(shown.states, np.array(episode.observations)[::20])
    assert shown.contributions.shape == (10, 3, 1)


def test_the_rows_are_the_features_that_contribute_most(agent, episode):
    shown = sheet(agent, episode, range(0, 200, 20))
    sizes = np.abs(shown.contributions).mean(axis=(0, 2))
    assert shown.rows == sorted(range(3), key=lambda i: -sizes[i])
    assert shown.scale == pytest.approx(np.abs(shown.contributions).max())


def test_pictures_show_the_episode_itself(agent, episode):
    pytest.importorskip("pygame")
    env = drawn_env(agent.source)
    pictures = list(rendered(env, episode, range(0, 200, 50)))
    cos, sin, _ = episode.observations[50]
    env = drawn_env(agent.source)
    env.reset(seed=0)
    env.unwrapped.state = np.array([np.arctan2(sin, cos), 0.0])
    env.unwrapped.last_u = None
    expected = env.render()
    env.close()
    # The arrow of the torque is drawn as well
    assert len(pictures) == 4
    assert np.mean(np.any(pictures[1] != expected, axis=2)) < 0.05
    assert np.mean(np.any(pictures[0] != expected, axis=2)) > np.mean(np.any(pictures[1] != expected, axis=2))


@pytest.mark.parametrize("picture", ["auto", "chart"])
def test_a_gif_has_a_frame_for_each_shown_step(agent, tmp_path, picture):
    if picture == "auto":
        pytest.importorskip("pygame")
    written = watch(agent, tmp_path / "a.gif", seed=3, frames=50, picture=picture)
    with image.open(written.path) as film:
        assert film.n_frames == written.frames == 50
        assert film.info["duration"] == 100  # four steps at 30 a second would be 133
        first = np.asarray(film.convert("RGB"))
        film.seek(49)
        assert np.any(np.asarray(film.convert("RGB")) != first)
    assert written.drawn == (picture == "auto")
    assert written.episode.total == pytest.approx(replay(agent, 3).total)


def test_an_mp4_has_as_many_frames(agent, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    import imageio

    written = watch(agent, tmp_path / "a.mp4", frames=20, picture="chart")
    with imageio.get_reader(written.path) as film:
        assert film.count_frames() == 20
        assert film.get_meta_data()["size"] == (780, 360)


def test_an_environment_that_cannot_be_drawn_has_a_chart_and_a_notice(agent, tmp_path, monkeypatch):
    def fails(source: Source):
        raise RuntimeError("no display")

    monkeypatch.setattr(module, "drawn_env", fails)
    with pytest.warns(Notice, match=r"Pendulum-v1 cannot be drawn here: RuntimeError: no display .* A chart"):
        written = watch(agent, tmp_path / "a.gif", frames=5)
    assert not written.drawn
    with pytest.raises(EnvError, match="--picture chart needs no renderer"):
        watch(agent, tmp_path / "b.gif", frames=5, picture="environment")
    assert not (tmp_path / "b.gif").exists()


def test_wrong_films_are_refused(agent, tmp_path):
    with pytest.raises(ConfigError, match=r"\.gif or \.mp4, got 'a\.avi'"):
        watch(agent, tmp_path / "a.avi")
    with pytest.raises(ConfigError, match="frames must be at least 2, got 1"):
        watch(agent, tmp_path / "a.gif", frames=1)


def test_the_command_names_its_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", PENDULUM, "--frames", "5", "--picture", "chart"]) == 0
    out = capsys.readouterr().out
    assert "file  episode-Pendulum-v1.gif" in out
    assert (tmp_path / "episode-Pendulum-v1.gif").stat().st_size > 1000
    assert main(["watch", PENDULUM, "--out", "film.avi"]) == 2
    assert ".gif or .mp4" in capsys.readouterr().err
