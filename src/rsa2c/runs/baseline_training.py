"""Baselines in run folders: the files of a kernel agent's run, without attributions, and Stable-Baselines3's own.

`model.safetensors` has the policy's parameters and the normaliser's statistics, and is all that rsa2c reads: a policy
built from `config.yaml` takes them, and nothing is unpickled. `model.zip` is for `SAC.load` and `PPO.load`, which
unpickle parts of it: load only files of people you trust (a PPO trained on normalised observations needs them
normalised there, too; the statistics are in `model.safetensors`). Both are written when training ends. SB3 cannot
continue exactly where it was stopped, so a run without a model starts over.
"""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from rsa2c.baselines.policy import (
    PRESET,
    Baseline,
    BaselineConfig,
    baseline_config,
    baseline_env,
    build_baseline,
    resolved,
    settings,
    torch_threads,
    watched,
)
from rsa2c.envs.watchdog import native_limit
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError, require
from rsa2c.evaluation import EvaluationResult
from rsa2c.files import Metadata, PathLike, Tensors, read_tensors, remove, write_atomically, write_tensors
from rsa2c.progress import PLAIN_INTERVAL, clock
from rsa2c.runs.data import RunData
from rsa2c.runs.evaluation import TrainingInterrupted, evaluate_agent, signals_ignored, terminations_interrupt
from rsa2c.runs.folder import Run
from rsa2c.runs.names import make_run_id
from rsa2c.runs.provenance import provenance
from rsa2c.sb3.tensorboard import Tracker, evaluation_scalars, tracker_in

ROW_STEPS = 1_000
"""Training steps between rows of `metrics.csv` (PPO: at least, and then to the end of the rollout)."""
PACKAGES = ("torch", "stable_baselines3")
_MOMENTS = ("mean", "var", "count")


def train(
    env_id: str,
    algorithm: str,
    preset: str,
    total_timesteps: int | None,
    out: PathLike,
    suffix: str = "",
    *,
    display: bool,
    track: bool,
    **fields: Any,
) -> Run:
    """Train a new baseline in a new folder under `out`; the preset `default` means RL-Zoo's."""
    if preset not in (PRESET, "default"):
        raise ConfigError(f"preset {preset!r} does not exist for {algorithm}; it has {PRESET}, RL-Zoo's settings.")
    config = baseline_config(algorithm, env_id, **fields)
    total = total_timesteps if total_timesteps is not None else settings(algorithm, env_id).total_timesteps
    run_id = make_run_id(env_id, algorithm, PRESET, config) + suffix
    Run.refuse_existing(out, run_id)
    with _built(algorithm, env_id, config) as baseline:
        extra = {"environment": env_id, "algorithm": algorithm, "preset": PRESET, "total_timesteps": total}
        run = Run.create(out, run_id, config, extra, PACKAGES)
        with run.locked():
            _train(run, baseline, total, display, track)
    return run


def resume(data: RunData, total: int, *, display: bool, track: bool) -> Run:
    """Start an unfinished run over (its folder is locked by the caller); a finished one is refused."""
    run = data.run
    if run.model_path.exists():
        raise ConfigError(
            f"run {run.path} is finished, and {data.algorithm} cannot be trained further: SB3 does not keep "
            "what an exact continuation needs. Train a new run with: rsa2c train ... --total-timesteps N --out FOLDER"
        )
    with _built(data.algorithm, data.environment, data.config) as baseline:
        for path in (run.metrics_path, run.evaluations_path, run.returns_path):
            remove(path)
        run.write_config({**data.document, **provenance(*PACKAGES), "total_timesteps": total})
        _train(run, baseline, total, display, track)
    return run


@contextmanager
def _built(algorithm: str, env_id: str, config: Any) -> Iterator[Baseline]:
    """An untrained baseline whose environments are closed at the end."""
    baseline = build_baseline(algorithm, env_id, config)
    try:
        yield baseline
    finally:
        baseline.model.get_env().close()


def load(data: RunData) -> Baseline:
    """The trained baseline of a run."""
    run, name, config = data.run, data.algorithm, data.config
    assert isinstance(config, BaselineConfig)
    if not run.model_path.exists():
        raise NotFoundError(
            f"run {run.path} has no model yet: {name} writes it when training ends. "
            f"Start the training over with: rsa2c resume {run.path}"
        )
    tensors, metadata = read_tensors(run.model_path, kind="baseline")
    vec_env = require("stable_baselines3.common.vec_env", "baselines", f"The baseline {name}")
    env = vec_env.DummyVecEnv([lambda: baseline_env(data.environment, config)])
    try:
        model = _policy(name, config, env, tensors)
        model.num_timesteps = int(metadata["num_timesteps"])
        normaliser = _normaliser(env, tensors, metadata) if config.normalise else None
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise FileFormatError(
            f"{run.model_path} and {run.config_path} do not fit together ({type(error).__name__}: {error}). "
            "Restore them from a copy, or train again."
        ) from error
    finally:
        env.close()  # only its spaces were needed; `evaluate` makes its own
    return Baseline(name, data.environment, config, model, normaliser)


