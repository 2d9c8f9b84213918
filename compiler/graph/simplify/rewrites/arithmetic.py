"""Identities of sums, products, powers and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.graph.match import literal_of
from weft.compiler.graph.simplify.rewrites.expressions import (
    Expression,
    Match,
    Operator,
    Rewrite,
    Value,
    graph,
)
from weft.dialects.graph import GraphOp, ReshapeOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import FLOATS, INTEGERS, SIGNED, type_of
from weft.dialects.graph.ops.activation import ReluOp
from weft.dialects.graph.ops.arithmetic import AbsOp, AddOp, MulOp
from weft.dialects.graph.ops.exponential import ExpOp
from weft.dialects.graph.ops.extremum import ClipOp, MaxOp, MinOp
from weft.dialects.graph.ops.reduce import ReduceMeanOp, ReduceSumOp, ReduceSumSquareOp

x, y = Value("x"), Value("y")
c, d = Value("c", is_constant=True), Value("d", is_constant=True)

DEEPEST: Final = 8
"""Operators that are looked through for the sign of a value."""

Bound = float | None


def is_positive(value: SSAValue, depth: int = DEEPEST) -> bool:
    """Whether no element can be negative or -0; it may be NaN. Sums and products of integers, and
    the absolute value of the least one, wrap around.
    """
    owner = value.owner
    if depth == 0 or not isinstance(owner, GraphOp):
        return False
    if type_of(value).element not in FLOATS:
        return isinstance(owner, ReluOp)
    if isinstance(owner, MulOp) and owner.lhs is owner.rhs:
        return True
    if isinstance(owner, AddOp | MulOp | ReduceMeanOp | ReduceSumOp | ReshapeOp):
        return all(is_positive(operand, depth - 1) for operand in owner.operands)
    number = literal_of(value)
    if number is not None:
        return math.copysign(1, number) > 0
    return isinstance(owner, AbsOp | ExpOp | ReluOp | ReduceSumSquareOp)


def _root(m: Match) -> Term | None:
    """Of a negative number or -0 the root is not what the power is."""
    return m["x"].math("sqrt") if is_positive(m.values["x"]) else None


def _inverse_root(m: Match) -> Term | None:
    root = _root(m)
    return root and root.math("reciprocal")


def _positive(m: Match) -> Term | None:
    return m["x"] if is_positive(m.values["x"]) else None


def _rows_first(m: Match) -> Term | None:
    """`x * (y * z)` as `(x * y) * z`, where `y` is one number for each row, `z` one row, and only
    their product as large as `x`: normalisations have their scale in either place.
    """
    x, y, z = (type_of(m.values[name]) for name in "xyz")
    if x != m.root.result_type or y.shape[-1:] != (1,) or z.rank != 1 or x.rank == 1:
        return None
    return m["x"] * m["y"] * m["z"]


def _times_reciprocal(m: Match) -> Term | None:
    """Where all divisors are powers of two, of which the reciprocals are exact."""
    divisors = m.array("c")
    if divisors is None:
        return None
    numbers = divisors.astype(np.float64)
    with np.errstate(all="ignore"):
        factors = (1 / numbers).astype(divisors.dtype)
    mantissas, _ = np.frexp(numbers)
    if not (np.isfinite(factors) & (np.abs(mantissas) == 0.5)).all():
        return None
    (factor,) = m.constants(factor=1 / m["c"])
    return m["x"] * factor


def _bounds(op: GraphOp) -> tuple[SSAValue, Bound, Bound] | None:
    """What an operator bounds, and by which numbers, where these are known, finite and not -0."""
    operand, *others = op.slots()
    if isinstance(op, MaxOp | MinOp) and operand is not None and literal_of(operand) is not None:
        operand, others = op.rhs, [op.lhs]
    numbers = [0 if isinstance(op, ReluOp) else None]
    if others:
        numbers = [None if each is None else literal_of(each) for each in others]
    given = [number for number in numbers if number is not None]
    known = len(given) == max(1, len(op.operands) - 1)
    usable = all(
        math.isfinite(each) and (each != 0 or math.copysign(1, each) > 0) for each in given
    )
    if operand is None or not known or not usable:
        return None
    numbers = [None, *numbers] if isinstance(op, MinOp) else [*numbers, None]
    return operand, numbers[0], numbers[1]


def _one_bound(m: Match) -> Term | None:
    """`min(max(min(max(x, low), high), least), most)` with both pairs of bounds in one."""
    inner, outer = _bounds(m.operators["inner"]), _bounds(m.operators["outer"])
    if inner is None or outer is None or outer[0] is not m.operators["inner"].results[0]:
        return None
    (value, *within), (_, *around) = inner, outer
    (low, high), (least, most) = _interval(within), _interval(around)
    if not (low <= high and least <= most):
        return None
    bounds = [min(max(bound, least), most) for bound in (low, high)]
    value = Term(m.b, value)
    if bounds == [0, math.inf]:
        return value.math("relu")
    constants = [value.number(bound).value if math.isfinite(bound) else None for bound in bounds]
    return value.of(m.b.clip(value.value, *constants))


def _interval(bounds: Sequence[Bound]) -> tuple[float, float]:
    low, high = bounds
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _bounded(value: Expression, bound: Value, name: str) -> tuple[Operator, ...]:
    """A value between bounds, however that is written."""
    either = Operator((MaxOp, MinOp), (value, bound)), Operator((ReluOp, ClipOp), (value,))
    return tuple(each.named(name) for each in either)


SUMS = (
    Rewrite("-(-x)", graph.neg(graph.neg(x)), x),
    Rewrite("x + -y", graph.add(x, graph.neg(y)), graph.sub(x, y)),
    Rewrite("x - -y", graph.sub(x, graph.neg(y)), graph.add(x, y)),
    Rewrite("x - x", graph.sub(x, x), 0, elements=INTEGERS),
    Rewrite("x + 0", graph.add(x, 0), x, elements=INTEGERS),
    Rewrite("x + -0", graph.add(x, -0.0), x, elements=FLOATS),
    Rewrite("x - 0", graph.sub(x, 0), x),
    Rewrite("||x||", graph.abs(graph.abs(x)), graph.abs(x)),
    Rewrite("|-x|", graph.abs(graph.neg(x)), graph.abs(x), elements=(*FLOATS, *SIGNED)),
)

PRODUCTS = (
    Rewrite("x * 0", graph.mul(x, 0), 0, elements=INTEGERS),
    Rewrite("x * 1", graph.mul(x, 1), x),
    Rewrite("x * -1", graph.mul(x, -1), graph.neg(x), elements=(*FLOATS, *SIGNED)),
    Rewrite("-x * -y", graph.mul(graph.neg(x), graph.neg(y)), graph.mul(x, y)),
    Rewrite(
        "x * (y * z)",
        graph.mul(x, graph.mul(y, Value("z")).alone()),
        _rows_first,
        exact=False,
        elements=FLOATS,
    ),
    Rewrite("x / 1", graph.div(x, 1), x),
    Rewrite("x / 2 ** n", graph.div(x, c), _times_reciprocal, elements=FLOATS),
    Rewrite("x ** 0", graph.pow(x, 0), 1),
    Rewrite("x ** 1", graph.pow(x, 1), x),
    Rewrite("x ** 2", graph.pow(x, 2), graph.mul(x, x)),
    Rewrite("x ** 3", graph.pow(x, 3), graph.mul(graph.mul(x, x), x), exact=False),
    Rewrite("x ** -1", graph.pow(x, -1), graph.reciprocal(x), elements=FLOATS),
    Rewrite("x ** 0.5", graph.pow(x, 0.5), _root, elements=FLOATS),
    Rewrite("x ** -0.5", graph.pow(x, -0.5), _inverse_root, exact=False, elements=FLOATS),
)

BOUNDS = (
    Rewrite("max(x, x)", graph.max(x, x), x),
    Rewrite("min(x, x)", graph.min(x, x), x),
    Rewrite("max(x, 0)", graph.max(x, 0), _positive, elements=FLOATS),
    Rewrite("max(x, -inf)", graph.max(x, -math.inf), x, elements=FLOATS),
    Rewrite("min(x, inf)", graph.min(x, math.inf), x, elements=FLOATS),
    *(
        Rewrite(
            f"{outer.classes[0].__name__[:-2]} of {inner.classes[0].__name__[:-2]}",
            outer,
            _one_bound,
        )
        for inner in _bounded(x, c, "inner")
        for outer in _bounded(inner, d, "outer")
    ),
)
