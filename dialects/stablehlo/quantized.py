"""`!quant.uniform`: integers that stand for floats, as StableHLO's programs write them."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from xdsl.ir import Attribute, Data, Dialect, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class Quantization(Struct, frozen=True):
    """`expressed = (stored - zero_point) * scale`."""

    storage: Attribute
    expressed: Attribute
    scale: float
    zero_point: int = 0


@irdl_attr_definition
class UniformType(Data[Quantization], TypeAttribute):
    """The element type of a tensor that is quantised as a whole:
    `!quant.uniform<i8:f32, 0.5:-3>`.
    """

    name: ClassVar[str] = "quant.uniform"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Quantization:
        with parser.in_angle_brackets():
            storage = parser.parse_type()
            parser.parse_punctuation(":")
            expressed = parser.parse_type()
            parser.parse_punctuation(",")
            scale = parser.parse_float()
            marked = parser.parse_optional_punctuation(":") is not None
            zero_point = parser.parse_integer() if marked else 0
        return Quantization(storage, expressed, scale, zero_point)

    def print_parameter(self, printer: Printer) -> None:
        given = self.data
        scale = repr(given.scale)
        if "e" in scale and "." not in scale:
            scale = scale.replace("e", ".0e")
        types = f"{given.storage}:{given.expressed}"
        printer.print_string(f"<{types}, {scale}:{given.zero_point}>")


QUANT = Dialect("quant", [], [UniformType])
