"""Sixteen float64 in vector registers, as a numba type.

The compiler's own vectoriser turns the short loops of the product game into scalar code; with an explicit vector type
each line of the game is an instruction or two: LLVM splits the vector into what the machine has.

    load(array, position), store(array, position, v)    consecutive entries of a flat, contiguous array
    fill(number), add(u, v), subtract(u, v), multiply(u, v), multiply_add(u, v, w) = u v + w, at_least(u, v),
    add_to_exponent(u, v), total(v), largest(v)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class Lanes(types.Type):
    """The type of a vector of `LANES` float64."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _address(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, position: Any) -> Any:
    """array[position : position + LANES]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *arguments), align=8)

    return lanes(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, position: Any, vector: Any) -> Any:
    """array[position : position + LANES] = vector."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, position, vector = arguments
        builder.store(vector, _address(context, builder, signature.args[0], array, position), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic
def fill(typing: Any, number: Any) -> Any:
    """The same number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        single = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), arguments[0], cgutils.int32_t(0))
        zeros = ir.Constant(ir.VectorType(cgutils.int32_t, LANES), [0] * LANES)
        return builder.shuffle_vector(single, ir.Constant(VECTOR, ir.Undefined), zeros)

    return lanes(types.float64), generate


@intrinsic
def add(typing: Any, u: Any, v: Any) -> Any:
    """u + v, lane by lane."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def subtract(typing: Any, u: Any, v: Any) -> Any:
    """u - v, lane by lane."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: builder.fsub(*arguments)


@intrinsic
def multiply(typing: Any, u: Any, v: Any) -> Any:
    """u v, lane by lane."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: builder.fmul(*arguments)


@intrinsic
def multiply_add(typing: Any, u: Any, v: Any, w: Any) -> Any:
    """u v + w, lane by lane, rounded once where the machine can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        name = f"llvm.fmuladd.v{LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return lanes(lanes, lanes, lanes), generate


@intrinsic
def at_least(typing: Any, u: Any, v: Any) -> Any:
    """The larger of u and v, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return lanes(lanes, lanes), generate


@intrinsic
def add_to_exponent(typing: Any, u: Any, v: Any) -> Any:
    """u times two to the power of the integer in the low bits of v, by adding to u's exponent bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integers = ir.VectorType(ir.IntType(64), LANES)
        bits, power = (builder.bitcast(argument, integers) for argument in arguments)
        shifted = builder.shl(power, ir.Constant(integers, [52] * LANES))
        return builder.bitcast(builder.add(bits, shifted), VECTOR)

    return lanes(lanes, lanes), generate


def _reduction(name: str, start: float | None) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        kinds = [VECTOR] if start is None else [double, VECTOR]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(double, kinds), f"llvm.vector.reduce.{name}.v{LANES}f64"
        )
        first = [] if start is None else [ir.Constant(double, start)]
        return builder.call(function, [*first, *arguments], fastmath=() if start is None else ("reassoc",))

    return generate


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """Sum over the lanes."""
    return types.float64(lanes), _reduction("fadd", -0.0)


@intrinsic
def largest(typing: Any, vector: Any) -> Any:
    """Maximum over the lanes."""
    return types.float64(lanes), _reduction("fmax", None)
