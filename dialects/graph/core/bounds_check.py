"""The check of a program that integers are within bounds, out of graph operators."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.dialects.expr import Expr, maximum, minimum, product
from weft.dialects.graph.core.algebra import Term, size_term
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, I64, UI64, type_of
from weft.dialects.graph.regions.effects import AssertOp


def require_inside(
    b: GraphBuilder, indices: SSAValue, low: Expr, high: Expr, rule: str, shown: Sequence[Expr] = ()
) -> None:
    """Ends a call in which an integer is below `low` or above `high`. `rule` says what is required
    and has a place for each size that is shown; what breaks it is told as well.

    One pass finds the worst: minus the lower bound, what is too low is as an unsigned number too
    high. No integers are inside in any case.
    """
    counted = Term(b, indices).cast(I64) - size_term(b, low, I64)
    far = counted.of(b.bitcast(counted.value, to=UI64))
    axes = list(range(len(far.shape)))
    worst = far.of(b.reduce_max(far.value, axes=axes, keepdims=False)) if axes else far
    nothing = 1 - minimum([product(type_of(indices).shape), 1])  # worse than 0 there is none then
    limit = size_term(b, maximum([high - low + 1, nothing]), I64)
    held = b.less(worst.value, b.bitcast(limit.value, to=UI64))
    found = worst.of(b.bitcast(worst.value, to=I64)) + size_term(b, low, I64)
    _insert(b, held, f"run requires {rule}, got {{}}", [*_terms(b, shown), found])


def require_most(b: GraphBuilder, size: Expr, most: Expr, rule: str) -> None:
    """Ends a call in which a size is above another, unless it never is; the rule has a place for
    the other.
    """
    if not at_least(most, size):
        return
    (given, limit) = _terms(b, [size, most])
    held = b.less_equal(given.value, limit.value)
    _insert(b, held, f"run requires {rule}, got {{}}", [limit, given])


def _terms(b: GraphBuilder, sizes: Sequence[Expr]) -> list[Term]:
    return [size_term(b, size, I64) for size in sizes]


def _insert(b: GraphBuilder, held: SSAValue, text: str, shown: Sequence[Term]) -> None:
    assert type_of(held).element == BOOL, "a condition is a bool"
    b.builder.insert(AssertOp.of(held, text, [each.value for each in shown], b.location))
