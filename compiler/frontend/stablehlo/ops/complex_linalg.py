"""cholesky and triangular_solve of complex matrices: an element is a block of four reals, and the
factor of such a matrix of reals is made of the blocks of the factor.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair, quotient
from weft.compiler.frontend.stablehlo.ops.linalg import of_stack
from weft.dialects.graph.core.algebra import Term, counted, joined
from weft.dialects.graph.linalg.triangular import transposed


def complex_cholesky(node: Node) -> Sequence[Term]:
    """The triangular `l` with `a = l * lH`."""
    a = Pair(*node.operands)
    lower = node.flag("lower")
    blocks = _blocks(a if lower else _adjoint(a))
    found = _read(blocks.of(blocks.b.cholesky(blocks.value)))
    found = found if lower else _adjoint(found)
    return [found.real, found.imag]


def complex_triangular_solve(node: Node) -> Sequence[Term]:
    """`x` with `op(a) * x = b` or `x * op(a) = b`: rows are divided by their diagonal first."""
    a, b = (
        Pair(*node.operands[:2]),
        Pair(*(of_stack(x, node.operands[0]) for x in node.operands[2:])),
    )
    lower, left = node.flag("lower"), node.flag("left_side")
    form = node.word("transpose_a", "NO_TRANSPOSE")
    if form == "ADJOINT":
        a = Pair(a.real, -a.imag)
    if form in ("ADJOINT", "TRANSPOSE"):
        a, lower = _transposed(a), not lower
    if not left:
        a, b, lower = _transposed(a), _transposed(b), not lower
    if node.flag("unit_diagonal"):
        a = Pair(a.real, _is_diagonal(a.imag).where(0.0, a.imag))
    else:
        pivots = Pair(_diagonal(a.real), _diagonal(a.imag))
        a, b = _over(a, pivots), _over(b, pivots)
    columns = _rows(b.real, b.imag)
    solved = columns.b.triangular_solve(_blocks(a).value, columns.value, lower=lower, unit=True)
    x = columns.of(solved)
    rank, size = len(x.shape), b.real.shape[-2]
    halves = x.reshape([*x.shape[:-2], size, 2, x.shape[-1]])
    parts = [halves.part(rank - 1, at, 1).reshape(b.real.shape) for at in (0, 1)]
    return parts if left else [transposed(each) for each in parts]


def _over(rows: Pair, pivots: Pair) -> Pair:
    wide = Pair(pivots.real.expand(rows.real.shape), pivots.imag.expand(rows.real.shape))
    return quotient(rows, wide)


def _transposed(a: Pair) -> Pair:
    return Pair(transposed(a.real), transposed(a.imag))


def _adjoint(a: Pair) -> Pair:
    return Pair(transposed(a.real), -transposed(a.imag))


def _diagonal(a: Term) -> Term:
    """The diagonals of matrices, as columns."""
    return _is_diagonal(a).where(a, 0.0).sum([len(a.shape) - 1], keepdims=True)


def _is_diagonal(a: Term) -> Term:
    own = counted(a.b, a.shape[-1])
    return own.reshape([a.shape[-1], 1]).equals(own)


def _rows(first: Term, second: Term) -> Term:
    """Matrices whose rows alternate."""
    axis = len(first.shape) - 1
    both = joined([first.insert(axis), second.insert(axis)], axis)
    return both.reshape([*first.shape[:-2], first.shape[-2] * 2, first.shape[-1]])


def _blocks(a: Pair) -> Term:
    """Matrices of reals with `[re, -im; im, re]` for each element."""
    upper, lower = (
        transposed(_rows(transposed(one), transposed(other)))
        for one, other in ((a.real, -a.imag), (a.imag, a.real))
    )
    return _rows(upper, lower)


def _read(blocks: Term) -> Pair:
    """What `_blocks` was made of."""
    rank, size = len(blocks.shape), blocks.shape[-1] // 2
    split = blocks.reshape([*blocks.shape[:-2], size, 2, size, 2])
    first = split.part(rank + 1, 0, 1)
    real, imag = (
        first.part(rank - 1, at, 1).reshape([*blocks.shape[:-2], size, size]) for at in (0, 1)
    )
    return Pair(real, imag)
