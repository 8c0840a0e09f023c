"""Analytic costs against operations counted while real epochs run, torch's own counter, and measured memory."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import counting
import rsa2c.algorithm.guidance
from rsa2c import RSA2C
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import shapley_product
from rsa2c.attribution.quadrature import scaled_quadrature
from rsa2c.attribution.simd import LANES
from rsa2c.baselines.policy import make_baseline
from rsa2c.baselines.settings import Settings, settings
from rsa2c.cli import main
from rsa2c.config import make_config
from rsa2c.cost import flops as cost
from rsa2c.cost import operations
from rsa2c.cost.networks import iteration, ppo_iteration, sac_iteration
from rsa2c.cost.profile import profile
from rsa2c.cost.typical import mean_flops, typical_epoch
from rsa2c.errors import ConfigError
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.runs.training import train_run

TINY = {
    "n_envs": 4, "horizon": 50, "capacity": 40, "initial_centres": 24, "attribution_every": 1,
    "attribution_centres": 20, "attribution_states": 6, "attribution_background": LANES, "attribution_warmup": 1,
    "admission_candidates": 120, "precision": "float64", "backend": "arrays",
}  # fmt: skip


class Drift(gym.Env):
    """Two actions push a point in the plane, which has two useless coordinates more and runs away in time."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.normal(size=4), 0
        return self.state.copy(), {}

    def step(self, action):
        self.time += 1
        self.state = 0.95 * self.state + self.np_random.normal(size=4) * 0.3
        self.state[:2] += action
        ended = bool(np.abs(self.state).max() > 4)
        return self.state.copy(), -float(np.sum(self.state[:2] ** 2)), ended, self.time >= 50, {}


def counted_shapley(x, background, centres, coefficients, kernel, nodes):
    """The sweeps of `quadrature.py` in plain loops on counting numbers: nodes in fours and twos, by lanes."""
    gaussian, d = kernel.name == "rbf", x.shape[1]
    xs, bs, cs = (counting.numbers(array * kernel.scales) for array in (x, background, centres))
    outputs = coefficients.shape[1]
    values = [[[counting.Number(0.0)] * outputs for _ in range(d)] for _ in x]

    def factor(one, other):
        u = one - other
        return (counting.Number(0.0) - (u * u * 0.5 if gaussian else abs(u))).exp()

    for centre, weights in zip(cs, coefficients, strict=True):
        for c, r, w in scaled_quadrature(nodes, d):
            b = [[factor(row[i], centre[i]) * c for i in range(d)] for row in bs]
            for t, state in enumerate(xs):
                a = [factor(state[i], centre[i]) for i in range(d)]
                ca = [c * entry for entry in a]
                ra = [[float(node) * entry for entry in a] for node in r]
                groups = [range(n, min(n + 4, len(r))) for n in range(0, len(r), 4)]
                sums = [[counting.Number(0.0) for _ in range(LANES)] for _ in range(d)]
                for lane, row in enumerate(b):
                    for group in groups:
                        prefix, suffix = [], {}
                        products = {n: counting.Number(1.0) for n in group}
                        for i in range(d):
                            prefix.append(dict(products))
                            for n in group:
                                products[n] = products[n] * (row[i] + ra[n][i])
                        total(products[n] * float(w[n]) for n in group)  # what decides whether to go on
                        for n in group:
                            suffix[n] = counting.Number(1.0 / len(b)) * float(w[n])
                        for i in range(d - 1, -1, -1):
                            others = total(prefix[i][n] * suffix[n] for n in group)
                            slot = sums[i][lane % LANES]
                            sums[i][lane % LANES] = others * (ca[i] - row[i]) + slot
                            for n in group:
                                suffix[n] = suffix[n] * (row[i] + ra[n][i])
                for i in range(d):
                    g = counting.Number(0.0) + total(iter(sums[i])) / c
                    for o in range(outputs):
                        values[t][i][o] = values[t][i][o] + g * float(weights[o])
    return np.array([[[float(v) for v in row] for row in state] for state in values])


def total(terms):
    result = next(terms)
    for term in terms:
        result = result + term
    return result


