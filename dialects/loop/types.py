"""`!loop.buffer` and the attributes of the loop level: expressions and layouts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard

from xdsl.dialects.builtin import IntegerType, NoneAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from weft.dialects.expr import (
    Atom,
    Expr,
    ExprLike,
    Operand,
    product,
    row_major_strides,
    sum_of_products,
)
from weft.dialects.expr_text import parse_formal_expr

Exprs = tuple[Expr, ...]


def _parse_exprs(parser: AttrParser) -> Exprs:
    return tuple(
        parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_formal_expr(parser)
        )
    )


def format_exprs(exprs: Sequence[Expr]) -> str:
    """The expressions in square brackets."""
    return f"[{', '.join(str(expr) for expr in exprs)}]"


@irdl_attr_definition
class ExprsAttr(Data[tuple[Expr, ...]]):
    """Integer expressions over symbols and the operation's index operands:
    `#loop.exprs<[d0 + 6 * d1, n]>`.
    """

    name = "loop.exprs"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Exprs:
        with parser.in_angle_brackets():
            return _parse_exprs(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{format_exprs(self.data)}>")


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """Where an element is stored: subscripts of the storage as expressions of the logical
    index `d0, d1, ...`, and its dims.

    A matrix in panels of 16 columns is
    `#loop.layout<[(d1 floordiv 16), d0, (d1 mod 16)] in [48, 768, 16]>`. The storage itself is
    dense and row-major. Storage that no logical index reaches is padding.
    """

    name = "loop.layout"
    subscripts: ExprsAttr = param_def()
    storage: ExprsAttr = param_def()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parse_layout_body(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.body()}>")

    def body(self) -> str:
        """The text between the angle brackets."""
        return f"{format_exprs(self.subscripts.data)} in {format_exprs(self.storage.data)}"


def parse_layout_body(parser: AttrParser) -> tuple[ExprsAttr, ExprsAttr]:
    """Parses `[subscripts] in [storage dims]`."""
    subscripts = _parse_exprs(parser)
    parser.parse_characters("in")
    return ExprsAttr(subscripts), ExprsAttr(_parse_exprs(parser))


MOST_PARSED = 1 << 12

_PARSED: dict[str, Sequence[Attribute]] = {}
"""The parameters of types of buffers by their text, the last ones that were parsed."""


def _in_brackets(text: str, start: int) -> str:
    """The text from an opening angle bracket to the one that closes it, or to the end."""
    depth = 0
    for bracket in _BRACKETS.finditer(text, start):
        depth += 1 if bracket[0] == "<" else -1
        if depth <= 0:
            return text[start : bracket.end()]
    return text[start:]


_BRACKETS = re.compile("[<>]")


def _parse_parameters(parser: AttrParser) -> Sequence[Attribute]:
    with parser.in_angle_brackets():
        dims = ExprsAttr(_parse_exprs(parser))
        parser.parse_punctuation(",")
        element = parser.parse_type()
        if not parser.parse_optional_punctuation(","):
            return [dims, element, NoneAttr()]
        return [dims, element, LayoutAttr(*parse_layout_body(parser))]


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Storage with a logical shape, an element type and a layout: `!loop.buffer<[n, 784], f32>`.

    With a layout of its own it prints as
    `!loop.buffer<[768, 768], f32, [(d1 floordiv 16), ...] in [48, 768, 16]>`.
    """

    name = "loop.buffer"
    dims: ExprsAttr = param_def()
    element: Attribute = param_def()
    layout: LayoutAttr | NoneAttr = param_def()

    @property
    def shape(self) -> Exprs:
        """The logical dims."""
        return self.dims.data

    @property
    def rank(self) -> int:
        """The number of logical dims."""
        return len(self.dims.data)

    @property
    def storage(self) -> Exprs:
        """The dims of the storage."""
        return self.shape if isinstance(self.layout, NoneAttr) else self.layout.storage.data

    @property
    def size(self) -> Expr:
        """How many elements the storage holds."""
        return product(self.storage)

    def address(self, index: Sequence[Expr]) -> Expr:
        """The position in storage, in elements, of a logical index."""
        layout = None if isinstance(self.layout, NoneAttr) else self.layout.subscripts.data
        return _address(tuple(index), layout, self.storage)

    def substitute(self, values: Mapping[Atom, Expr]) -> BufferType:
        """The type with symbols replaced, in the dims and in the layout's."""
        return self.map(lambda expr: expr.substitute(values))

    def map(self, change: Callable[[Expr], Expr]) -> BufferType:
        """The type with other expressions for the dims and the layout's."""

        def changed(exprs: ExprsAttr) -> ExprsAttr:
            return ExprsAttr(tuple(map(change, exprs.data)))

        layout = self.layout
        if isinstance(layout, LayoutAttr):
            layout = LayoutAttr(changed(layout.subscripts), changed(layout.storage))
        return BufferType(changed(self.dims), self.element, layout)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        # Each access repeats the type of its buffer, so most texts were parsed before.
        start = parser.pos
        text = _in_brackets(parser.lexer.input.content, start)
        if (known := _PARSED.get(text)) is not None:
            parser._resume_from(start + len(text))  # pyright: ignore[reportPrivateUsage]
            return known
        if len(_PARSED) == MOST_PARSED:
            _PARSED.clear()
        _PARSED[text] = found = _parse_parameters(parser)
        return found

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{format_exprs(self.shape)}, ")
        printer.print_attribute(self.element)
        if not isinstance(self.layout, NoneAttr):
            printer.print_string(f", {self.layout.body()}")
        printer.print_string(">")


@lru_cache(maxsize=1 << 12)
def _address(index: Exprs, layout: Exprs | None, storage: Exprs) -> Expr:
    """The position of an index, which the layout's subscripts are over, in storage."""
    if layout is not None:
        values: dict[Atom, Expr] = {Operand(position): expr for position, expr in enumerate(index)}
        index = tuple(expr.substitute(values) for expr in layout)
    return sum_of_products(index, row_major_strides(storage))


def buffer(
    shape: Iterable[ExprLike], element: Attribute, layout: LayoutAttr | None = None
) -> BufferType:
    """The buffer type of these dims, element type and layout (row-major by default)."""
    return BufferType(
        ExprsAttr(tuple(Expr.of(dim) for dim in shape)), element, layout or NoneAttr()
    )


def buffer_type_of(value: SSAValue) -> BufferType:
    """The type of a value that is a buffer."""
    assert isinstance(value.type, BufferType), f"an access needs a buffer, not {value.type}"
    return value.type


def is_integer(element: Attribute) -> TypeGuard[IntegerType]:
    """Whether the element type is an integer one, bool among them; an index is none."""
    return isinstance(element, IntegerType)


def register_type(element: Attribute) -> Attribute:
    """The type of a loaded element: integers lose their signedness,
    which lives in the operations on them.
    """
    if is_integer(element):
        return IntegerType(element.width)
    return element
