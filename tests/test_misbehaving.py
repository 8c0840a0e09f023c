"""An environment that misbehaves ends in an error that names it and the step; checkpoints stay, sweeps go on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import misbehaving
from misbehaving import Bad
from rsa2c import evaluate
from rsa2c.algorithm.rollout import collect, start_states
from rsa2c.baselines import settings as rl_zoo
from rsa2c.envs.watchdog import watching
from rsa2c.errors import EnvError
from rsa2c.runs.folder import Run
from rsa2c.runs.sweep import Grid, run_sweep
from rsa2c.runs.training import load_agent, resume_run, train_run
from test_faults import GUIDED, STEPS

TIMEOUT = 0.3
WAYS = {
    "raises": r"failed in the environment's own code: ZeroDivisionError: .* \(misbehaving\.py, line \d+\)",
    "exits": "failed in the environment's own code: SystemExit: licence expired",
    "hangs": r"took longer than 0\.3 s \(step_timeout\) and was stopped",
    "hangs on": r"took longer than 0\.3 s \(step_timeout\) and was stopped",
    "forgets a value": "does not follow Gymnasium's interface: ValueError: not enough values .* step.action. must",
}
"""What the error says after environment, step and number."""


class Still:
    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return np.zeros((len(observation), 1), np.float32), state


@pytest.fixture(autouse=True)
def registered_and_nothing_taken(monkeypatch):
    monkeypatch.setattr(gym.envs.registration, "registry", registry := dict(gym.registry))
    monkeypatch.setattr(gym, "registry", registry)
    misbehaving.register()
    monkeypatch.setattr(Bad, "taken", 0)


def rolled_out(vector, steps=8, timeout=TIMEOUT):
    def act(x):
        still = np.zeros((len(x), 1))
        return still, still, still

    return collect(vector, act, lambda x: x, steps, 0, np.random.default_rng(0), step_timeout=timeout)


def pair(what, after=6):
    """Two environments; it is the second that goes wrong."""
    return SyncVectorEnv([lambda: Bad("nothing"), lambda: Bad(what, after)])


# Rollouts


@pytest.mark.parametrize("what", WAYS)
def test_a_rollout_names_environment_step_and_number(what):
    with pytest.raises(EnvError, match=f"Bad: step 4 of environment 1 {WAYS[what]}") as caught:
        rolled_out(pair(what))
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(("what", "shape"), [("loses a feature", "(2,)"), ("loses all but one", "(1,)")])
def test_a_rollout_names_what_changes_its_shape(what, shape):
    says = f"Bad: the observation at step 4 of environment 1 has the shape {shape}, expected (3,)"
    with pytest.raises(EnvError, match=re.escape(says)):
        rolled_out(pair(what))


def test_a_reset_that_fails():
    with pytest.raises(EnvError, match=r"Bad: reset of environment 1 failed .* RuntimeError: the simulator lost"):
        rolled_out(pair("raises in reset", after=0))
    with pytest.raises(EnvError, match=r"Bad: reset of environment 1 failed .* RuntimeError: the simulator lost"):
        start_states(pair("raises in reset", after=0), 10, 0)


def test_an_environment_that_cannot_be_made():
    with pytest.raises(EnvError, match=r"RaisesWhenMade-v0 could not be made.*FileNotFoundError: .*world\.xml"):
        evaluate(Still(), "RaisesWhenMade-v0", 1)
    with pytest.raises(EnvError, match=r"given as a function could not be made.*FileNotFoundError: .*world\.xml"):
        evaluate(Still(), lambda: Bad("raises when made"), 1)


def test_slow_steps_add_up_to_no_timeout():
    class Slow(Bad):
        def step(self, action):
            time.sleep(0.02)
            return super().step(action)

    assert rolled_out(SyncVectorEnv([Slow]), steps=30, timeout=0.5).n == 30


def test_the_limit_changes_no_result():
    first, second = (rolled_out(SyncVectorEnv([Bad, Bad]), timeout=timeout) for timeout in (None, TIMEOUT))
    np.testing.assert_array_equal(first.points, second.points)
    np.testing.assert_array_equal(first.rewards, second.rewards)


def test_alarms_and_handlers_are_what_they_were():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    try:
        rolled_out(pair("nothing"))
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # somebody else's, which is left alone
        rolled_out(pair("nothing"))
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0.0 or rang
        signal.pause() if not rang else None
        assert rang == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_an_alarm_that_comes_as_the_watch_ends_sets_no_other():
    before = signal.getsignal(signal.SIGALRM)
    with watching("Late-v0", None, TIMEOUT) as watch:
        pass
    watch.ring(signal.SIGALRM, None)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_what_a_handler_of_the_program_raises_is_its_own():
    def leave(number, frame):
        sys.exit("bye")

    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit, match="bye"), watching("Innocent-v0", None, None) as watch, watch(1):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_episodes_side_by_side_share_no_limit():
    class Slow(gym.Wrapper):
        def step(self, action):
            time.sleep(0.02)
            return self.env.step(action)

    evaluate(Still(), lambda: Slow(gym.make("Pendulum-v1", max_episode_steps=2)), episodes=20, step_timeout=TIMEOUT)


def test_a_thread_has_no_limit_but_the_same_errors():
    caught = []

    def call():
        try:
            rolled_out(pair("raises"))
        except EnvError as error:
            caught.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "step 4 of environment 1" in caught[0]


# Environments in processes of their own


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("raises", r"step 4 of environment 1 failed .* ZeroDivisionError: .*"),
        ("dies", r"the process of environment 1 died at step 4 \(exit code 3\)\."),
        ("is killed", r"the process of environment 1 died at step 4 \(exit code -9\)\."),
        ("hangs", r"step 4 of environment 1 took longer than 0\.3 s \(step_timeout\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*fork.*:DeprecationWarning")
def test_workers_that_fail_die_or_hang(what, says):
    vector = AsyncVectorEnv([lambda: Bad("nothing"), lambda: Bad(what, after=3)])
    with pytest.raises(EnvError, match=f"AsyncVectorEnv: {says}"):
        rolled_out(vector)
    assert vector.closed
    assert not any(process.is_alive() for process in vector.processes)


# Evaluation


@pytest.mark.parametrize("what", WAYS)
def test_an_evaluation_names_environment_step_and_episode(what):
    with pytest.raises(EnvError, match=f"Bad: step 4 of episode 1 {WAYS[what]}"):
        evaluate(Still(), lambda: Bad(what, after=7), 2, max_steps=9, step_timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("loses a feature", r"the observation at step 4 of episode 1 has the shape \(2,\), expected \(3,\)"),
        ("loses all but one", r"the observation at step 4 of episode 1 has the shape \(1,\), expected \(3,\)"),
        ("turns NaN", "the observation is nan at step 4 of episode 1"),
        ("pays infinity", "the reward is inf at step 4 of episode 1"),
    ],
)
def test_an_evaluation_refuses_what_it_cannot_use(what, says):
    with pytest.raises(EnvError, match=f"Bad: {says}"):
        evaluate(Still(), lambda: Bad(what, after=7), 2, max_steps=9)


# Trainings


def small_run(name, out, epochs=20, **fields):
    return train_run(
        f"{name}-v0", "rsa2c-kme", total_timesteps=100 + epochs * STEPS, out=out, track=False, **GUIDED, **fields
    )


@pytest.mark.parametrize("name", ["Raises", "RaisesInReset", "Hangs", "NaN", "Infinite", "Misshapen", "Forgetful"])
def test_a_training_keeps_its_checkpoint(name, tmp_path):
    with pytest.raises(EnvError, match=f"{name}-v0: .*(step|reset)") as caught:
        small_run(name, tmp_path, step_timeout=TIMEOUT)
    (path,) = tmp_path.iterdir()
    agent = load_agent(Run(path))
    kept = agent.epoch
    assert kept >= 1
    assert caught.value.__notes__ == [f"Epoch {kept} is saved. Continue with: rsa2c resume {path}"]
    Bad.taken = -(10**6)  # mended
    assert load_agent(resume_run(path, agent.num_timesteps + 1, track=False)).epoch == kept + 1


def test_native_code_that_hangs_ends_its_process(tmp_path):
    script = (
        "import sys; from rsa2c.envs import watchdog; watchdog.NATIVE_SECONDS = 4.0\n"
        "from test_misbehaving import small_run\n"
        "small_run('HangsNatively', sys.argv[1], step_timeout=0.5)"
    )
    environment = misbehaving.registering(tmp_path)
    command = [sys.executable, "-c", script, str(tmp_path / "runs")]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 1
    assert re.search(r"Timeout \(0:00:06.*\)!\n(.*\n)+.*misbehaving\.py\", line \d+ in misbehave", result.stderr)
    (path,) = (tmp_path / "runs").iterdir()
    assert load_agent(resume_run(path, STEPS, track=False)).epoch == 1


def test_a_sweep_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", misbehaving.registering(tmp_path)["PYTHONPATH"])
    names = ["Raises", "Hangs", "Dies", "Good"]
    document = {
        "environments": [f"{name}-v0" for name in names],
        "total_timesteps": 10 * STEPS,
        "final_episodes": 2,
        "step_timeout": TIMEOUT,
        **GUIDED,
    }
    progress = run_sweep(Grid.of(document).jobs(), tmp_path / "runs", workers=1)
    errors = [progress.errors.get(i) for i in range(len(names))]
    assert re.match(r"Raises-v0: step \d+ of environment \d failed .*ZeroDivisionError", errors[0])
    assert re.match(r"Hangs-v0: step \d+ of environment \d took longer than 0\.3 s", errors[1])
    assert errors[2] == "its process died (exit code 3). Start the sweep again to continue it."
    assert errors[3] is None and progress.rows[3].steps >= 10 * STEPS


# Baselines


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Raises", r"step \d+ of environment 0 failed in the environment's own code: ZeroDivisionError"),
        ("Hangs", r"step \d+ of environment 0 took longer than 0\.3 s"),
        ("NaN", r"the observation is nan at step \d+ of environment 0"),
        ("Misshapen", r"step \d+ of environment 0 failed in the environment's own code: ValueError"),
    ],
)
def test_a_baseline_names_environment_and_step(name, says, tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3")
    sizes = rl_zoo.Settings(200, arguments={"learning_starts": 1000, "policy_kwargs": {"net_arch": [4]}})
    monkeypatch.setattr(rl_zoo, "MUJOCO", rl_zoo.RLZoo("mujoco", {"sac": sizes}))
    with pytest.raises(EnvError, match=f"{name}-v0: {says}") as caught:
        train_run(f"{name}-v0", "sac", out=tmp_path, track=False, evaluation_episodes=1, step_timeout=TIMEOUT)
    assert "Start the run over with: rsa2c resume" in caught.value.__notes__[0]