def _policy(name: str, config: BaselineConfig, env: Any, tensors: Tensors) -> Any:
    """An SB3 model with the policy of a file; it cannot learn further."""
    sb3 = require("stable_baselines3", "baselines", f"The baseline {name}")
    torch = require("torch", "baselines", f"The baseline {name}")
    prefix = "policy."
    state = {key.removeprefix(prefix): torch.from_numpy(x) for key, x in tensors.items() if key.startswith(prefix)}
    architecture = config.arguments.get("policy_kwargs", {})
    check_architecture(architecture, {tuple(x.shape) for x in state.values()})
    network = resolved({"policy_kwargs": architecture})["policy_kwargs"]
    arguments = {"use_sde": config.arguments.get("use_sde", False), **network}
    model = getattr(sb3, name.upper())("MlpPolicy", env, device="cpu", _init_setup_model=False)
    model.policy = model.policy_class(env.observation_space, env.action_space, lambda _: 0.0, **arguments)
    model.policy.load_state_dict(state)
    return model


def _normaliser(env: Any, tensors: Tensors, metadata: Metadata) -> Any:
    """SB3's VecNormalize with the statistics of a file."""
    vec_env = require("stable_baselines3.common.vec_env", "baselines")
    normaliser = vec_env.VecNormalize(env, training=False, **metadata["normaliser"])
    for rms, which in ((normaliser.obs_rms, "observation"), (normaliser.ret_rms, "return")):
        for moment in _MOMENTS:
            value = tensors[f"{which}.{moment}"]
            if value.shape != np.shape(getattr(rms, moment)):
                raise ValueError(f"{which}.{moment} has shape {value.shape}")
            setattr(rms, moment, value)
    return normaliser


def check_architecture(architecture: dict[str, Any], shapes: set[tuple[int, ...]]) -> None:
    """Refuse layers that a file has no parameters for, before SB3 allocates them."""
    if unknown := set(architecture) - {"net_arch", "log_std_init", "ortho_init", "activation_fn"}:
        raise ValueError(f"policy_kwargs has {', '.join(map(str, unknown))}, which no run of rsa2c has")
    if (activation := architecture.get("activation_fn", "ReLU")) not in ("ReLU", "Tanh"):
        raise ValueError(f"policy_kwargs has activation_fn {activation!r}, which no run of rsa2c has")
    layers = architecture.get("net_arch", [])
    for widths in layers.values() if isinstance(layers, dict) else [layers]:
        first = {shape[0] for shape in shapes if len(shape) == 2}
        if not first.issuperset(widths) or not shapes.issuperset((b, a) for a, b in pairwise(widths)):
            raise ValueError(f"layers of {widths} units do not match its parameters")


def save(baseline: Baseline, run: Run) -> None:
    """Write a trained model for SB3 and then for rsa2c, which marks the run as finished."""
    buffer = io.BytesIO()
    baseline.model.save(buffer)
    write_atomically(run.path / "model.zip", buffer.getvalue())
    tensors = {f"policy.{key}": value.numpy() for key, value in baseline.model.policy.state_dict().items()}
    metadata: dict[str, Any] = {"kind": "baseline", "num_timesteps": baseline.num_timesteps}
    if (normaliser := baseline.normaliser) is not None:
        names = ("clip_obs", "clip_reward", "gamma", "epsilon")
        metadata["normaliser"] = {name: getattr(normaliser, name) for name in names}
        for rms, which in ((normaliser.obs_rms, "observation"), (normaliser.ret_rms, "return")):
            tensors |= {f"{which}.{moment}": np.asarray(getattr(rms, moment), np.float64) for moment in _MOMENTS}
    write_tensors(run.model_path, tensors, metadata)


