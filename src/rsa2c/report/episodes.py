"""Episodes that the page can play: recorded while the agent is evaluated, then explained step by step."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rsa2c.envs import Source, make_single
from rsa2c.errors import EnvError, require
from rsa2c.evaluation import EvaluationResult, evaluate
from rsa2c.runs.training import longest_episode

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.report.embedded import Embedded

SHOWN_STEPS = 400
EXPLAIN_WORK = 20_000_000_000
"""Centres x background states x features x nodes spent on all steps of the shown episodes."""
FEWEST_EXPLAINED = 60
FRAMES, FRAME_WIDTH = 80, 280
EVALUATION_STEPS, NOISE_STEPS = 20_000, 6_000
FEWEST_EPISODES, FEWEST_NOISY, MOST_NOISY = 20, 5, 40


@dataclass
class Episode:
    """Observations (T, d) the policy saw, its actions (T, m) and the rewards (T,) of one episode."""

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


def record(agent: RSA2C, episodes: int) -> tuple[EvaluationResult, list[Episode]]:
    """Evaluate like `rsa2c evaluate`, without noise and from seed 0 on, and keep every episode."""
    recorded: list[Episode] = []

    def recording() -> gym.Env[Any, Any]:
        recorded.append(Episode())
        return _Recorded(make_single(agent.source, distractors=agent.config.distractors), recorded[-1])

    source = Source(factory=recording, alone=agent.source.alone)
    limits: dict[str, Any] = {"max_steps": longest_episode(agent), "step_timeout": agent.config.step_timeout}
    result = evaluate(agent, source, episodes=episodes, **limits)
    return result, recorded


def noise_episodes(agent: RSA2C) -> int:
    """Episodes per noise level, limited by the time it takes to build a page."""
    return max(FEWEST_NOISY, min(MOST_NOISY, NOISE_STEPS // (agent.episode_limit or agent.sizes.horizon)))


def final_episodes(agent: RSA2C) -> int:
    """100, or fewer if episodes are long."""
    return max(FEWEST_EPISODES, min(100, EVALUATION_STEPS // (agent.episode_limit or agent.sizes.horizon)))


def chosen(recorded: list[Episode]) -> list[tuple[str, Episode]]:
    """The worst episode, the median one and the best, by return."""
    order = sorted(recorded, key=lambda episode: episode.total)
    picked = {id(order[0]): ("worst", order[0])}
    picked.setdefault(id(order[len(order) // 2]), ("median", order[len(order) // 2]))
    picked.setdefault(id(order[-1]), ("best", order[-1]))
    return list(picked.values())


def document(embedded: Embedded, shown: list[tuple[str, Episode]]) -> list[dict[str, Any]]:
    """The shown episodes; steps are thinned to fit a page, explanations to fit the time budget."""
    work = sum(f.centres.size * embedded.nodes[name] for name, f in embedded.functions.items())
    affordable = EXPLAIN_WORK // (work * len(embedded.background) * len(shown))
    return [_episode(embedded, label, episode, max(FEWEST_EXPLAINED, affordable)) for label, episode in shown]


def _episode(embedded: Embedded, label: str, episode: Episode, explained: int) -> dict[str, Any]:
    agent, length = embedded.agent, len(episode.rewards)
    stride = -(-length // SHOWN_STEPS)
    steps = np.arange(0, length, stride)
    every = -(-len(steps) // explained)
    states = np.array(episode.observations)[steps]
    columns = states[::every]
    parts = [embedded.explain(name, columns).values for name in embedded.functions]
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
    drawn = source if source.id is None else Source(id=source.id, kwargs={**source.kwargs, "render_mode": "rgb_array"})
    env = make_single(drawn)
    if env.render_mode != "rgb_array":
        raise EnvError(f"{source.name} is made without render_mode='rgb_array', so it draws nothing.")
    every = -(-len(episode.rewards) // FRAMES)
    pictures = []
    try:
        env.reset(seed=episode.seed)
        for step, action in enumerate(episode.actions):
            if step % every == 0:
                pixels: Any = env.render()
                picture = image.fromarray(np.asarray(pixels))
                picture.thumbnail((FRAME_WIDTH, FRAME_WIDTH))
                buffer = io.BytesIO()
                picture.save(buffer, "WEBP", quality=60)
                pictures.append("data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode())
            env.step(action.astype(env.action_space.dtype))
    finally:
        env.close()
    return {"every": every, "images": pictures}