def game(d, kernel, rng):
    scale = kernel_from_name(kernel, 0.7 * np.sqrt(d), rng.uniform(0.5, 2.0, d))
    x, background, centres, coefficients = (rng.normal(size=size) for size in ((3, d), (2 * LANES, d), (4, d), (4, 2)))
    return x, background, centres, coefficients, scale


@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
@pytest.mark.parametrize("d, nodes", [(3, 2), (5, 3), (9, 5), (12, 6)])
def test_shapley_values_cost_what_plain_loops_count(d, nodes, kernel):
    x, background, centres, coefficients, scale = game(d, kernel, np.random.default_rng(d))
    before = counting.TALLY["operations"]
    slow = counted_shapley(x, background, centres, coefficients, scale, nodes)
    counted = counting.TALLY["operations"] - before
    fast = shapley_product(Game(x, background, centres, coefficients, scale), nodes)
    np.testing.assert_allclose(slow, fast, atol=1e-12)
    formula = cost.shapley_flops(len(x), len(background), len(centres), d, 2, nodes, scale.factor_operations)
    assert formula == pytest.approx(counted, rel=0.01)


def test_textbook_factorisations_have_their_polynomials():
    for n in (1, 2, 3, 7, 12):
        assert operations.cholesky(n) == pytest.approx(counting.cholesky_operations(n))
        assert operations.lu(n, 0) == pytest.approx(counting.lu_operations(n))
        assert operations.lu(n, 1) - operations.lu(n, 0) == counting.lu_solve_operations(n)
        assert counting.triangular_operations(n) == n**2
        assert operations.triangular_inverse(n) == pytest.approx(counting.inverse_operations(n), abs=n**2)


def counting_function(function):
    """The same function, of arrays that count."""
    dictionary, kernel = function.dictionary, function.kernel
    owned = ((dictionary, ("states", "centres")), (kernel.metric, ("mean", "weights")), (kernel, ("scales",)))
    for owner, name in ((owner, name) for owner, names in owned for name in names):
        object.__setattr__(owner, name, getattr(owner, name).view(counting.Counted))
    return replace(function, coefficients=function.coefficients.view(counting.Counted))


def counted_epoch(agent, monkeypatch):
    """Operations of each phase of the agent's next epoch as they happen, and the formulas' for its sizes."""
    counts: dict[str, int] = {}
    mean, value = counting_function(agent.policy_mean), agent.state.value
    sigma = agent.policy.sigma.view(counting.Counted)
    agent.state = replace(
        agent.state, policy=replace(agent.policy, mean=mean, sigma=sigma), value=value and counting_function(value)
    )
    exact = rsa2c.algorithm.guidance.shapley_product
    step = agent.env.step

    with counting.counted(monkeypatch) as tally, monkeypatch.context() as patch:

        @contextmanager
        def phase(name):
            before = tally["operations"]
            yield
            counts[name] = tally["operations"] - before

        def shapley(game, nodes):
            plain = [np.asarray(array) for array in (game.states, game.background, game.centres, game.coefficients)]
            kernel = kernel_from_name(game.kernel.name, game.kernel.length_scale, np.asarray(game.kernel.weights))
            counted_shapley(*plain, kernel, nodes)
            return exact(Game(*plain, kernel), nodes).view(counting.Counted)

        patch.setattr(rsa2c.algorithm.guidance, "shapley_product", shapley)
        patch.setattr(agent.env, "step", lambda action: step(np.asarray(action)))
        epoch = agent.run_epoch(around=phase).work
    return counts, cost.flops(agent.config, epoch), epoch


def compare(counts, formula):
    for phase in cost.PHASES:
        assert formula[phase] == pytest.approx(counts[phase], rel=0.003, abs=20), (phase, counts, formula)


