"""Products and convolutions of bytes that count from zero points, exactly in i32, by those of
unsigned with signed bytes, which processors multiply and add in one instruction.

    sum (x - zx) * (w - zw)  =  sum x * w  -  zx * sum w  -  zw * sum x  +  k * zx * zw
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import AttributeValue, ints, to_attribute
from weft.dialects.graph.core.types import I8, I32, UI8, ShapeAttr

WORD = 4
"""Bytes whose products one instruction adds up."""

LEAST_FILLED = 2
"""Taps of zero that are added at most to fill a word."""

HALF = 128
"""What unsigned bytes are ahead of signed ones of the same bits, but for the highest."""


class Centred(NamedTuple):
    """Bytes, and the number that each of them is the distance from: a scalar or what broadcasts
    against the product, of any integer type, None for 0.
    """

    values: Term
    zero: Term | None = None

    @staticmethod
    def of(b: GraphBuilder, values: SSAValue, zero: SSAValue | None) -> Centred:
        """Bytes with their zero point."""
        return Centred(Term(b, values), None if zero is None else Term(b, zero))

    def transposed(self) -> Centred:
        """A matrix with its dims in the other order; the zero point stays that of a column."""
        return Centred(self.values.transpose([1, 0]), self.zero)

    def unsigned(self) -> Centred:
        """The same numbers as unsigned bytes, and their zero point in i32."""
        return self._of(UI8, HALF)

    def signed(self) -> Centred:
        """The same numbers as signed bytes, and their zero point in i32."""
        return self._of(I8, -HALF)

    def _of(self, element: Attribute, by: int) -> Centred:
        level = None if self.zero is None else self.zero.cast(I32)
        if self.values.type.element == element:
            return Centred(self.values, level)
        # The highest bit alone differs, and no element is wider meanwhile: folding keeps that.
        b = self.values.b
        bits = Term(b, b.bitcast(self.values.value, to=UI8))
        flipped = b.bitwise_xor(bits.value, bits.number(HALF).value)
        zero = Term(b, b.constant_of(by, I32))
        moved = bits.of(b.bitcast(flipped, to=element))
        return Centred(moved, zero if level is None else level + by)


def exact_matmul(lhs: Centred, rhs: Centred) -> Term:
    """`lhs @ rhs` in i32, modulo 2^32."""
    x, zx = lhs.unsigned()
    w, zw = rhs.signed()
    depth = x.shape[len(x.shape) - 1]
    total = x.of(x.b.integer_matmul(x.value, w.value))
    if zx is not None:
        ones = _ones(w, (*([1] if len(x.shape) > 1 else []), depth), UI8)
        total = total - zx * w.of(w.b.integer_matmul(ones.value, w.value))
    if zw is not None:
        rows = x.cast(I32).sum([len(x.shape) - 1], keepdims=len(w.shape) > 1)
        total = total - zw * rows
    return _with_zeros(total, zx, zw, depth)


def exact_conv(
    image: Centred,
    filters: Centred,
    bias: SSAValue | None,
    outside: int | None,
    attributes: Mapping[str, AttributeValue],
) -> Term:
    """A convolution in i32, modulo 2^32, with the attributes of `graph.conv`; the zero point of the
    filters is a scalar or `[m, 1, ...]`, and None where there are groups. Outside of the image is
    its zero point: `outside`, or None where that is not known.
    """
    x, zx = image.unsigned()
    w, zw = filters.signed()
    if outside is None:
        x, attributes = _padded(x, zx, attributes)
    elif image.values.type.element == I8:
        outside += HALF
    given = {**attributes, "outside": outside or 0}
    filled, wider = _with_whole_words(w, given)
    total = x.of(x.b.integer_conv(x.value, filled.value, bias, **wider))
    spatial = list(range(2, len(w.shape)))
    if zx is not None:
        count = product(w.shape[1:])
        rows, ones = w.reshape((w.shape[0], count)), _ones(w, (count, 1), UI8)
        sums = w.of(w.b.integer_matmul(rows.value, ones.value))
        total = total - zx * sums.reshape((w.shape[0], *[1] * len(spatial)))
    if zw is not None:
        total = total - zw * _window_sums(x, w, given)
    return _with_zeros(total, zx, zw, product(w.shape[1:]))


def _window_sums(x: Term, w: Term, attributes: Mapping[str, AttributeValue]) -> Term:
    """Sums of all that filters read: of the channels of a pixel first, then of a window of these,
    which is as much less work as there are channels.
    """
    channels = x.cast(I32).sum([1], keepdims=True)
    level = cast(int, attributes["outside"])
    outside = size_term(x.b, w.shape[1], I32) * level if level else None
    padded, rest = _padded(channels, outside, attributes)
    ones = _ones(w, (1, 1, *w.shape[2:]), I32)
    rest = {name: each for name, each in rest.items() if name != "outside"}
    return x.of(x.b.conv(padded.value, ones.value, None, **rest))


def _with_whole_words(
    w: Term, attributes: Mapping[str, AttributeValue]
) -> tuple[Term, Mapping[str, AttributeValue]]:
    """Filters whose rows end with taps of zero, and the padding that these reach, where the
    bytes of neighbouring taps fill words and those of channels do not.
    """
    depth, taps = w.shape[1].constant, w.shape[len(w.shape) - 1].constant
    missing = -(taps or 0) % WORD
    alone = [*exprs_of(attributes.get("dilations")), attributes.get("group") or 1]
    if depth is None or depth % WORD == 0 or not missing or missing > LEAST_FILLED:
        return w, attributes
    if any(each not in (1, IntegerAttr(1, i64)) for each in alone):
        return w, attributes
    pads = exprs_of(attributes.get("pads")) or [Expr.of(0)] * (2 * (len(w.shape) - 2))
    pads[-1] += missing
    behind = shape_attr([0] * (2 * len(w.shape) - 1) + [missing])
    filled = w.of(w.b.pad(w.value, pads=behind, mode="constant"))
    return filled, {**attributes, "pads": shape_attr(pads)}


def _ones(like: Term, shape: Sequence[ExprLike], element: Attribute) -> Term:
    return like.of(like.b.constant_of(1, element)).expand(shape)


def _padded(
    x: Term, zero: Term | None, attributes: Mapping[str, AttributeValue]
) -> tuple[Term, Mapping[str, AttributeValue]]:
    """The image with padding of a number that may be one of a call, and the other attributes."""
    pads = exprs_of(attributes.get("pads"))
    if zero is None or all(pad == 0 for pad in pads):
        return x, attributes
    before, behind = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    around = shape_attr([0, 0, *before, 0, 0, *behind])
    zero = zero.cast(x.type.element)
    padded = x.of(x.b.pad(x.value, zero.value, pads=around, mode="constant"))
    return padded, {name: each for name, each in attributes.items() if name != "pads"}


def exprs_of(pads: AttributeValue) -> list[Expr]:
    """An attribute's list of numbers or sizes; none where it is absent."""
    if pads is None:
        return []
    attribute = to_attribute(pads, shape=True)
    if isinstance(attribute, ShapeAttr):
        return list(attribute.data or ())
    assert isinstance(attribute, DenseArrayBase), "pads are numbers or sizes"
    return [Expr.of(each) for each in ints(cast(DenseArrayBase[Any], attribute))]


def _with_zeros(total: Term, zx: Term | None, zw: Term | None, count: Expr) -> Term:
    """Adds the product of both zero points, once for each term of a sum."""
    if zx is None or zw is None:
        return total
    return total + zx * zw * size_term(total.b, count, I32)
