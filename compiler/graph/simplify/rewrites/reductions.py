"""Reductions of reductions are one over the axes of both."""

from __future__ import annotations

from xdsl.ir import Attribute

from weft.compiler.graph.simplify.rewrites.expressions import Match, Rewrite, Value, graph
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.elementwise import ANY_ELEMENT
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.graph.ops.reduce import ReduceOp

x = Value("x")


def _over_both(m: Match) -> Term | None:
    """One reduction, where both keep dims of 1 or neither does."""
    inner, outer = m.op("inner", ReduceOp), m.op("outer", ReduceOp)
    if inner.keeps_dims != outer.keeps_dims:
        return None
    left = [axis for axis in range(len(m["x"].shape)) if axis not in inner.reduced()]
    over = outer.reduced() if outer.keeps_dims else [left[axis] for axis in outer.reduced()]
    return m.again(outer, m.values["x"], axes=sorted({*inner.reduced(), *over}))


def _twice(
    name: str, elements: tuple[Attribute, ...] = ANY_ELEMENT, *, exact: bool = False
) -> Rewrite:
    reduce = getattr(graph, f"reduce_{name}")
    before = reduce(reduce(x).named("inner").alone()).named("outer")
    return Rewrite(f"{name} of {name}", before, _over_both, exact, elements)


REDUCTIONS = (
    _twice("sum"),
    _twice("prod"),
    _twice("mean", FLOATS),  # integers are rounded in between
    _twice("max", exact=True),
    _twice("min", exact=True),
)
