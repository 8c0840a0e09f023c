"""Episodes that the page can play: recorded while the agent is evaluated, then explained step by step."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rsa2c.envs import Source, make_single
from rsa2c.errors import EnvError, require
from rsa2c.evaluation import evaluate

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.report.embedded import Embedded

SHOWN_STEPS = 400
EXPLAIN_WORK = 20_000_000_000
"""Centres x background states x features x nodes spent on all steps of the shown episodes."""
MOST_ATTRIBUTIONS = 1_200_000
"""Attributions of all features, outputs and steps of the shown episodes: 6 MB of the page."""
FEWEST_EXPLAINED = 60
FRAMES, FRAME_WIDTH = 80, 280
EVALUATION_STEPS = 20_000
FEWEST_EPISODES = 20


@dataclass
class Episode:
    """States (T, d) that the policy acted on, its actions (T, m) and the rewards (T,) of one episode."""

    seed: int = 0
    ended: str = "cut"
    observations: list[NDArray[Any]] = field(default_factory=list)
    actions: list[NDArray[Any]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    @property
    def total(self) -> float:
        return float(np.sum(self.rewards))


class _Recorded(gym.Wrapper[Any, Any, Any, Any]):
    """Records observations, actions and rewards into an `Episode`."""

    def __init__(self, env: gym.Env[Any, Any], episode: Episode) -> None:
        super().__init__(env)
        self.episode = episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seen, info = self.env.reset(seed=seed, options=options)
        self.episode.seed = seed or 0
        return self._seen, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.episode.observations.append(np.array(self._seen, dtype=np.float64))
        self.episode.actions.append(np.array(action, dtype=np.float64))
        self._seen, reward, terminated, truncated, info = self.env.step(action)
        self.episode.rewards.append(float(reward))
        self.episode.ended = "terminated" if terminated else "truncated" if truncated else "cut"
        return self._seen, reward, terminated, truncated, info


def replay(agent: RSA2C, seed: int) -> Episode:
    """The episode of an evaluation that started from this seed, played again without noise and recorded."""
    episode = Episode()

    def recording() -> gym.Env[Any, Any]:
        k, kind = agent.config.distractors, agent.config.distractor_kind
        return _Recorded(make_single(agent.source, distractors=k, distractor_kind=kind), episode)

    source = Source(factory=recording, alone=agent.source.alone)
    evaluate(agent, source, episodes=1, seed=seed, step_timeout=agent.config.step_timeout)
    episode.observations = list(agent.filtered(np.array(episode.observations)))
    return episode


def final_episodes(agent: RSA2C) -> int:
    """100, or fewer if episodes are long."""
    return max(FEWEST_EPISODES, min(100, EVALUATION_STEPS // (agent.episode_limit or agent.sizes.horizon)))


def chosen(returns: NDArray[np.float64]) -> list[tuple[str, int]]:
    """The seeds of the worst episode, the median one and the best; episode i started from seed i."""
    order = [int(i) for i in np.argsort(returns, kind="stable")]
    picked = {order[0]: "worst"}
    picked.setdefault(order[len(order) // 2], "median")
    picked.setdefault(order[-1], "best")
    return [(label, seed) for seed, label in picked.items()]


def document(embedded: Embedded, shown: list[tuple[str, Episode]]) -> list[dict[str, Any]]:
    """The shown episodes; steps are thinned to fit a page, explanations to fit it and the time budget."""
    work = sum(f.centres.size * embedded.nodes[name] for name, f in embedded.functions.items())
    numbers = len(embedded.agent.feature_names) * len(embedded.output_names) * len(shown)
    affordable = min(EXPLAIN_WORK // (work * len(embedded.background) * len(shown)), MOST_ATTRIBUTIONS // numbers)
    return [_episode(embedded, label, episode, max(FEWEST_EXPLAINED, affordable)) for label, episode in shown]


def _episode(embedded: Embedded, label: str, episode: Episode, explained: int) -> dict[str, Any]:
    agent, length = embedded.agent, len(episode.rewards)
    stride = -(-length // SHOWN_STEPS)
    steps = np.arange(0, length, stride)
    every = -(-len(steps) // explained)
    states = np.array(episode.observations)[steps]
    columns = states[::every]
    parts = [embedded.in_units(name, embedded.explain(name, columns)) for name in embedded.functions]
    return {
        "label": label,
        "seed": episode.seed,
        "return": episode.total,
        "length": length,
        "ended": episode.ended,
        "stride": stride,
        "every": every,
        "states": states,
        "actions": np.array(episode.actions)[steps],
        "rewards": np.array(episode.rewards, dtype=np.float32),
        "values": agent.value(states)[:, 0] if "value" in embedded.functions else None,
        "attributions": np.concatenate(parts, axis=2).astype(np.float32),
        "nearest": embedded.agent.familiarity(states),
    }


def frames(source: Source, episode: Episode) -> dict[str, Any]:
    """Small pictures of an episode, which is replayed from its seed and actions."""
    image = require("PIL.Image", "envs", "Drawing the environment")
    every = -(-len(episode.rewards) // FRAMES)
    pictures = []
    for pixels in rendered(drawn_env(source), episode, range(0, len(episode.rewards), every)):
        picture = image.fromarray(pixels)
        picture.thumbnail((FRAME_WIDTH, FRAME_WIDTH))
        buffer = io.BytesIO()
        picture.save(buffer, "WEBP", quality=60)
        pictures.append("data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode())
    return {"every": every, "images": pictures}


def drawn_env(source: Source) -> gym.Env[Any, Any]:
    """One environment that draws itself as pixels."""
    drawn = source if source.id is None else Source(id=source.id, kwargs={**source.kwargs, "render_mode": "rgb_array"})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, that it does not draw, which is said here
            env = make_single(drawn)
    except EnvError as error:
        if "render_mode" in str(error):
            raise EnvError(f"{source.name} takes no render_mode, so it draws nothing.") from error
        raise
    if env.render_mode != "rgb_array":
        env.close()
        raise EnvError(f"{source.name} is made without render_mode='rgb_array', so it draws nothing.")
    return env


def rendered(env: gym.Env[Any, Any], episode: Episode, steps: Container[int]) -> Iterator[NDArray[np.uint8]]:
    """Pixels (height, width, 3) at those steps of an episode, which is replayed from its seed and actions."""
    try:
        env.reset(seed=episode.seed)
        for step, action in enumerate(episode.actions):
            if step in steps:
                pixels: Any = env.render()
                yield np.asarray(pixels)
            env.step(action.astype(env.action_space.dtype))
    finally:
        env.close()
