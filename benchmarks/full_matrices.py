"""What the paper's two matrices would buy if they were full: Sigma_K of the actor's kernel, and W of its metric.

    python benchmarks/full_matrices.py step [--environments Hopper-v5,Walker2d-v5] [--epochs 40]
    python benchmarks/full_matrices.py train [--environments ...] [--seeds 0 1] [--steps 400000]

`step`: with K = k Sigma_K the damped natural gradient D solves (G kron Sigma^-1 + r K_DD kron Sigma_K^-1) vec(D) =
vec(g), so that Sigma_K enters the ridge only. The step of a training's batch is solved for Sigma_K of different
condition numbers, and compared with that of Sigma_K = I in the metric of the KL divergence.

`train`: a kernel with a full W = A^T A is a kernel with equal weights on A s. A whitens the states that the zoo's agent
visits, which makes W the inverse of their covariance. Beside it the same training on s itself; both unguided, and on
Gymnasium's environments.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import rsa2c
from _provenance import header
from rsa2c.algorithm.fits import Fits
from rsa2c.algorithm.threads import limited_threads

CONDITIONS = (1.0, 10.0, 100.0, 1000.0)
DRAWS = 5
EPISODES = 20


class Recording(Fits):
    """The fits of an epoch, the last Advantage Critic remembered."""

    def advantage(self, policy: Any, *arguments: Any, **options: Any) -> Any:
        self.policy, self.fit = policy, super().advantage(policy, *arguments, **options)
        return self.fit


def step_with(sigma_k: NDArray, fit: Any, policy: Any, ridge: float) -> NDArray[np.float64]:
    """(q, m): the damped natural gradient of h = sum_j k(., s_j) Sigma_K c_j, in coefficients Sigma_K c_j."""
    gram, covariance = policy.mean.dictionary.gram, policy.covariance
    system = np.kron(fit.second_moment, np.linalg.inv(covariance)) + ridge * np.kron(gram, np.linalg.inv(sigma_k))
    return np.linalg.solve(system, fit.gradient.ravel()).reshape(fit.gradient.shape)


def drawn(condition: float, m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A matrix with mean eigenvalue one and this condition number."""
    eigenvalues = np.geomspace(1.0, condition, m)
    basis = np.linalg.qr(rng.standard_normal((m, m)))[0]
    return basis * (eigenvalues / eigenvalues.mean()) @ basis.T


def steps(env_id: str, epochs: int) -> None:
    agent = rsa2c.RSA2C(env_id, "advanced-ac", seed=1000, keep="last")
    assert agent._workers is not None
    agent._workers.fits = record = Recording()
    with limited_threads(1):
        for _ in range(epochs):
            agent.run_epoch()
        fit, policy, rng = record.fit, record.policy, np.random.default_rng(0)
        precision, ridge = np.linalg.inv(policy.covariance), agent.config.advantage.advantage_ridge

        def inner(a: NDArray, b: NDArray) -> float:
            return float(np.einsum("im,ij,jn,nm->", a, fit.second_moment, b, precision, optimize=True))

        m = len(policy.sigma)
        plain = step_with(np.eye(m), fit, policy, ridge)
        np.testing.assert_allclose(plain, fit.weights, atol=1e-6 * np.abs(plain).max())
        for condition in CONDITIONS[1:]:
            cosines, gains = [], []
            for _ in range(DRAWS):
                step = step_with(drawn(condition, m, rng), fit, policy, ridge)
                cosines.append(inner(plain, step) / np.sqrt(inner(plain, plain) * inner(step, step)))
                rises = [np.sum(fit.gradient * each) / np.sqrt(inner(each, each)) for each in (step, plain)]
                gains.append(rises[0] / rises[1])
            print(f"| {env_id} | {condition:.0f} | {min(cosines):.3f} to {max(cosines):.3f} | "
                  f"{min(gains):.3f} to {max(gains):.3f} |", flush=True)  # fmt: skip


class Rotated(gymnasium.ObservationWrapper):
    """Observations A (s - mean)."""

    def __init__(self, env: gymnasium.Env, matrix: NDArray, mean: NDArray) -> None:
        super().__init__(env)
        self.matrix, self.mean = matrix, mean
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, mean.shape, np.float64)

    def observation(self, observation: NDArray) -> NDArray:
        return self.matrix @ (observation - self.mean)


def whitening(env_id: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A with A Cov A^T = I for the states that the zoo's agent visits, and their mean."""
    states = rsa2c.load(f"zoo:{env_id}").background
    values, vectors = np.linalg.eigh(np.cov(states.T))
    return (vectors / np.sqrt(values)).T, states.mean(axis=0)


def training(env_id: str, seed: int, total: int) -> None:
    matrix, mean = whitening(env_id)
    for name, a in (("diagonal", np.eye(len(mean))), ("full", matrix)):

        def made(a: NDArray = a) -> gymnasium.Env:
            return Rotated(gymnasium.make(env_id), a, mean)

        agent = rsa2c.RSA2C(made, "advanced-ac", seed=seed).learn(total)
        result = rsa2c.evaluate(agent, made, episodes=EPISODES)
        print(f"| {env_id} | {name} | {seed} | {agent.num_timesteps:,} | {result.mean:,.0f} |", flush=True)
        agent.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("step", "train"))
    parser.add_argument("--environments", default="Hopper-v5,Walker2d-v5")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=400_000)
    options = parser.parse_args()
    print(header())
    names = options.environments.split(",")
    if options.part == "step":
        print("| environment | condition of Sigma_K | cosine with the step of Sigma_K = I | its predicted gain |")
        print("|---|---|---|---|")
        for env_id in names:
            steps(env_id, options.epochs)
    else:
        print("| environment | W | seed | steps | return |")
        print("|---|---|---|---|---|")
        for env_id in names:
            for seed in options.seeds:
                training(env_id, seed, options.steps)


if __name__ == "__main__":
    main()
