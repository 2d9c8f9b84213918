"""Small kernels of the patterns that schedules work on, with exact sums in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from tests.compiler.loop.interpreter import dtype_of, run_kernel
from weft.compiler.loop.references import find_loop
from weft.dialects.expr import ExprLike, Symbol
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import F32
from weft.dialects.loop.types import buffer, buffer_type_of

I64 = IntegerType(64)
Body = Callable[..., None]


def kernel(body: Body, symbols: Sequence[str] = (), **arguments: Any) -> KernelOp:
    """A kernel of named arguments, given by shape (f32) or type; `body` gets builder and them."""
    types = [
        buffer(shape, F32) if isinstance(shape, list) else shape for shape in arguments.values()
    ]
    op = KernelOp.of(body.__name__, symbols, types)
    for argument, name in zip(op.body.block.args, arguments, strict=True):
        argument.name_hint = name
    body(LoopBuilder(op.body.block), *op.body.block.args)
    op.verify()
    return op


def arguments_of(op: KernelOp, seed: int = 0, **sizes: int) -> list[np.ndarray[Any, Any]]:
    """Small whole numbers for each argument: sums and products of a few are exact in f32."""
    random = np.random.default_rng(seed)
    types = [buffer_type_of(argument) for argument in op.body.block.args]
    shapes = [[_size(dim, sizes) for dim in type.shape] for type in types]
    return [
        random.integers(-3, 4, shape).astype(dtype_of(type.element))
        for shape, type in zip(shapes, types, strict=True)
    ]


def _size(dim: Any, sizes: dict[str, int]) -> int:
    return dim.evaluate({Symbol(name): size for name, size in sizes.items()})


def loops(op: KernelOp, *names: str) -> list[ForOp]:
    """The loops of those names; of several, the first."""
    return [find_loop(op, name) for name in names]


def outcome(op: KernelOp, **sizes: int) -> tuple[np.ndarray[Any, Any], ...]:
    """What the kernel makes of its arguments, with parallel loops run backwards."""
    op.verify()
    return run_kernel(op, *arguments_of(op, **sizes), scramble=True, **sizes)


def same(before: KernelOp, after: KernelOp, **sizes: int) -> None:
    """Fails unless both kernels make the same of the same arguments."""
    for expected, got in zip(outcome(before, **sizes), outcome(after, **sizes), strict=True):
        np.testing.assert_array_equal(got, expected)


def bordered() -> KernelOp:
    """y = x within a border of ones, which is filled before."""

    def fill_and_copy(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        with b.loops([4, 5], "hw") as (h, w):
            b.store(y, (h, w), b.constant(1, F32))
        with b.loops([2, 3], "ij") as (i, j):
            b.store(y, (i + 1, j + 1), b.load(x, (i, j)))

    return kernel(fill_and_copy, x=[2, 3], y=[4, 5])


def product(
    rows: ExprLike,
    columns: ExprLike,
    depth: int,
    *,
    transposed: bool = False,
    columns_first: bool = False,
    element: Attribute = F32,
    symbols: Sequence[str] = (),
) -> KernelOp:
    """C = A B, or A times the transpose of B, summed up in f32; A may be stored by columns."""

    def mm(b: LoopBuilder, lhs: SSAValue, rhs: SSAValue, out: SSAValue) -> None:
        with b.loops([rows, columns], "ij") as (i, j):
            b.store(out, (i, j), b.constant(0, F32))
        with b.loops([rows, columns], "ij") as (i, j), b.reduce([depth], "add", "k") as (k,):
            factor = b.load(rhs, (j, k) if transposed else (k, j)).cast(F32)
            term = b.load(lhs, (k, i) if columns_first else (i, k)).cast(F32) * factor
            b.store(out, (i, j), b.load(out, (i, j)) + term)

    first = buffer([depth, rows] if columns_first else [rows, depth], element)
    other = buffer([columns, depth] if transposed else [depth, columns], element)
    return kernel(mm, symbols, lhs=first, rhs=other, out=[rows, columns])


def turned_product(rows: int, columns: int, depth: int) -> KernelOp:
    """C = A times the transpose of B, which is turned into a temporary first."""

    def mm(b: LoopBuilder, lhs: SSAValue, rhs: SSAValue, out: SSAValue) -> None:
        turned = b.temporary([depth, columns], F32, "t")
        with b.loops([depth, columns], "mn") as (k, j):
            b.store(turned, (k, j), b.load(rhs, (j, k)))
        with b.loops([rows, columns], "ij") as (i, j):
            b.store(out, (i, j), b.constant(0, F32))
        with b.loops([rows, columns], "ij") as (i, j), b.reduce([depth], "add", "k") as (k,):
            term = b.load(lhs, (i, k)) * b.load(turned, (k, j))
            b.store(out, (i, j), b.load(out, (i, j)) + term)

    return kernel(mm, lhs=[rows, depth], rhs=[columns, depth], out=[rows, columns])


def matmul(
    rows: Any = 7, columns: Any = 10, depth: Any = 5, symbols: Sequence[str] = ()
) -> KernelOp:
    """C = relu(A B + b), the product in a temporary."""

    def mm(b: LoopBuilder, lhs: SSAValue, rhs: SSAValue, bias: SSAValue, out: SSAValue) -> None:
        total = b.temporary([rows, columns], F32, "C")
        with b.loops([rows, columns], "ij") as (i, j):
            b.store(total, (i, j), b.constant(0, F32))
            with b.reduce([depth], "add", "k") as (k,):
                product = b.load(lhs, (i, k)) * b.load(rhs, (k, j))
                b.store(total, (i, j), b.load(total, (i, j)) + product)
        with b.loops([rows, columns], "mn") as (i, j):
            b.store(out, (i, j), (b.load(total, (i, j)) + b.load(bias, (j,))).maximum(0))

    shapes = {"A": [rows, depth], "B": [depth, columns], "b": [columns], "Y": [rows, columns]}
    return kernel(mm, symbols, **shapes)


def pointwise(rows: Any = 6, columns: Any = 8, symbols: Sequence[str] = ()) -> KernelOp:
    """y = (x + 1) * x through a temporary."""

    def pw(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        plus_one = b.temporary([rows, columns], F32, "t")
        with b.loops([rows, columns], "ij") as (i, j):
            b.store(plus_one, (i, j), b.load(x, (i, j)) + 1)
        with b.loops([rows, columns], "mn") as (i, j):
            b.store(y, (i, j), b.load(plus_one, (i, j)) * b.load(x, (i, j)))

    return kernel(pw, symbols, x=[rows, columns], y=[rows, columns])


def turned(rows: int, columns: int) -> KernelOp:
    """y[i, j] = x[j, i]."""

    def turn(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        with b.loops([rows, columns], "ij") as (i, j):
            b.store(y, (i, j), b.load(x, (j, i)))

    return kernel(turn, x=[columns, rows], y=[rows, columns])


def turned_beside(rows: int, columns: int) -> KernelOp:
    """z[i, j] = x[j, i] * y[i, j]."""

    def turn(b: LoopBuilder, x: SSAValue, y: SSAValue, z: SSAValue) -> None:
        with b.loops([rows, columns], "ij") as (i, j):
            b.store(z, (i, j), b.load(x, (j, i)) * b.load(y, (i, j)))

    return kernel(turn, x=[columns, rows], y=[rows, columns], z=[rows, columns])


def row_sum(rows: Any = 4, columns: Any = 11, symbols: Sequence[str] = ()) -> KernelOp:
    """y[i] = sum over j of x[i, j]."""

    def rs(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        with b.loops([rows], "i") as (i,):
            b.store(y, (i,), b.constant(0, F32))
            with b.reduce([columns], "add", "k") as (k,):
                b.store(y, (i,), b.load(y, (i,)) + b.load(x, (i, k)))

    return kernel(rs, symbols, x=[rows, columns], y=[rows])


def softmax(rows: int = 3, columns: int = 9) -> KernelOp:
    """Each row over its sum of squares, its maximum taken off: softmax without exponential."""

    def sm(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        top, total = b.temporary([rows], F32, "top"), b.temporary([rows], F32, "total")
        with b.loops([rows], "i") as (i,):
            b.store(top, (i,), b.constant(float("-inf"), F32))
            with b.reduce([columns], "max", "j") as (j,):
                b.store(top, (i,), b.load(top, (i,)).maximum(b.load(x, (i, j))))
        with b.loops([rows], "i") as (i,):
            b.store(total, (i,), b.constant(1, F32))
            with b.reduce([columns], "add", "k") as (k,):
                shifted = b.load(x, (i, k)) - b.load(top, (i,))
                b.store(total, (i,), b.load(total, (i,)) + shifted * shifted)
        with b.loops([rows, columns], "im") as (i, m):
            b.store(y, (i, m), (b.load(x, (i, m)) - b.load(top, (i,))) / b.load(total, (i,)))

    return kernel(sm, x=[rows, columns], y=[rows, columns])


def convolution(channels: int = 3, filters: int = 4, size: int = 6, taps: int = 3) -> KernelOp:
    """A two-dimensional convolution without padding."""
    out = size - taps + 1

    def conv(b: LoopBuilder, x: SSAValue, w: SSAValue, y: SSAValue) -> None:
        with b.loops([filters, out, out], "fhw") as (f, h, v):
            b.store(y, (f, h, v), b.constant(0, F32))
            with b.reduce([channels, taps, taps], "add", "crs") as (c, r, s):
                product = b.load(x, (c, h + r, v + s)) * b.load(w, (f, c, r, s))
                b.store(y, (f, h, v), b.load(y, (f, h, v)) + product)

    return kernel(
        conv, x=[channels, size, size], w=[filters, channels, taps, taps], y=[filters, out, out]
    )


def prefix_sum(size: int = 9) -> KernelOp:
    """y[i] = y[i - 1] + x[i], which no order but its own computes."""

    def ps(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        with b.loops([size - 1], "i") as (i,):
            b.store(y, (i + 1,), b.load(y, (i,)) + b.load(x, (i + 1,)))

    return kernel(ps, x=[size], y=[size])


def scatter(rows: int = 5, size: int = 5) -> KernelOp:
    """y[ids[i]] = x[i]: where it stores is data."""

    def sc(b: LoopBuilder, ids: SSAValue, x: SSAValue, y: SSAValue) -> None:
        with b.loops([rows], "i") as (i,):
            place = b.load(ids, (i,)).maximum(0)
            b.store(y, (b.subscript(place),), b.load(x, (i,)))

    return kernel(sc, ids=buffer([rows], I64), x=[rows], y=[size])


def gather(rows: int = 5, size: int = 5) -> KernelOp:
    """y[i] = x[ids[i]]: where it loads is data."""

    def ga(b: LoopBuilder, ids: SSAValue, x: SSAValue, y: SSAValue) -> None:
        with b.loops([rows], "i") as (i,):
            place = b.load(ids, (i,)).maximum(0)
            b.store(y, (i,), b.load(x, (b.subscript(place),)))

    return kernel(ga, ids=buffer([rows], I64), x=[size], y=[rows])
