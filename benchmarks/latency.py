"""Microseconds for one action: `agent.predict`, plain NumPy, the exported C, onnxruntime, and Stable-Baselines3's PPO.

    python benchmarks/latency.py [--calls 20000]

Every call takes one new state. Calls from Python are timed one by one with `perf_counter_ns`, those of C inside a
compiled loop with `clock_gettime`. All ways take turns in many short rounds, and p50 and p99 are medians over rounds of
each round's, so that other processes count little. The policy of Pendulum-v1 is trained; those of the sizes of Hopper
and Ant have random tables, which take as long. PPO has SB3's default network, two layers of 64 units, which takes as
long untrained. Needs gcc and the extras `export`, `baselines` and `dev`.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from _provenance import write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from compiled import library
from controllers import made, observations
from rsa2c import RSA2C
from rsa2c.trained import Trained

ROUNDS, ATTRIBUTIONS = 100, 3
LOOP = """
#define _POSIX_C_SOURCE 199309L
#include <time.h>
#include "{header}"
void timed(const {real} *states, int count, long *nanoseconds) {{
    {real} out[RSA2C_ACTIONS * RSA2C_FEATURES + RSA2C_ACTIONS];
    volatile {real} sink;
    for (int i = 0; i < count; i++) {{
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        {function}(states + i * RSA2C_FEATURES, out);
        clock_gettime(CLOCK_MONOTONIC, &after);
        sink = out[0];
        (void)sink;
        nanoseconds[i] = (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec;
    }}
}}
"""
Timed = Callable[[NDArray], NDArray]
"""States (N, d) to the nanoseconds of each call (N,)."""


def python(call: Callable[[NDArray], Any]) -> Timed:
    """A Python function of one state (d,)."""

    def run(states: NDArray) -> NDArray:
        spent = np.empty(len(states))
        for i, state in enumerate(states):
            began = time.perf_counter_ns()
            call(state)
            spent[i] = time.perf_counter_ns() - began
        return spent

    return run


def compiled(agent: Trained, folder: Path, name: str, function: str, **options: Any) -> Timed:
    """A function of the exported header, called in a loop in C."""
    header, source = folder / f"{name}.h", folder / f"{name}.c"
    agent.export(header, **options)
    dtype = np.dtype(options.get("precision", "float64"))
    real = "double" if dtype == np.float64 else "float"
    source.write_text(LOOP.format(header=header, real=real, function=function))
    loaded = library(source, "-march=native")

    def run(states: NDArray) -> NDArray:
        states, spent = np.ascontiguousarray(states, dtype=dtype), np.empty(len(states), dtype=ctypes.c_long)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (states, spent))
        loaded.timed(next(pointers), ctypes.c_int(len(states)), next(pointers))
        return spent.astype(float)

    return run


def network(content: bytes) -> Timed:
    """An ONNX graph in onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return python(lambda state: session.run(["action"], {"observation": state[None]}))


def plain(agent: Trained, folder: Path) -> Timed:
    """`act` of the exported NumPy file."""
    agent.export(folder / "controller.py")
    spec = importlib.util.spec_from_file_location("controller", folder / "controller.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return python(module.act)


def ppo(d: int, m: int) -> tuple[Timed, Timed]:
    """SB3's PPO: `predict`, and its policy network as ONNX."""
    import gymnasium
    from stable_baselines3 import PPO

    class Sized(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (d,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (m,), np.float32)

    model = PPO("MlpPolicy", Sized(), device="cpu")
    content = perceptron([*model.policy.mlp_extractor.policy_net, model.policy.action_net], d, m)
    state = {"observation": np.random.default_rng(0).normal(size=(1, d)).astype(np.float32)}
    exported = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, state)[0]
    np.testing.assert_allclose(exported, model.predict(state["observation"], deterministic=True)[0], atol=1e-5)
    return python(lambda state: model.predict(state, deterministic=True)), network(content)


def perceptron(layers: list[Any], d: int, m: int) -> bytes:
    """Linear and tanh layers of torch, and the clip to [-1, 1], as an ONNX graph."""
    constants = [onnx.numpy_helper.from_array(np.float32(x), name) for name, x in (("low", -1), ("high", 1))]
    nodes, last = [], "observation"
    for i, layer in enumerate(layers):
        inputs, last = [last], f"layer{i}"
        for part, parameter in layer.named_parameters():
            constants.append(onnx.numpy_helper.from_array(parameter.detach().numpy(), f"{part}{i}"))
            inputs.append(f"{part}{i}")
        operator, attributes = ("Gemm", {"transB": 1}) if len(inputs) > 1 else ("Tanh", {})
        nodes.append(onnx.helper.make_node(operator, inputs, [last], **attributes))
    nodes.append(onnx.helper.make_node("Clip", [last, "low", "high"], ["action"]))
    single, make = onnx.TensorProto.FLOAT, onnx.helper.make_tensor_value_info
    ends = [make("observation", single, ["N", d])], [make("action", single, ["N", m])]
    graph = onnx.helper.make_graph(nodes, "ppo", *ends, constants)
    opset = [onnx.helper.make_opsetid("", 17)]
    return bytes(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def ways(agent: Trained, folder: Path) -> dict[str, Timed]:
    """Every way to an action, by name."""
    agent.export(folder / "controller.onnx")
    predict, exported = ppo(len(agent.feature_names), len(agent.action_names))
    return {
        "plain NumPy (the exported file)": plain(agent, folder),
        "`agent.predict`": python(agent.predict),
        "exported C, double": compiled(agent, folder, "double", "rsa2c_act"),
        "exported C, float": compiled(agent, folder, "float", "rsa2c_act", precision="float32"),
        "exported ONNX in onnxruntime": network((folder / "controller.onnx").read_bytes()),
        "SB3 PPO `predict`": predict,
        "SB3 PPO as ONNX in onnxruntime": exported,
        "exported C, attributions of one action (16 background states)": compiled(
            agent, folder, "attribute", "rsa2c_attribute", include=("attribution",)
        ),
    }


def shown(number: float) -> str:
    """Three digits, without exponents."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def measure(title: str, agent: Trained, calls: int) -> list[str]:
    """A table for one agent."""
    with tempfile.TemporaryDirectory() as folder:
        runs = ways(agent, Path(folder))
        spent: dict[str, list[NDArray]] = {name: [] for name in runs}
        for number in range(-1, ROUNDS):
            states = observations(agent, calls // ROUNDS, seed=number + 1).astype(np.float32)
            for name, run in runs.items():
                taken = run(states[:ATTRIBUTIONS] if "attributions" in name else states)
                if number >= 0:  # the first round warms up
                    spent[name].append(np.percentile(taken / 1e3, [50, 99]))
    figures = {name: np.median(each, axis=0) for name, each in spent.items()}
    base, ppo_time = (figures[name][0] for name in ("plain NumPy (the exported file)", "SB3 PPO `predict`"))
    f = agent.policy_mean.coefficients.shape
    lines = [f"## {title}", "", f"{f[0]} remembered states, {len(agent.feature_names)} features, {f[1]} actions", ""]
    lines += ["| | p50, us | p99, us | p50 / plain NumPy | p50 / SB3 PPO |", "|---|---|---|---|---|"]
    for name, (p50, p99) in figures.items():
        lines.append(f"| {name} | " + " | ".join(map(shown, (p50, p99, p50 / base, p50 / ppo_time))) + " |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    calls = parser.parse_args().calls
    pendulum = RSA2C("Pendulum-v1", "rsa2c-kme", seed=0).learn(100_000)
    lines = [
        f"{calls:,} calls each in {ROUNDS} rounds, one state a call, one thread; p50 and p99 are medians over the "
        "rounds of each round's. C is compiled with gcc -O2 -march=native and timed in a compiled loop, whose clock "
        "takes about 0.05 us of each figure. Other processes shared the machine (load average "
        f"{os.getloadavg()[0]:.0f} on {len(os.sched_getaffinity(0))} cores), which lengthens p99, most of all that of "
        "slow calls.",
        "",
        *measure("Pendulum-v1, trained", pendulum, calls),
        *measure("The size of Hopper-v5", made(q=512, d=11, m=3), calls),
        *measure("The size of Ant-v5", made(q=512, d=105, m=8), calls),
    ]
    print("\n".join(lines))
    packages = ("onnx", "onnxruntime", "stable-baselines3", "torch")
    print(write("latency", "Microseconds for one action", "\n".join(lines), *packages))


if __name__ == "__main__":
    main()
