"""The bits of elements as other element types, and the upper halves of products."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.elementwise import SIGNED_OF, UNSIGNED_OF
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.types import BOOL, SIGNED, UI2, UI4, UI8
from weft.dialects.loop.scalar import width

_UNSIGNED = {2: UI2, 4: UI4, **UNSIGNED_OF}


def bitcast_convert(node: Node) -> Sequence[Term]:
    """The bits as another element type; narrower elements are a last dim."""
    return [recast(node.only, node.result.element)]


def recast(x: Term, element: Attribute) -> Term:
    """The bits of a tensor's elements as another type, which splits them or joins the last dim."""
    if element == x.type.element:
        return x
    source, target = width(x.type.element), width(element)
    if source == target:
        return x.of(x.b.bitcast(x.value, to=element))
    return _split(x, element, source, target) if source > target else _merged(x, element)


def _codes(x: Term) -> Term:
    """The bits as unsigned integers of at least 8 bits."""
    element = x.type.element
    if element == BOOL:
        return x.cast(UI8)
    codes = x.of(x.b.bitcast(x.value, to=_UNSIGNED[width(element)]))
    return codes.cast(UI8) if width(element) < 8 else codes


def _of_codes(x: Term, element: Attribute) -> Term:
    """The low bits of unsigned integers as a type."""
    if element == BOOL:
        return _masked(x, 1).cast(BOOL)
    narrow = x.cast(_UNSIGNED[width(element)])
    return x.of(x.b.bitcast(narrow.value, to=element))


def _masked(x: Term, mask: int) -> Term:
    return x.of(x.b.bitwise_and(x.value, x.number(mask).value))


def _shifted(x: Term, count: int, direction: str) -> Term:
    return x.of(x.b.bit_shift(x.value, x.number(count).value, direction=direction))


def _split(x: Term, element: Attribute, source: int, target: int) -> Term:
    """Wide elements as parts, the lowest first."""
    wide, rank = _codes(x), len(x.shape)
    starts = range(0, source, target)
    parts = [_of_codes(_shifted(wide, at, "RIGHT"), element) for at in starts]
    return joined([part.insert(rank) for part in parts], rank)


def _merged(x: Term, element: Attribute) -> Term:
    """Parts along the last dim as wide elements."""
    axis, lead = len(x.shape) - 1, x.shape[:-1]
    source, target = width(x.type.element), width(element)
    codes = _codes(x).cast(_UNSIGNED[max(8, target)])
    total: Term | None = None
    for at in range(target // source):
        moved = _shifted(codes.part(axis, at, 1).reshape(lead), source * at, "LEFT")
        total = moved if total is None else total + moved
    assert total is not None, "a wide element has parts"
    return _of_codes(total, element)


def upper_product(x: Term, y: Term) -> Term:
    """The upper half of the product of integers, which has twice their bits."""
    element = x.type.element
    size, is_signed = width(element), element in SIGNED
    if size < 64:
        wide = (SIGNED_OF if is_signed else UNSIGNED_OF)[2 * size]
        return _shifted(x.cast(wide) * y.cast(wide), size, "RIGHT").cast(element)
    a, b = _codes(x), _codes(y)
    found = _upper_unsigned(a, b)
    if is_signed:  # a negative number is 2**64 too great as an unsigned one
        found = found - (x < 0).where(b, 0) - (y < 0).where(a, 0)
    return recast(found, element)


def _upper_unsigned(a: Term, b: Term) -> Term:
    """The upper 64 bits of a product of unsigned integers of 64, by four of halves."""
    half, mask = 32, (1 << 32) - 1
    (low, high), (other_low, other_high) = (
        (_masked(each, mask), _shifted(each, half, "RIGHT")) for each in (a, b)
    )
    middle = high * other_low + _shifted(low * other_low, half, "RIGHT")
    other_middle = low * other_high + _masked(middle, mask)
    carried = _shifted(middle, half, "RIGHT") + _shifted(other_middle, half, "RIGHT")
    return high * other_high + carried


BITS = {"bitcast_convert": bitcast_convert}
"""By the name in StableHLO."""