SETTINGS = {
    "default": {},
    "laplace": {"kernel": "laplace"},
    "cme": {"algorithm": "rsa2c-cme"},
    "cme, Fourier features": {"algorithm": "rsa2c-cme", "cme_approximation": "fourier", "cme_rank": 20},
    "unguided": {"algorithm": "advanced-ac"},
    "no value": {"algorithm": "rkhs-ac"},
    "rkhs metric": {"metric": "rkhs", "step_rule": "constant"},
    "value alone guides": {"guide": "value"},
    "replacing": {"initial_centres": 40, "replacement_every": 1, "replacement_limit": 7, "admission_threshold": 1e-6},
    "paper": {"preset": "paper"},
    "paper cme": {"preset": "paper", "algorithm": "rsa2c-cme"},
    "two actions": {"preset": "default", "env": True, "backend": "gymnasium"},
    "monte carlo": {"preset": "paper", "value_fit": "mc", "smooth_advantage": True},
    "noise": {"robust": "noise", "robust_ramp": 1},
    "filter": {"robust": "filter"},
    "smooth": {"robust": "smooth", "robust_ramp": 1},
    "smooth, two actions": {"robust": "smooth", "robust_ramp": 1, "env": True, "backend": "gymnasium"},
    "smooth, rkhs metric": {"robust": "smooth", "robust_ramp": 1, "metric": "rkhs", "step_rule": "constant"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_operations_of_an_epoch(name, monkeypatch):
    fields = {**TINY, **SETTINGS[name]}
    if fields.get("algorithm") in ("advanced-ac", "rkhs-ac"):
        fields = {key: value for key, value in fields.items() if not key.startswith("attribution")}
    if fields.get("preset") == "paper":
        del fields["attribution_centres"]
    env = Drift if fields.pop("env", False) else "Pendulum-v1"
    RSA2C(env, **fields).learn(1)  # compiles loops while NumPy is still NumPy
    agent = RSA2C(env, **fields)
    for number in range(4):  # weights change after two attributions
        counts, formula, epoch = counted_epoch(agent, monkeypatch)
        compare(counts, formula)
        assert number or epoch.growths
    assert bool(epoch.attribution) == (agent.config.game is not None)


@pytest.mark.parametrize("rank", [1, 5])
def test_nystroem_landmarks_cost_at_most_what_independent_ones_do(rank, monkeypatch):
    game = {"algorithm": "rsa2c-cme", "cme_approximation": "nystroem", "cme_rank": rank}
    RSA2C("Pendulum-v1", **TINY, **game).learn(1)
    agent = RSA2C("Pendulum-v1", **TINY, **game)
    counts, formula, _ = counted_epoch(agent, monkeypatch)
    if rank == 1:
        compare(counts, formula)
    else:
        assert counts["attribute"] < formula["attribute"] < 1.1 * counts["attribute"]


@pytest.mark.parametrize("use_sde", [False, True])
def test_ppo_costs_what_torch_counts(use_sde):
    pytest.importorskip("stable_baselines3")
    from torch.utils.flop_counter import FlopCounterMode

    arguments = {"n_steps": 8, "batch_size": 16, "n_epochs": 2, "use_sde": use_sde}
    model = make_baseline("ppo", "Pendulum-v1", **arguments).model
    chosen = Settings(0, n_envs=settings("ppo", "Pendulum-v1").n_envs, arguments=arguments)
    expected = ppo_iteration(3, 1, chosen)
    with FlopCounterMode(display=False) as counter:
        model.learn(expected.steps)
    assert counter.get_total_flops() == expected.flops


@pytest.mark.parametrize("extra", [{}, {"use_sde": True, "policy_kwargs": {"net_arch": [40, 30]}}])
def test_sac_costs_what_torch_counts(extra):
    pytest.importorskip("stable_baselines3")
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    arguments = {"learning_starts": 10, "batch_size": 32, "train_freq": 4, "gradient_steps": 2, **extra}
    model = make_baseline("sac", "Pendulum-v1", **arguments).model
    model.learn(12)
    expected = sac_iteration(3, 1, Settings(0, arguments=arguments))
    with FlopCounterMode(display=False) as counter:
        model.train(gradient_steps=2, batch_size=32)
    assert counter.get_total_flops() == expected.update
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.policy(torch.zeros(4, 3))
    assert counter.get_total_flops() == expected.rollout


def test_iterations_of_the_paper_s_environments():
    walker, ant = iteration("sac", "BipedalWalker-v3", 24, 4), iteration("ppo", "Ant-v5", 105, 8)
    assert walker.steps == 64 and ant.steps == 2048
    assert walker.update > walker.rollout and ant.update > ant.rollout
    with pytest.raises(ConfigError, match="unknown"):
        iteration("td3", "Ant-v5", 105, 8)


def test_typical_epochs_are_what_epochs_become():
    """Sizes planned from settings are those a real epoch has once its dictionaries are full."""
    agent = RSA2C("Pendulum-v1", **{**TINY, "replacement": "none", "attribution_warmup": 50})
    for _ in range(4):
        real = agent.run_epoch().work
    q = agent.dictionary_sizes["actor"]
    assert q == agent.sizes.capacity
    planned = typical_epoch(agent.config, 3, 1, q)
    bases = {name: getattr(planned, name) for name in ("policy", "actor", "value")}
    assert all(basis.states == getattr(real, name).states for name, basis in bases.items())
    assert len(planned.attribution) == len(real.attribution) == 2
    both = zip(planned.attribution, real.attribution, strict=True)
    attributed = [replace(each, centres=found.centres) for each, found in both]
    assert all(each.centres <= agent.config.guidance.attribution_centres for each in real.attribution)
    planned = replace(planned, attribution=tuple(attributed), reprojections=())
    assert planned == replace(real, **bases, number=planned.number)


def test_mean_costs_spread_what_is_not_due_every_epoch():
    config = make_config("Ant-v5", n_envs=8, horizon=1000, capacity=1024)
    whole = cost.flops(config, typical_epoch(config, 105, 8, 1024))
    mean = mean_flops(config, 105, 8, 1024)
    assert mean["attribute"] == pytest.approx(whole["attribute"] / config.guidance.attribution_every)
    assert mean["admit"] == pytest.approx(whole["admit"] / config.replacement.replacement_every)
    assert all(mean[phase] == whole[phase] for phase in ("collect", "value", "advantage", "actor"))
    small = mean_flops(config, 105, 8, 512)
    assert small["advantage"] < 0.5 * mean["advantage"]


@pytest.mark.parametrize(
    "fields", [{}, {"preset": "paper"}, {"precision": "float32", "value_ridge": 1e-3}, {"robust": "smooth"}]
)
def test_memory_is_what_was_estimated(fields):
    fields = {"n_envs": 20, "horizon": 200, "capacity": 200, "initial_centres": 200, "attribution_every": 1,
              "attribution_warmup": 1, "admission_threshold": 1e-5, "replacement_every": 1, **fields}  # fmt: skip
    agent = RSA2C("Pendulum-v1", **fields)
    measured = profile(agent, 1)
    largest = max(row.peak_mb for row in measured.phases)
    assert max(row.estimated_mb for row in measured.phases) == pytest.approx(largest, rel=0.25)
    for row in measured.phases:
        assert row.estimated_mb == pytest.approx(row.peak_mb, rel=0.3, abs=0.3), row
    assert measured.process_mb > largest


def test_profile_adds_up_and_leaves_the_agent_whole():
    one, other = (RSA2C("Pendulum-v1", **TINY) for _ in range(2))
    measured = profile(one, 3)
    assert [row.phase for row in measured.phases] == list(cost.PHASES)
    assert sum(row.share for row in measured.phases) == pytest.approx(1.0)
    assert sum(row.milliseconds for row in measured.phases) <= measured.milliseconds
    assert sum(row.gflop for row in measured.phases) == pytest.approx(measured.gflop)
    assert measured.attributions == 3 and measured.epochs == 3
    for _ in range(5):
        other.run_epoch()
    np.testing.assert_equal(one.history, other.history)
    with pytest.raises(ConfigError, match="epochs must be positive"):
        profile(one, 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out, fields = tmp_path_factory.mktemp("runs"), {**TINY, "evaluation_episodes": 1}
    return train_run("Pendulum-v1", total_timesteps=400, out=out, track=False, **fields).path


def test_profile_prints_the_phases_and_only_reads_the_folder(run, capsys):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(run.iterdir())}
    assert main(["profile", str(run), "--epochs", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["phase"] for row in found["phases"]] == list(cost.PHASES)
    assert found["environment"] == "Pendulum-v1" and found["epochs"] == 2 and found["gflop"] > 0
    assert main(["profile", str(run), "--epochs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == [*cost.PHASES, "epoch"]
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(run.iterdir())} == before


def test_profile_refuses(run, capsys):
    assert main(["profile", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main(["profile", str(run), "--epochs", "0"]) == 2
    assert "epochs must be positive" in capsys.readouterr().err
