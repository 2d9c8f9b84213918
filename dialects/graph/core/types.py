"""`!graph.tensor`: what a value of the graph level is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.expr.functions import inner_exprs
from weft.dialects.expr_text import parse_expr
from weft.dialects.extent import MOST, is_allowed, too_large
from weft.dialects.loop.scalar import NARROW_FLOATS, width

Shape = tuple[Expr, ...]


@irdl_attr_definition
class ShapeAttr(Data[tuple[Expr, ...] | None]):
    """The dims of a tensor, each an integer expression over named
    symbols; None for an unknown rank.
    """

    name = "graph.shape"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Shape | None:
        with parser.in_angle_brackets():
            return _parse_dims(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{_format_dims(self.data)}>")


def _parse_dims(parser: AttrParser) -> Shape | None:
    if parser.parse_optional_punctuation("*"):
        return None
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_expr(parser))
    )


def _format_dims(dims: Shape | None) -> str:
    return "*" if dims is None else f"[{', '.join(str(dim) for dim in dims)}]"


def _has_huge(dim: Expr) -> bool:
    """Whether a dim that varies has a number beyond any extent beside its symbols, or one of more
    than 64 bits anywhere; a part that ends at the greatest integer is `min(n, 2**63 - 1)`.
    """
    if dim.constant is not None:
        return False
    for number in dim.terms.values():
        if abs(number) > MOST:
            return True
    inner = [number for expr in inner_exprs(dim) for number in expr.terms.values()]
    return bool(inner) and not -(2**63) <= min(inner) <= max(inner) < 2**63


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """A tensor of a shape and an element type: `!graph.tensor<[batch, 784], f32>`,
    or `<*, f32>` of unknown rank.

    Element types are f64, f32, f16, bf16, signed integers `i8`..`i64`,
    unsigned ones `ui8`..`ui64` and `i1` for bool; and, to be stored in, floats of 8, 6 and 4 bits
    (`f8E4M3FN`, ...) and integers of 4 and 2.
    """

    name = "graph.tensor"
    dims: ShapeAttr = param_def()
    element: Attribute = param_def()

    def verify(self) -> None:
        """Raises ExtentError where a tensor is too large whatever its symbols are."""
        dims = self.dims.data or ()
        constants = (dim.constant for dim in dims if dim.constant is not None)
        element_bytes = max(8, width(self.element)) // 8
        if not is_allowed(constants, element_bytes) or any(map(_has_huge, dims)):
            raise too_large("a tensor", self)

    @property
    def shape(self) -> Shape:
        """The dims, where the rank is known."""
        if self.dims.data is None:
            raise TypeInferenceError(
                "an operand requires a known rank, got a tensor of unknown rank"
            )
        return self.dims.data

    @property
    def has_rank(self) -> bool:
        """Whether the number of dims is known."""
        return self.dims.data is not None

    @property
    def rank(self) -> int:
        """The number of dims, where it is known."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The dims as ints, or None where one is symbolic or the rank is unknown."""
        if self.dims.data is None:
            return None
        constants = [dim.constant for dim in self.dims.data]
        return tuple(dim for dim in constants if dim is not None) if None not in constants else None

    @property
    def size(self) -> Expr:
        """The number of elements."""
        return product(self.shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims = _parse_dims(parser)
            parser.parse_punctuation(",")
            return [ShapeAttr(dims), parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{_format_dims(self.dims.data)}, ")
        printer.print_attribute(self.element)
        printer.print_string(">")

    def __str__(self) -> str:
        return f"{_format_dims(self.dims.data)} {self.element}"


def tensor(shape: Iterable[ExprLike] | None, element: Attribute) -> TensorType:
    """The tensor type of these dims (ints, symbol names or expressions;
    None for unknown rank) and element type.
    """
    dims = None if shape is None else tuple(Expr.of(dim) for dim in shape)
    return TensorType(ShapeAttr(dims), element)


def type_of(value: SSAValue) -> TensorType:
    """The tensor type of a graph value."""
    assert isinstance(value.type, TensorType), f"a graph value is a tensor, not {value.type}"
    return value.type


F16, F32, F64, BF16 = Float16Type(), Float32Type(), Float64Type(), BFloat16Type()
BOOL = IntegerType(1)
I8, I16, I32, I64 = (IntegerType(bits) for bits in (8, 16, 32, 64))
UI8, UI16, UI32, UI64 = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64))

FLOATS = (F32, F64, F16, BF16)
SIGNED = (I32, I64, I8, I16)
UNSIGNED = (UI8, UI16, UI32, UI64)
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS

F8E3M4, F8E4M3B11FNUZ, F8E4M3, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ = NARROW_FLOATS[:7]
F8E8M0FNU, F6E2M3FN, F6E3M2FN, F4E2M1FN = NARROW_FLOATS[7:]
I4, I2 = IntegerType(4), IntegerType(2)
UI4, UI2 = IntegerType(4, Signedness.UNSIGNED), IntegerType(2, Signedness.UNSIGNED)

NARROW_INTEGERS = (I4, UI4, I2, UI2)
STORED = NARROW_FLOATS + NARROW_INTEGERS
"""Types that values are stored in, a byte each, and never computed in."""
