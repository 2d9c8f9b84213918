"""Reductions of reductions, means, and the softmax, as front ends without operators of these names
write them.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute

from weft.compiler.graph.simplify.rewrites.expressions import (
    Match,
    Operator,
    Rewrite,
    Value,
    graph,
)
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.elementwise import ANY_ELEMENT
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.graph.ops.arithmetic import MulOp
from weft.dialects.graph.ops.exponential import ExpOp
from weft.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceOp, ReduceSumOp

x, c = Value("x"), Value("c", is_constant=True)


def _over_both(m: Match) -> Term | None:
    """One reduction, where both keep dims of 1 or neither does."""
    inner, outer = m.op("inner", ReduceOp), m.op("outer", ReduceOp)
    if inner.keeps_dims != outer.keeps_dims:
        return None
    left = [axis for axis in range(len(m["x"].shape)) if axis not in inner.reduced()]
    over = outer.reduced() if outer.keeps_dims else [left[axis] for axis in outer.reduced()]
    return m.again(outer, m.values["x"], axes=sorted({*inner.reduced(), *over}))


def _kept(m: Match) -> Term | None:
    """A reduction that keeps its axes, where a reshape brings them back as dims of 1."""
    reduce = m.op("reduce", ReduceOp)
    return None if reduce.keeps_dims else m.again(reduce, m.values["x"], keepdims=True)


def _mean(m: Match) -> Term | None:
    """A sum over the number of its terms, or times one over it."""
    total, numbers = m.op("total", ReduceSumOp), m.array("c")
    count = total.count().constant
    if numbers is None or not count:
        return None
    wanted = 1 / count if isinstance(m.root, MulOp) else count
    if not np.allclose(numbers.astype(np.float64), wanted, rtol=1e-7, atol=0):
        return None
    axes = list(total.reduced())
    return m["x"].of(m.b.reduce_mean(m.values["x"], axes=axes, keepdims=total.keeps_dims))


def _variance(m: Match) -> Term | None:
    """`mean(x^2) - mean(x)^2` over the last axes as `mean((x - mean(x))^2)`: what is left of two
    numbers that are nearly the same is all rounding, and such lines are read twice from a cache.
    """
    mean, squares = m.op("mean", ReduceMeanOp), m.op("squares", ReduceMeanOp)
    axes, x = sorted(mean.reduced()), m["x"]
    last = list(range(len(x.shape)))[-len(axes) :]
    if axes != last or axes != sorted(squares.reduced()):
        return None
    distance = x - m.again(mean, x.value, keepdims=True)
    kept = m.again(squares, (distance * distance).value, keepdims=True)
    return kept if squares.keeps_dims else kept.reshape(squares.result_type.shape)


def _softmax(m: Match) -> Term | None:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` along one axis."""
    power, total, most = m.op("exp", ExpOp), m.op("total", ReduceSumOp), m.op("most", ReduceMaxOp)
    readers = {use.operation for use in power.result.uses}
    axes = total.reduced()
    whole = total.keeps_dims and most.keeps_dims and most.reduced() == axes and len(axes) == 1
    if not whole or readers != {m.root, total}:
        return None
    return Term(m.b, m.b.softmax(m.values["x"], axis=axes[0]))


def _twice(
    name: str, elements: tuple[Attribute, ...] = ANY_ELEMENT, *, exact: bool = False
) -> Rewrite:
    reduce = getattr(graph, f"reduce_{name}")
    before = reduce(reduce(x).named("inner").alone()).named("outer")
    return Rewrite(f"{name} of {name}", before, _over_both, exact, elements)


total = graph.reduce_sum(x).named("total").alone()
difference = graph.sub(x, graph.reduce_max(x).named("most").alone()).alone()
power = graph.exp(difference).named("exp")

mean = graph.reduce_mean(x).named("mean")
squares = graph.reduce_mean(graph.mul(x, x).alone()).named("squares").alone()

REDUCTIONS = (
    Rewrite(
        "reshape(reduce(x))",
        graph.reshape(Operator((ReduceOp,), (x,)).named("reduce").alone()),
        _kept,
    ),
    Rewrite("sum(x) / n", graph.div(total, c), _mean, exact=False, elements=FLOATS),
    Rewrite("sum(x) * (1 / n)", graph.mul(total, c), _mean, exact=False, elements=FLOATS),
    Rewrite(
        "mean(x ** 2) - mean(x) ** 2",
        graph.sub(squares, graph.mul(mean, mean).alone()),
        _variance,
        exact=False,
        elements=FLOATS,
    ),
    Rewrite(
        "exp(x) / sum(exp(x))",
        graph.div(power, graph.reduce_sum(power).named("total").alone()),
        _softmax,
        exact=False,
    ),
    _twice("sum"),
    _twice("prod"),
    _twice("mean", FLOATS),  # integers are rounded in between
    _twice("max", exact=True),
    _twice("min", exact=True),
)
