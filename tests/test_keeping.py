"""The policy that acts after training: the best one, by episodes that nothing was learned from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rsa2c import RSA2C, evaluate
from rsa2c.algorithm import keeping
from rsa2c.algorithm.keeping import concluded, keep_best
from rsa2c.algorithm.schedules import doubling
from rsa2c.algorithm.trials import first_episodes
from rsa2c.algorithm.workers import Workers

SMALL = {"n_envs": 4, "horizon": 200, "capacity": 32, "initial_centres": 16}


@pytest.fixture(scope="module")
def trained() -> RSA2C:
    agent = RSA2C("InvertedPendulum-v5", "advanced-ac", seed=3, backend="gymnasium", **SMALL)
    return agent.learn(13_000)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_first_episodes_are_those_of_an_evaluation(trained: RSA2C, mode: AutoresetMode) -> None:
    env = SyncVectorEnv([lambda: gym.make("InvertedPendulum-v5")] * 4, autoreset_mode=mode)
    returns, length = first_episodes(trained.policy, env, 1000, 17, None)
    env.close()
    expected = evaluate(trained, "InvertedPendulum-v5", episodes=4, seed=17)
    assert np.array_equal(returns, expected.returns) and length == max(expected.lengths)


def test_a_worse_policy_does_not_replace_the_one_kept(trained: RSA2C, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "STEPS_BETWEEN_TRIALS", 1)
    state, config = trained.state, trained.config
    env = trained.workers
    first = keep_best(state, 0, env, config)
    assert first is not None and first.policy is state.policy and first.score > 1.0
    worse = replace(state.policy, mean=replace(state.policy.mean, coefficients=-state.policy.mean.coefficients))
    still = keep_best(replace(state, policy=worse, kept=first), 0, env, config)
    assert still is not None and still.policy is first.policy and still.epoch == first.epoch
    low = replace(first, policy=worse, score=0.0)
    newest = keep_best(replace(state, epoch=state.epoch + 1, kept=low), 0, env, config)
    assert newest is not None and newest.epoch == state.epoch + 1


def test_the_policy_kept_is_tried_again_and_its_score_is_the_mean_of_all_its_episodes(
    trained: RSA2C, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "STEPS_BETWEEN_TRIALS", 1)
    seen: list[np.ndarray] = []
    steps: list[int] = []

    def watched(self: Workers, *arguments: Any) -> tuple[np.ndarray, int]:
        returns, length = plain(self, *arguments)
        seen.append(returns)
        steps.append(4 * length)
        return returns, length

    plain = Workers.first_episodes
    monkeypatch.setattr(Workers, "first_episodes", watched)
    state, config = trained.state, trained.config
    env = trained.workers
    first = keep_best(state, 0, env, config)
    assert first is not None and first.episodes == 4 * len(seen) and first.score == pytest.approx(np.mean(seen))
    assert sum(steps) >= 12 * 900 > sum(steps[:-1]), "short episodes: as many as the steps of twelve allow"
    lucky = replace(first, score=10_000.0, episodes=4)
    seen.clear()
    later = keep_best(replace(state, kept=lucky), 0, env, config)
    assert later is not None and later.policy is lucky.policy and later.episodes > 4
    own = np.concatenate(seen)[: later.episodes - 4]
    assert later.score == pytest.approx((4 * 10_000.0 + own.sum()) / later.episodes)


def test_a_policy_that_replaces_another_was_tried_as_often(trained: RSA2C, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "STEPS_BETWEEN_TRIALS", 1_000)
    state, env, config = replace(trained.state, steps=13_000), trained.workers, trained.config
    tried: list[int] = []

    def always(returns: list[float]) -> Any:
        def tries(policy: Any, env: Any, episodes: int, *_: Any) -> np.ndarray:
            tried.append(episodes)
            return np.full(episodes, returns[min(len(tried), len(returns)) - 1])

        return tries

    first = keep_best(state, 0, env, config)
    assert first is not None
    kept = replace(first, score=1.0, steps=8_000)
    monkeypatch.setattr(keeping, "_returns", always([1.0, 2.0]))
    newest = keep_best(replace(state, kept=kept, epoch=99), 12_000, env, config)
    assert newest is not None and newest.epoch == 99
    assert tried == [4, 4, 12, 4, 4, 4, 4, 4], "the one kept, a first trial, a confirmation, and five trials"
    assert newest.episodes == sum(tried[2:])
    tried.clear()
    monkeypatch.setattr(keeping, "_returns", always([1.0, 2.0, 2.0, -20.0]))
    still = keep_best(replace(state, kept=kept, epoch=99), 12_000, env, config)
    assert still is not None and still.epoch == kept.epoch and tried == [4, 4, 12, 4], "given up where it is no better"


def test_trials_double_their_distance_until_it_is_the_usual_one() -> None:
    marks = [steps for steps in range(1, 31) if doubling(steps, 2, 10) > doubling(steps - 1, 2, 10)]
    assert marks == [2, 4, 8, 10, 20, 30]
    assert [doubling(steps, 7, 7) for steps in (0, 6, 7, 13, 14, 70)] == [0, 0, 1, 1, 2, 10]


def test_a_training_here_ends_without_a_trial_of_its_own(trained: RSA2C) -> None:
    state, config = trained.state, trained.config
    assert config.keep == "best" and concluded(state, 0, trained.workers, config) is state


def test_between_trials_and_by_choice_nothing_is_tried(trained: RSA2C) -> None:
    state, config = trained.state, trained.config
    env = trained.workers
    assert state.steps < keeping.STEPS_BETWEEN_TRIALS
    assert keep_best(state, 0, env, config) is None
    assert keep_best(replace(state, steps=10**6), 0, env, config.updated(keep="last")) is None


def test_the_kept_policy_acts_and_the_last_one_learns(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "STEPS_BETWEEN_TRIALS", 1_000)
    agent = RSA2C("InvertedPendulum-v5", seed=3, backend="gymnasium", **SMALL).learn(16_000)
    kept = agent.state.kept
    assert kept is not None and agent.policy is kept.policy and agent.value is kept.value
    agent.save(tmp_path / "model.safetensors")
    loaded = RSA2C.load(tmp_path / "model.safetensors")
    states = agent.background
    assert np.array_equal(loaded.predict(states)[0], agent.predict(states)[0])
    assert np.array_equal(loaded.explain(states[:4]).values, agent.explain(states[:4]).values)
    for each in (agent, loaded):
        each.learn(3_000)
    assert np.array_equal(loaded.state.policy.mean.coefficients, agent.state.policy.mean.coefficients)
    assert loaded.acting.steps == agent.acting.steps and loaded.state.kept.score == agent.state.kept.score