def _train(run: Run, baseline: Baseline, total: int, display: bool, track: bool) -> None:
    base: Any = require("stable_baselines3.common.callbacks", "baselines").BaseCallback
    with ExitStack() as stack:
        stack.enter_context(torch_threads(baseline.config.threads))
        tracker = stack.enter_context(tracker_in(run.path, enabled=track))
        keeper = _Keeper(run, baseline, total, display, tracker)
        stack.enter_context(terminations_interrupt())
        stack.enter_context(native_limit(baseline.config.step_timeout))

        class Between(base):
            def _on_rollout_start(self) -> None:
                keeper.between_rollouts()

            def _on_step(self) -> bool:
                return True

        try:
            with watched(baseline):
                baseline.model.learn(total, callback=Between())
            keeper.between_rollouts(last=True)
        except KeyboardInterrupt:
            raise TrainingInterrupted(run, "SB3 cannot continue exactly, so the run will start over") from None
        except Exception as error:
            error.add_note(f"SB3 cannot continue exactly. Start the run over with: rsa2c resume {run.path}")
            raise
        with signals_ignored():
            run.metrics.sync()
            save(baseline, run)


class _Keeper:
    """Writes the folder between rollouts, when the model has learnt from all it saw; the clock stops meanwhile."""

    def __init__(self, run: Run, baseline: Baseline, total: int, display: bool, tracker: Tracker | None) -> None:
        self.run, self.baseline, self.total, self.display, self.tracker = run, baseline, total, display, tracker
        self.evaluations: list[tuple[int, EvaluationResult]] = []
        self.row_due, self.evaluation_due = ROW_STEPS, baseline.config.steps_between_evaluations
        self.seconds, self.shown = 0.0, -math.inf
        self.resumed = time.perf_counter()

    def between_rollouts(self, last: bool = False) -> None:
        """Write a row and evaluate, if due."""
        steps, every = self.baseline.num_timesteps, self.baseline.config.steps_between_evaluations
        if not (last or steps >= min(self.row_due, self.evaluation_due)):
            return
        self.seconds += time.perf_counter() - self.resumed
        row = self.row()
        self.run.append_metrics(row)
        self.row_due = (steps // ROW_STEPS + 1) * ROW_STEPS
        if last or steps >= self.evaluation_due:
            self.evaluate()
            self.evaluation_due = (steps // every + 1) * every
        if self.tracker is not None:
            self.tracker.scalars(steps, self.scalars(row))
        self.show(row, last)
        self.resumed = time.perf_counter()

    def row(self) -> dict[str, Any]:
        """The state of training; the means are over the last episodes that ended, at most 100."""
        model = self.baseline.model
        ended = list(model.ep_info_buffer)
        return {
            "timesteps": model.num_timesteps,
            "ep_rew_mean": float(np.mean([episode["r"] for episode in ended])) if ended else math.nan,
            "ep_len_mean": float(np.mean([episode["l"] for episode in ended])) if ended else math.nan,
            "updates": model._n_updates,
            "seconds": round(self.seconds, 4),
        }

    def evaluate(self) -> None:
        """Evaluate the model now and write all evaluations."""
        self.evaluations.append((self.baseline.num_timesteps, evaluate_agent(self.baseline)))
        steps, results = zip(*self.evaluations, strict=True)
        returns, lengths = np.stack([x.returns for x in results]), np.stack([x.lengths for x in results])
        self.run.write_evaluations(np.array(steps), returns, lengths)

    def scalars(self, row: dict[str, Any]) -> dict[str, float]:
        """A row, SB3's own losses, and an evaluation made at this step, under SB3's names."""
        scalars = {
            "rollout/ep_rew_mean": row["ep_rew_mean"],
            "rollout/ep_len_mean": row["ep_len_mean"],
            "time/fps": row["timesteps"] / max(self.seconds, 1e-9),
            "time/time_elapsed": self.seconds,
            "time/total_timesteps": float(row["timesteps"]),
        }
        logged = self.baseline.model.logger.name_to_value
        scalars |= {key: float(value) for key, value in logged.items() if key.startswith("train/")}
        if self.evaluations and self.evaluations[-1][0] == row["timesteps"]:
            result = self.evaluations[-1][1]
            scalars |= evaluation_scalars(result.returns, result.lengths)
        return scalars

    def show(self, row: dict[str, Any], last: bool) -> None:
        """Print a line, at most one every two seconds."""
        now = time.perf_counter()
        if not self.display or (now - self.shown < PLAIN_INTERVAL and not last):
            return
        self.shown = now
        rate = row["timesteps"] / max(self.seconds, 1e-9)
        parts = [f"{row['timesteps']:,}/{self.total:,} steps", f"return {row['ep_rew_mean']:.1f}"]
        if self.evaluations:
            parts.append(f"evaluation {self.evaluations[-1][1].mean:.1f}")
        parts += [f"{rate:,.0f} steps/s", f"left {clock(max(self.total - row['timesteps'], 0) / max(rate, 1e-9))}"]
        print("  ".join(parts), file=sys.stderr, flush=True)
