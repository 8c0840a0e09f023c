"""Measures the robots' simulations on a device, beside any training: how fast they are, and how close to Gymnasium's.

    python benchmarks/gpu_simulation.py speed [--robots Ant Humanoid] [--device cuda]
    python benchmarks/gpu_simulation.py agreement [--robots Hopper] [--steps 60]

Each step writes its part of results/gpu/simulation.md, which `gpu_training.py page` puts at the end of results/gpu.md,
with the command, the commit and the machine; the other parts of that file stay as they are. `speed` is worth running on
a GPU alone (`--device jax-cpu` tries it); `agreement` is computed on JAX's CPU backend, in double precision.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _gpu_page import SIMULATION
from _provenance import header

ROBOTS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")
ENVIRONMENTS, STEPS, REPEATS = 4096, 16, 4
TOLERANCE = 1e-15
"""Of both solvers: MJX stops earlier than MuJoCo otherwise."""


def speed(robot: str, device: str) -> tuple[float, float]:
    """Seconds to compile `STEPS` steps of all environments with random actions, and seconds that these steps take."""
    import jax

    from rsa2c.gpu.device import computing, found
    from rsa2c.gpu.environments import environment

    env = environment(f"{robot}-v5")

    def steps(states: Any, key: Any) -> Any:
        def step(states: Any, key: Any) -> tuple[Any, None]:
            shape = (ENVIRONMENTS, len(env.low))
            actions = jax.random.uniform(key, shape, minval=env.low, maxval=env.high)
            return jax.vmap(env.step)(states, actions)[0], None

        return jax.lax.scan(step, states, jax.random.split(key, STEPS))[0]

    with computing(found(device), double=False):
        states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(0), ENVIRONMENTS))
        began = time.perf_counter()
        program = jax.jit(steps).lower(states, jax.random.PRNGKey(1)).compile()
        compiling = time.perf_counter() - began
        states = jax.block_until_ready(program(states, jax.random.PRNGKey(1)))
        began = time.perf_counter()
        for k in range(REPEATS):
            states = program(states, jax.random.PRNGKey(2 + k))
        jax.block_until_ready(states)
    return compiling, (time.perf_counter() - began) / REPEATS


def differences(robot: str, steps: int) -> NDArray[np.float64]:
    """(steps,): the largest difference of each step, in observation or reward, from Gymnasium's own step from the same
    state, in double precision with the model's own solver; both must agree on whether the episode goes on."""
    import gymnasium
    import jax

    from rsa2c.gpu import robots
    from rsa2c.gpu.device import computing, found
    from rsa2c.gpu.simulator import FULL

    single: Any = gymnasium.make(f"{robot}-v5")
    rng, largest = np.random.default_rng(0), []
    data, model = single.unwrapped.data, single.unwrapped.model
    with computing(found("jax-cpu"), double=True):
        env = getattr(robots, robot)(FULL)
        env._model.opt.tolerance = model.opt.tolerance = TOLERANCE
        step, over = jax.jit(env.step), True
        for k in range(steps):
            if over:
                seen, _ = single.reset(seed=k)
                state = env.placed(data.qpos.copy(), data.qvel.copy())
                np.testing.assert_allclose(env.observe(state), seen, rtol=0, atol=1e-12)
            action = rng.uniform(env.low, env.high)
            state, reward, terminated, truncated = step(state, action)
            seen, expected, over, _, _ = single.step(action)
            largest.append(max(np.abs(np.asarray(env.observe(state)) - seen).max(), abs(float(reward) - expected)))
            assert bool(terminated) == over and not bool(truncated), f"{robot}-v5 ends at another step, {k}"
            place = {"Ant": data.xpos[1, 0], "Humanoid": (model.body_mass @ data.xipos)[0] / model.body_mass.sum()}
            state |= {"q": data.qpos.copy(), "v": data.qvel.copy(), "w": data.qacc_warmstart.copy(),
                      "x": np.float64(place.get(robot, data.qpos[0]))}  # fmt: skip
    return np.array(largest)


def speed_part(robots: list[str], device: str) -> str:
    """The part about speed."""
    from rsa2c.gpu.device import found

    text = (f"Random actions, contact forces included, solver `QUICK` (two iterations, four line-search steps, eight\n"
            f"contacts), {ENVIRONMENTS:,} environments, {STEPS} steps in one program, mean of {REPEATS} runs after one "
            f"more, on {found(device).device_kind}:")  # fmt: skip
    rows = []
    for robot in robots:
        compiling, seconds = speed(robot, device)
        rate = ENVIRONMENTS * STEPS / seconds
        rows.append(f"| {robot}-v5 | {compiling:.1f} s | {1e3 * seconds:.0f} ms | {float(f'{rate:.3g}'):,.0f} |")
    return "\n".join([text, "", f"| robot | compilation | {STEPS} steps | steps per second |", "|---" * 4 + "|", *rows])


def agreement_part(robots: list[str], steps: int) -> str:
    """The part about agreement."""
    text = ("One step of the environment (four or five of the simulation) from the same state, double precision,\n"
            f"random actions, the model's own solver with a tolerance of {TOLERANCE:.0e}, on JAX's CPU backend. The\n"
            f"largest difference in observation or reward of each step, over {steps} steps:")  # fmt: skip
    rows = []
    for robot in robots:
        found = differences(robot, steps)
        columns = " | ".join(f"{each:.0e}" for each in (np.median(found), np.quantile(found, 0.9), found.max()))
        rows.append(f"| {robot}-v5 | {columns} |")
    return "\n".join([text, "", "| robot | median | nine of ten steps within | largest |", "|---" * 4 + "|", *rows])


def write(title: str, text: str, path: Path = SIMULATION) -> None:
    """Put a part with its origin where the page has one of that title, else at its end."""
    parts = path.read_text(encoding="utf-8").split("## ") if path.exists() else [""]
    new = f"{title}\n\n{header('jax', 'mujoco-mjx')}\n{text}\n\n"
    places = [k for k, each in enumerate(parts) if each.startswith(f"{title}\n")]
    if places:
        parts[places[0]] = new
    else:
        parts = [*parts[:-1], parts[-1].rstrip("\n") + "\n\n", new]
    path.write_text("## ".join(parts).rstrip("\n") + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("speed", "agreement"))
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=list(ROBOTS))
    parser.add_argument("--device", default="cuda", help="of `speed`")
    parser.add_argument("--steps", type=int, default=60, help="of `agreement`")
    options = parser.parse_args()
    if options.step == "speed":
        write("Simulation", speed_part(options.robots, options.device))
    else:
        write("Agreement with Gymnasium", agreement_part(options.robots, options.steps))


if __name__ == "__main__":
    main()
