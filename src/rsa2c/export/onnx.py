"""An ONNX graph: `observation` (N, d) in float32 to `action` (N, m) in float32, computed in float64.

A filter in front of the policy has its memory outside: `before` (N, d), in float64, which becomes `filtered`. Where an
episode begins, `before` is the observation.

Coefficients of several hundred that cancel are common, so float32 inside would lose four digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rsa2c.errors import require
from rsa2c.export.contents import Contents
from rsa2c.export.tables import Expansion
from rsa2c.export.text import harmless

OPSET, IR_VERSION = 17, 8
"""Of 2022, so that runtimes of the last years read the file."""


class Graph:
    """Nodes and constants as they are added; a value is known by its name."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Any, dtype: type = np.float64) -> str:
        """A new constant."""
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(array, dtype=dtype), name))
        return name

    def add(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """A node; numbers and arrays among its inputs become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = output or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, names, [output], **attributes))
        return output

    def inputs(self, states: str, tables: Expansion, clip: float) -> str:
        """z, (N, d), for raw states in float64; NaN if a state is not finite."""
        z = self.add("Mul", self.add("Sub", states, tables.mean), tables.gain)
        if np.isfinite(clip):
            z = self.add("Clip", z, -clip, clip)
        if tables.logarithmic:  # asinh is not in float64: sign(z) log(|z| + sqrt(z^2 + 1))
            size = self.add("Abs", z)
            root = self.add("Sqrt", self.add("Add", self.add("Mul", z, z), 1.0))
            z = self.add("Mul", self.add("Sign", z), self.add("Log", self.add("Add", size, root)))
        # s - s is 0, or NaN where s is not finite: a clip would hide that
        return self.add("Add", self.add("Mul", z, tables.scale), self.add("Sub", states, states))

    def similarity(self, states: str, tables: Expansion, clip: float | None = None) -> str:
        """k(z, c_j), (N, q); another clip than the function's own on request."""
        z = self.inputs(states, tables, tables.clip if clip is None else clip)
        if tables.kernel == "laplace":
            apart = self.add("Sub", self.add("Unsqueeze", z, self.constant([1], np.int64)), tables.centres)
            size = self.add("ReduceSum", self.add("Abs", apart), self.constant([2], np.int64), keepdims=0)
            return self.add("Exp", self.add("Neg", size))
        lengths = 0.5 * np.square(tables.centres).sum(axis=1)
        exponent = self.add("Sub", self.add("MatMul", z, np.ascontiguousarray(tables.centres.T)), lengths)
        own = self.add("Mul", self.add("ReduceSumSquare", z, axes=[1], keepdims=1), 0.5)
        return self.add("Exp", self.add("Sub", exponent, own))

    def function(self, similarity: str, tables: Expansion) -> str:
        """f, (N, m)."""
        return self.add("Add", self.add("MatMul", similarity, tables.coefficients), tables.offset)


def render(contents: Contents) -> bytes:
    """The model, serialised."""
    onnx = require("onnx", "export", "Export to ONNX")
    controller, graph = contents.controller, Graph(onnx)
    d, m = len(controller.task.feature_names), len(controller.task.action_names)
    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    states = graph.add("Cast", "observation", to=double)
    inputs = [onnx.helper.make_tensor_value_info("observation", single, ["N", d])]
    outputs = [onnx.helper.make_tensor_value_info("action", single, ["N", m])]
    if contents.filter_weight is not None:
        change = graph.add("Mul", graph.add("Sub", states, "before"), contents.filter_weight)
        states = graph.add("Add", "before", change, output="filtered")
        inputs.append(onnx.helper.make_tensor_value_info("before", double, ["N", d]))
        outputs.append(onnx.helper.make_tensor_value_info("filtered", double, ["N", d]))
    u = graph.function(graph.similarity(states, controller.policy), controller.policy)
    if controller.squash != "none":
        inside = graph.add("Tanh", u) if controller.squash == "tanh" else graph.add("Clip", u, -1.0, 1.0)
        u = graph.add("Add", graph.add("Mul", inside, controller.half), controller.mid)
    graph.add("Cast", u, output="action", to=single)
    if "value" in contents.include:
        tables = contents.functions()["value"]
        column = graph.function(graph.similarity(states, tables), tables)
        graph.add("Cast", graph.add("Squeeze", column, graph.constant([1], np.int64)), output="value", to=single)
        outputs.append(onnx.helper.make_tensor_value_info("value", single, ["N"]))
    if "familiarity" in contents.include:
        largest = graph.add("ReduceMax", graph.similarity(states, controller.policy, np.inf), axes=[1], keepdims=0)
        graph.add("Cast", largest, output="familiarity", to=single)
        outputs.append(onnx.helper.make_tensor_value_info("familiarity", single, ["N"]))
    return _model(onnx, contents, onnx.helper.make_graph(graph.nodes, "controller", inputs, outputs, graph.constants))


def _model(onnx: Any, contents: Contents, graph: Any) -> bytes:
    """The graph as a checked model that names its environment, features and actions."""
    task = contents.controller.task
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="rsa2c")
    described = {
        "environment": harmless(task.env_id),
        "features": "\n".join(map(harmless, task.feature_names)),
        "actions": "\n".join(map(harmless, task.action_names)),
        "familiar": repr(contents.controller.familiar),
    }
    onnx.helper.set_model_props(model, described)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))
