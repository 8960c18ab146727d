"""Rows of matrices, LANES numbers at a time: what the compiler does not make of plain loops by itself.

A free set has some ten or twenty variables. The compiler cannot know that two rows of one array do not
overlap, so it checks that first, and leaves what is left of a multiple of 32 to a loop over single numbers:
together that takes three times as long as the vector instructions. So these are written down here.

Columns ``start`` to ``stop`` are multiples of LANES; rows begin at a multiple of 64 bytes (`layout.aligned`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .layout import LANES

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_PLACES = ir.VectorType(ir.IntType(32), LANES)
_INDEX, _NUMBER = types.intp, types.float64
instruction: Any = intrinsic  # what it makes is called without the first argument
_FUSED = ("contract",)  # a product and a sum may be one instruction


def _place(context: Any, builder: Any, kind: Any, matrix: Any, row: Any, column: Any) -> Any:
    """Where LANES numbers of a row begin."""
    array = context.make_array(kind)(context, builder, matrix)
    place = cgutils.get_item_pointer(context, builder, kind, array, [row, column], wraparound=False)
    return builder.bitcast(place, _VECTOR.as_pointer())


def _everywhere(builder: Any, number: Any) -> Any:
    """A vector of one number."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_PLACES, None))


def _less(builder: Any, x: Any, factor: Any, y: Any) -> Any:
    return builder.fsub(x, builder.fmul(factor, y, flags=_FUSED), flags=_FUSED)


@instruction
def subtract(typingctx: Any, X: Any, i: Any, factor: Any, Y: Any, k: Any, start: Any, stop: Any) -> Any:
    """``X[i, start:stop] -= factor * Y[k, start:stop]``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        X, i, factor, Y, k, start, stop = args
        factor = _everywhere(builder, factor)
        step = ir.Constant(start.type, LANES)
        with cgutils.for_range_slice(builder, start, stop, step, start.type) as (column, _):
            target = _place(context, builder, signature.args[0], X, i, column)
            y = builder.load(_place(context, builder, signature.args[3], Y, k, column), align=8)
            builder.store(_less(builder, builder.load(target, align=8), factor, y), target, align=8)
        return context.get_dummy_value()

    return types.void(X, _INDEX, _NUMBER, Y, _INDEX, _INDEX, _INDEX), code


@instruction
def subtract_four(typingctx: Any, X: Any, i: Any, factors: Any, Y: Any, k: Any, start: Any, stop: Any) -> Any:
    """``X[i, start:stop] -= sum_a factors[a] * Y[k + a, start:stop]`` for four rows of Y."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        X, i, factors, Y, k, start, stop = args
        each = [_everywhere(builder, factor) for factor in cgutils.unpack_tuple(builder, factors)]
        step = ir.Constant(start.type, LANES)
        with cgutils.for_range_slice(builder, start, stop, step, start.type) as (column, _):
            target = _place(context, builder, signature.args[0], X, i, column)
            x = builder.load(target, align=8)
            for a, factor in enumerate(each):
                row = builder.add(k, ir.Constant(k.type, a))
                y = builder.load(_place(context, builder, signature.args[3], Y, row, column), align=8)
                x = _less(builder, x, factor, y)
            builder.store(x, target, align=8)
        return context.get_dummy_value()

    return types.void(X, _INDEX, types.UniTuple(_NUMBER, 4), Y, _INDEX, _INDEX, _INDEX), code


@instruction
def dot(typingctx: Any, X: Any, i: Any, Y: Any, k: Any, start: Any, stop: Any) -> Any:
    """``sum(X[i, start:stop] * Y[k, start:stop])``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        X, i, Y, k, start, stop = args
        room = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
        step = ir.Constant(start.type, LANES)
        with cgutils.for_range_slice(builder, start, stop, step, start.type) as (column, _):
            x = builder.load(_place(context, builder, signature.args[0], X, i, column), align=8)
            y = builder.load(_place(context, builder, signature.args[2], Y, k, column), align=8)
            product = builder.fmul(x, y, flags=_FUSED)
            builder.store(builder.fadd(builder.load(room), product, flags=_FUSED), room)
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), _VECTOR])
        name = f"llvm.vector.reduce.fadd.v{LANES}f64"
        whole = cgutils.get_or_insert_function(builder.module, kind, name)
        zero = ir.Constant(ir.DoubleType(), 0.0)
        return builder.call(whole, [zero, builder.load(room)], fastmath=("reassoc",))

    return _NUMBER(X, _INDEX, Y, _INDEX, _INDEX, _INDEX), code
