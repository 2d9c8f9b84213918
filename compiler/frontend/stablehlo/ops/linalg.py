"""cholesky and triangular_solve: a loop over columns or rows, of all matrices at once."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.control import repeated
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term, counted, size_term
from weft.dialects.graph.core.types import BF16, F16, F32, FLOATS, I64


def transposed(x: Term) -> Term:
    """Matrices with their dims exchanged."""
    rank = len(x.shape)
    return x.transpose([*range(rank - 2), rank - 1, rank - 2])


def cholesky(node: Node) -> Sequence[Term]:
    """The triangular `l` with `a = l * lT`, column by column; `lower` reads that half of `a` alone.
    A matrix that is not positive definite gives NaN.
    """
    a = node.only
    element = a.type.element
    if element not in FLOATS:
        raise UnsupportedError(f"requires floats, got {element}")
    work = F32 if element in (F16, BF16) else element
    lower = node.flag("lower")
    found = factor_of(node, (a if lower else transposed(a)).cast(work)).cast(element)
    return [found if lower else transposed(found)]


def factor_of(node: Node, x: Term) -> Term:
    """The lower factor of matrices whose lower half is read."""
    rank, size = len(x.shape), x.shape[-1]
    if size.constant == 0:
        return x
    zeros = x.number(0).expand(x.shape)

    def step(state: Sequence[Term], index: Term) -> list[Term]:
        (factor,) = state
        b = index.b
        inner = Term(b, x.value)
        row = factor.take(index, rank - 2)  # [..., n]: row `index`, columns before it are done
        products = factor.matmul(row.reshape([*row.shape, 1])).reshape(row.shape)
        rest = inner.take(index, rank - 1) - products
        pivot = rest.take(index, rank - 2).math("sqrt")
        column = rest / pivot.reshape([*pivot.shape, 1])
        own = counted(b, size)
        column = (own >= index).where(column, 0.0)
        here = own.equals(index).reshape([1, size])
        return [here.where(column.reshape([*column.shape, 1]), factor)]

    (found,) = repeated(node, size, [zeros], step)
    return found


def triangular_solve(node: Node) -> Sequence[Term]:
    """`x` with `op(a) * x = b` or `x * op(a) = b`, a triangular, row by row."""
    a, b = node.operands
    element = a.type.element
    if element not in FLOATS:
        raise UnsupportedError(f"requires floats, got {element}")
    work = F32 if element in (F16, BF16) else element
    a, b = a.cast(work), b.cast(work)
    lower, left = node.flag("lower"), node.flag("left_side")
    if node.word("transpose_a", "NO_TRANSPOSE") not in ("NO_TRANSPOSE", "TRANSPOSE_INVALID"):
        a, lower = transposed(a), not lower
    if not left:
        a, b, lower = transposed(a), transposed(b), not lower
    unit = node.flag("unit_diagonal")
    found = solution(node, a, b, lower=lower, unit=unit)
    return [(found if left else transposed(found)).cast(element)]


def solution(node: Node, a: Term, b: Term, *, lower: bool, unit: bool) -> Term:
    """`x` with `a * x = b`."""
    rank, size = len(a.shape), a.shape[-1]
    if size.constant == 0:
        return b
    zeros = b.number(0).expand(b.shape)

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        (x,) = state
        inner = number.b
        index = number if lower else size_term(inner, size - 1, I64) - number
        row = Term(inner, a.value).take(index, rank - 2)
        own = counted(inner, size)
        done = (own < index) if lower else (own > index)
        known = done.where(row, 0.0)
        sums = known.reshape([*row.shape[:-1], 1, size]).matmul(x)
        right = Term(inner, b.value).take(index.reshape([1]), rank - 2) - sums
        if not unit:
            pivot = row.take(index, rank - 2)
            right = right / pivot.reshape([*pivot.shape, 1, 1])
        return [own.equals(index).reshape([size, 1]).where(right, x)]

    (found,) = repeated(node, size, [zeros], step)
    return found


LINALG = {"cholesky": cholesky, "triangular_solve": triangular_solve}
"""By the name in StableHLO."""
