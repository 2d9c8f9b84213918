"""ATen's comparisons, choices and operators on bits."""

from __future__ import annotations

from functools import partial
from typing import Final

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Operand,
    entry,
    promoted,
    result_element,
    term,
)
from weft.compiler.frontend.torch.ops.elementwise import is_negative, to_numbers
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, FLOATS, UNSIGNED


def compare(name: str, b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """Whether elements are in that order."""
    first, second = map(to_numbers, promoted(b, x, other))
    return first.of(b.op(name, first.value, second.value).results[0])


def _not_equal(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    return compare("equal", b, x, other).math("logical_not")


def logical(name: str, b: GraphBuilder, x: Term, other: Term) -> Term:
    """An operator on whether elements are not zero."""
    return x.of(b.op(name, x.cast(BOOL).value, other.cast(BOOL).value).results[0])


def bitwise(name: str, b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """An operator on bits, or on bools."""
    first, second = promoted(b, x, other)
    level = "logical" if first.type.element == BOOL else "bitwise"
    return first.of(b.op(f"{level}_{name}", first.value, second.value).results[0])


def _shift(direction: str, b: GraphBuilder, x: Operand, other: Operand) -> Term:
    first, second = promoted(b, x, other)
    return first.of(b.bit_shift(first.value, second.value, direction=direction))


def bitwise_not(b: GraphBuilder, x: Term) -> Term:
    """All bits the other way round."""
    return x.math("logical_not" if x.type.element == BOOL else "bitwise_not")


def where(b: GraphBuilder, condition: Term, x: Operand, other: Operand) -> Term:
    """The first where the condition holds, else the second."""
    element = result_element(x, other)
    return condition.cast(BOOL).where(term(b, x, element), term(b, other, element))


def masked_fill(b: GraphBuilder, x: Term, mask: Term, value: Operand) -> Term:
    """A number where the mask holds."""
    found = mask.cast(BOOL).where(term(b, value, x.type.element), x)
    return found.expand(x.shape) if len(found.shape) == len(x.shape) else found


def is_nan(b: GraphBuilder, x: Term) -> Term:
    """Whether elements are no numbers."""
    return x.math("is_nan") if x.type.element in FLOATS else _not_equal(b, x, x)


def is_inf(b: GraphBuilder, x: Term, *, positive: bool = True, negative: bool = True) -> Term:
    """Whether elements are infinities of these signs."""
    if x.type.element not in FLOATS:
        return _not_equal(b, x, x)
    return x.of(b.is_inf(x.value, positive=positive, negative=negative))


def signbit(b: GraphBuilder, x: Term) -> Term:
    """Whether the sign of each element is set."""
    if x.type.element in FLOATS:
        return is_negative(x)
    return _not_equal(b, x, x) if x.type.element in (BOOL, *UNSIGNED) else x < 0


_ORDERS: Final = {
    "eq": "equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip

TABLE: Final[AtenTable] = {
    **{
        f"aten.{name}.{overload}": partial(compare, order)
        for name, order in _ORDERS.items()
        for overload in ("Tensor", "Scalar")
    },
    **entry(_not_equal, "ne.Tensor", "ne.Scalar"),
    **{
        f"aten.logical_{name}.default": partial(logical, f"logical_{name}")
        for name in ("and", "or", "xor")
    },
    **entry(lambda b, x: x.cast(BOOL).math("logical_not"), "logical_not.default"),
    **{
        f"aten.bitwise_{name}.{overload}": partial(bitwise, name)
        for name in ("and", "or", "xor")
        for overload in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **entry(bitwise_not, "bitwise_not.default"),
    **entry(
        partial(_shift, "LEFT"),
        "bitwise_left_shift.Tensor",
        "bitwise_left_shift.Tensor_Scalar",
        "__lshift__.Tensor",
        "__lshift__.Scalar",
    ),
    **entry(
        partial(_shift, "RIGHT"),
        "bitwise_right_shift.Tensor",
        "bitwise_right_shift.Tensor_Scalar",
        "__rshift__.Tensor",
        "__rshift__.Scalar",
    ),
    **entry(where, "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"),
    **entry(masked_fill, "masked_fill.Scalar", "masked_fill.Tensor"),
    **entry(is_nan, "isnan.default"),
    **entry(is_inf, "isinf.default"),
    **entry(partial(is_inf, negative=False), "isposinf.default"),
    **entry(partial(is_inf, positive=False), "isneginf.default"),
    **entry(signbit, "signbit.default"),
}
