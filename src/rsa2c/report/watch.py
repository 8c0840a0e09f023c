"""`rsa2c watch`: one episode as GIF or MP4, with what each feature adds to the action beside the picture."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import ConfigError, EnvError, described, notice, require
from rsa2c.files import PathLike, write_atomically
from rsa2c.report.drawing import Array, Drawer, Sheet
from rsa2c.report.embedded import Embedded
from rsa2c.report.episodes import Episode, drawn_env, rendered, replay

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

Picture = Literal["auto", "environment", "chart"]
SUFFIXES = (".gif", ".mp4")
USUAL_FPS = 30
"""Steps a second where the environment does not say."""

SLOWEST = 0.1
"""Seconds of a frame: where few frames have to show a long episode, it plays faster than it happened."""


@dataclass(frozen=True, eq=False)
class Watched:
    """What was written."""

    path: Path
    episode: Episode
    frames: int
    drawn: bool
    """Whether the environment drew the pictures; otherwise they are charts."""


def watch(agent: RSA2C, path: PathLike, seed: int = 0, frames: int = 200, picture: Picture = "auto") -> Watched:
    """Play the episode of one seed and write it as a film of at most `frames` frames, .gif or .mp4 by its name.

    `picture="environment"` needs an environment that can draw itself here, "chart" draws the features over time, and
    "auto" takes the first where it works.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"a film is a file {' or '.join(SUFFIXES)}, got {path.name!r}.")
    if frames < 2:
        raise ConfigError(f"frames must be at least 2, got {frames}.")
    require("PIL.Image", "watch", "Drawing an episode")
    if path.suffix.lower() == ".mp4":
        require("imageio_ffmpeg", "watch", "Writing MP4 (GIF needs only Pillow)")
    episode = replay(agent, seed)
    every = -(-len(episode.rewards) // frames)
    steps = range(0, len(episode.rewards), every)
    pictures, fps = ([], USUAL_FPS) if picture == "chart" else _pictures(agent, episode, steps, picture)
    drawer = Drawer(sheet(agent, episode, steps))
    so_far = np.cumsum(episode.rewards)
    drawn = [
        drawer.frame(number, f"step {step}, return so far {so_far[step]:.1f}", pictures[number] if pictures else None)
        for number, step in enumerate(steps)
    ]
    seconds = min(every / fps, SLOWEST)
    content = _gif(drawn, seconds) if path.suffix.lower() == ".gif" else _mp4(drawn, 1 / seconds)
    write_atomically(path, content)
    return Watched(path, episode, len(drawn), bool(pictures))


def sheet(agent: RSA2C, episode: Episode, steps: Sequence[int]) -> Sheet:
    """The states, actions and contributions of an episode at those steps.

    Contributions are interventional Shapley values, brought through the squashing function as on the report's page: at
    each step they add up to the action minus that of the background.
    """
    embedded, bounds = Embedded(agent), agent.policy.bounds
    rows = np.asarray(steps)
    states: Array = np.array(episode.observations)[rows]
    return Sheet(
        title=f"{agent.env_id}, {agent.algorithm}, seed {episode.seed}",
        features=agent.feature_names,
        actions=agent.action_names,
        states=states,
        chosen=np.array(episode.actions)[rows].reshape(len(rows), -1),
        contributions=embedded.in_units("action", embedded.explain("action", states)),
        low=np.ravel(bounds.low),
        high=np.ravel(bounds.high),
    )


def _pictures(agent: RSA2C, episode: Episode, steps: range, picture: Picture) -> tuple[list[NDArray[np.uint8]], float]:
    """The environment's own pictures and its frames a second; none where it cannot draw and need not.

    Renderers raise any exception where there is no display.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a renderer's warnings say what the exception says
            env = drawn_env(agent.source)
            fps = float(env.metadata.get("render_fps") or USUAL_FPS)
            return list(rendered(env, episode, steps)), fps
    except Exception as error:
        reason = f"{agent.env_id} cannot be drawn here: {described(error).rstrip('.')}."
        if picture == "environment":
            remedy = "Without a display, MuJoCo needs MUJOCO_GL=egl or osmesa. --picture chart needs no renderer."
            raise EnvError(f"{reason} {remedy}") from error
        notice(f"{reason} A chart of the features takes the picture's place.")
        return [], USUAL_FPS


def _gif(frames: list[Any], seconds: float) -> bytes:
    """An endless GIF; players show no frame for less than 20 ms."""
    buffer = io.BytesIO()
    reduced = [frame.quantize(128) for frame in frames]
    duration = max(20, round(1000 * seconds))
    reduced[0].save(buffer, "GIF", save_all=True, append_images=reduced[1:], duration=duration, loop=0)
    return buffer.getvalue()


def _mp4(frames: list[Any], fps: float) -> bytes:
    """H.264, which browsers play; ffmpeg writes to a file only."""
    imageio = require("imageio", "watch", "Writing MP4")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        with imageio.get_writer(path, fps=fps, codec="libx264", macro_block_size=2) as writer:
            for frame in frames:
                writer.append_data(np.asarray(frame))
        return path.read_bytes()
