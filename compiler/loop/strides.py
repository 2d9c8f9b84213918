"""How far apart the elements are that consecutive iterations of a loop access."""

from __future__ import annotations

from weft.compiler.loop.nest import accesses_in, element_address
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp

LINE_ELEMENTS = 8
"""Elements of stride from which on each load is taken to touch a line of its own."""


def stride(access: AccessOp, loop: ForOp) -> Expr | None:
    """The elements between accesses of consecutive iterations; None where that varies."""
    address = element_address(access)
    return address.coefficient(loop.index) if address.is_affine_in(loop.index) else None


def is_strided(access: AccessOp, loop: ForOp) -> bool:
    """Whether consecutive iterations access different lines, or may do so."""
    step = stride(access, loop)
    return step is not None and (step.constant is None or abs(step.constant) >= LINE_ELEMENTS)


def is_contiguous(outer: ForOp, inner: ForOp) -> bool:
    """Whether each access of the outer loop continues where the inner one ends, so that both could
    be one loop.
    """
    return all(continues(access, outer, inner) for access in accesses_in(inner))


def continues(access: AccessOp, outer: ForOp, inner: ForOp) -> bool:
    """Whether an iteration of the outer loop goes on where the last one of the inner loop ended."""
    outside, inside = stride(access, outer), stride(access, inner)
    return outside is not None and inside is not None and outside == inside * inner.extent
