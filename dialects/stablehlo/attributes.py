"""Attributes of the dialect `stablehlo`: words, records of `name = value`, and the dimension
numbers of convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar

from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

FieldValue: TypeAlias = "int | float | str | tuple[FieldValue, ...] | Attribute"
T = TypeVar("T", bound=Attribute)
Field = tuple[str, FieldValue]


class WordAttr(Data[str]):
    """One of a few words: `#stablehlo<precision HIGHEST>`, also as `#stablehlo.precision<...>`."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        angled = parser.parse_optional_punctuation("<") is not None
        word = parser.parse_identifier()
        if angled:
            parser.parse_punctuation(">")
        return word

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class RecordAttr(Data[tuple[Field, ...]]):
    """Named numbers, lists and words: `#stablehlo.gather<offset_dims = [0], index_vector_dim = 1>`;
    what is not written has its default.
    """

    @property
    def fields(self) -> Mapping[str, FieldValue]:
        """The values that are written, by name."""
        return dict(self.data)

    def integers(self, name: str) -> list[int]:
        """A list of ints, empty by default."""
        value = self.fields.get(name, ())
        items = value if isinstance(value, tuple) else (value,)
        return [item for item in items if isinstance(item, int)]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Field, ...]:
        return tuple(
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _parse_field(parser))
        )

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        for position, (name, value) in enumerate(self.data):
            printer.print_string(f"{', ' if position else ''}{name} = ")
            _print_value(printer, value)
        printer.print_string(">")


def _parse_field(parser: AttrParser) -> Field:
    name = parser.parse_identifier()
    parser.parse_punctuation("=")
    return name, parse_value(parser)


def parse_value(parser: AttrParser) -> FieldValue:
    """What stands behind `name =`: a number, a word, an attribute or a list of them."""
    items = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_value(parser)
    )
    if items is not None:
        return tuple(items)
    if (word := parser.parse_optional_identifier()) is not None:
        return word
    if (number := parser.parse_optional_number()) is not None:
        return number
    return parser.parse_attribute()


def _print_value(printer: Printer, value: FieldValue) -> None:
    if isinstance(value, Attribute):
        printer.print_attribute(value)
    elif isinstance(value, tuple):
        printer.print_string("[")
        printer.print_list(value, lambda each: _print_value(printer, each))
        printer.print_string("]")
    else:
        printer.print_string(str(value))


@irdl_attr_definition
class ConvDimsAttr(Data[tuple[tuple[FieldValue, ...], ...]]):
    """What each dim of a convolution's operands and result is:
    `#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`.
    """

    name = "stablehlo.conv"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[FieldValue, ...], ...]:
        with parser.in_angle_brackets():
            return parse_conv_dims(parser)

    def print_parameter(self, printer: Printer) -> None:
        image, kernel, result = (f"[{', '.join(map(str, dims))}]" for dims in self.data)
        printer.print_string(f"<{image}x{kernel}->{result}>")


def parse_conv_dims(parser: AttrParser) -> tuple[tuple[FieldValue, ...], ...]:
    """`[b, 0, f]x[0, i, o]->[b, 0, f]`: image, filter and result."""
    parts = [_parse_dims(parser)]
    parser.parse_keyword("x")
    parts.append(_parse_dims(parser))
    parser.parse_punctuation("->")
    return (*parts, _parse_dims(parser))


def _parse_dims(parser: AttrParser) -> tuple[FieldValue, ...]:
    value = parse_value(parser)
    if not isinstance(value, tuple):
        parser.raise_error("a list of dims expected")
    return value


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """What orders effects: `!stablehlo.token`."""

    name = "stablehlo.token"


@irdl_attr_definition
class BoundsAttr(Data[tuple[int | None, ...]]):
    """The greatest sizes of a tensor's dims, of those that vary: `#stablehlo.bounds<4, ?>`."""

    name = "stablehlo.bounds"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int | None, ...]:
        def bound() -> int | None:
            unknown = parser.parse_optional_punctuation("?") is not None
            return None if unknown else parser.parse_integer()

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, bound))

    def print_parameter(self, printer: Printer) -> None:
        bounds = ("?" if each is None else str(each) for each in self.data)
        printer.print_string(f"<{', '.join(bounds)}>")


def _define(base: type[T], name: str, dialect: str = "stablehlo") -> type[T]:
    title = "".join(part.capitalize() for part in name.split("_"))
    defined: Any = type(f"{title}Attr", (base,), {"name": f"{dialect}.{name}"})
    return irdl_attr_definition(defined)


_WORDS = [
    "comparison_direction",
    "comparison_type",
    "precision",
    "fft_type",
    "transpose",
    "rng_distribution",
    "rng_algorithm",
    "custom_call_api_version",
    "result_accuracy_mode",
]
_RECORDS = [
    "dot",
    "gather",
    "scatter",
    "dot_algorithm",
    "channel_handle",
    "result_accuracy",
    "output_operand_alias",
]

WORDS: Final = {name: _define(WordAttr, name) for name in _WORDS}
RECORDS: Final = {name: _define(RecordAttr, name) for name in _RECORDS}
ATTRIBUTES: Final[list[type[Attribute]]] = [
    ConvDimsAttr, TokenType, BoundsAttr, *WORDS.values(), *RECORDS.values(),
]  # fmt: skip
CHLO_ATTRIBUTES: Final[list[type[Attribute]]] = [
    _define(WordAttr, "precision", "chlo"), _define(RecordAttr, "ragged_dot", "chlo"),
]  # fmt: skip
