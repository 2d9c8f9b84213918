"""cholesky and triangular_solve."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.movement import stretched
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import BF16, F16, F32, FLOATS
from weft.dialects.graph.linalg.triangular import transposed


def cholesky(node: Node) -> Sequence[Term]:
    """The triangular `l` with `a = l * lT`; `lower` reads that half of `a` alone.
    A matrix that is not positive definite gives NaN.
    """
    a = node.only
    element = a.type.element
    if element not in FLOATS:
        raise UnsupportedError(f"requires floats, got {element}")
    work = F32 if element in (F16, BF16) else element
    lower = node.flag("lower")
    x = (a if lower else transposed(a)).cast(work)
    found = x.of(x.b.cholesky(x.value)).cast(element)
    return [found if lower else transposed(found)]


def triangular_solve(node: Node) -> Sequence[Term]:
    """`x` with `op(a) * x = b` or `x * op(a) = b`, a triangular."""
    a, b = node.operands
    b = of_stack(b, a)
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
    found = a.of(a.b.triangular_solve(a.value, b.value, lower=lower, unit=unit))
    return [(found if left else transposed(found)).cast(element)]


def of_stack(b: Term, a: Term) -> Term:
    """`b`, whose stack of matrices is required to be as large as that of `a`."""
    return stretched(b, [*a.shape[:-2], *b.shape[-2:]])


LINALG = {"cholesky": cholesky, "triangular_solve": triangular_solve}
"""By the name in StableHLO."""
