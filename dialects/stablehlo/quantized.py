"""`!quant.uniform`: integers that stand for floats, as StableHLO's programs write them."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, Data, Dialect, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class Quantization(Struct, frozen=True):
    """`expressed = (stored - zero_point) * scale`, with a scale and a zero point for the tensor, or
    for each index of an axis; what is stored lies within `limits`, or those of its type.
    """

    storage: Attribute
    expressed: Attribute
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None
    limits: tuple[int, int] | None = None


@irdl_attr_definition
class UniformType(Data[Quantization], TypeAttribute):
    """The element type of a quantised tensor: `!quant.uniform<i8:f32, 0.5:-3>`, or by axis
    `!quant.uniform<i8<-127:127>:f32:1, {0.5:-3, 0.25}>`.
    """

    name: ClassVar[str] = "quant.uniform"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Quantization:
        with parser.in_angle_brackets():
            storage, limits = _parse_storage(parser)
            parser.parse_punctuation(":")
            expressed = parser.parse_type()
            by_axis = parser.parse_optional_punctuation(":") is not None
            axis = parser.parse_integer() if by_axis else None
            parser.parse_punctuation(",")
            if by_axis:
                braces = parser.Delimiter.BRACES
                pairs = parser.parse_comma_separated_list(braces, lambda: _parse_pair(parser))
            else:
                pairs = [_parse_pair(parser)]
        scales, zero_points = zip(*pairs, strict=True)
        return Quantization(storage, expressed, scales, zero_points, axis, limits)

    def print_parameter(self, printer: Printer) -> None:
        given = self.data
        limits = "" if given.limits is None else "<{}:{}>".format(*given.limits)
        axis = "" if given.axis is None else f":{given.axis}"
        pairs = ", ".join(map(_pair_text, given.scales, given.zero_points))
        pairs = pairs if given.axis is None else f"{{{pairs}}}"
        printer.print_string(f"<{given.storage}{limits}:{given.expressed}{axis}, {pairs}>")


def _parse_storage(parser: AttrParser) -> tuple[Attribute, tuple[int, int] | None]:
    """A type of integers, `u8` for `ui8`, and the limits of what is stored."""
    bits = {f"u{size}": size for size in (4, 8, 16, 32)}
    word = next((each for each in bits if parser.parse_optional_keyword(each) is not None), None)
    unsigned = IntegerType(bits.get(word or "", 8), Signedness.UNSIGNED)
    storage = parser.parse_type() if word is None else unsigned
    if parser.parse_optional_punctuation("<") is None:
        return storage, None
    low = parser.parse_integer()
    parser.parse_punctuation(":")
    high = parser.parse_integer()
    parser.parse_punctuation(">")
    return storage, (low, high)


def _parse_pair(parser: AttrParser) -> tuple[float, int]:
    """`scale` or `scale:zero_point`."""
    scale = parser.parse_float()
    marked = parser.parse_optional_punctuation(":") is not None
    return scale, parser.parse_integer() if marked else 0


def _pair_text(scale: float, zero_point: int) -> str:
    written = repr(scale)
    if "e" in written and "." not in written:
        written = written.replace("e", ".0e")
    return f"{written}:{zero_point}"


QUANT = Dialect("quant", [], [UniformType])
