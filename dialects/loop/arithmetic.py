"""Scalar operations of kernels beside those that xDSL has in arith and math."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.dialects.builtin import (
    BoolAttr,
    Float32Type,
    Float64Type,
    IndexType,
    IntAttr,
    IntegerType,
)
from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation, Math
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.expr import Expr, ExprLike
from weft.dialects.expr_text import INDEX, bind, parse_value_expr, print_value_expr, unbind
from weft.dialects.loop.types import ExprsAttr


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """The exact remainder of a division, with the dividend's sign: C's fmod."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class GeluOp(FloatingPointLikeUnaryMathOperation):
    """`x/2 * erf(x / sqrt(2)) + x/2` of f32 or f64: `%y = loop.gelu %x : f32`."""

    name = "loop.gelu"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        operand_type = self.operand.type
        if not isinstance(operand_type, Float32Type | Float64Type):
            raise VerifyException(
                f"loop.gelu requires an operand of f32 or f64, got {operand_type}"
            )


@irdl_op_definition
class DotBytesOp(IRDLOperation):
    """`total` plus the products of the four unsigned bytes of a word with the signed bytes of
    another, modulo 2^32: `%t = loop.dot_bytes %total, %unsigned, %signed : i32`.
    """

    name = "loop.dot_bytes"
    total: SSAValue = operand_def(IntegerType(32))
    unsigned: SSAValue = operand_def(IntegerType(32))
    signed: SSAValue = operand_def(IntegerType(32))
    result: SSAValue = result_def(IntegerType(32))
    traits = traits_def(Pure())
    assembly_format = "$total `,` $unsigned `,` $signed attr-dict `:` type($result)"


@irdl_op_definition
class FieldOp(IRDLOperation):
    """Some bits of a word as a float, from `low` on; those that are `centred` count from half of
    their range: `%x = loop.field %word {low = 4, bits = 4, centred = true} : f32`.
    """

    name = "loop.field"
    irdl_options = (ParsePropInAttrDict(),)
    word: SSAValue = operand_def(IntegerType(32))
    low: IntAttr = prop_def(IntAttr)
    bits: IntAttr = prop_def(IntAttr)
    centred: BoolAttr = prop_def(BoolAttr)
    result: SSAValue = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$word attr-dict `:` type($result)"

    def verify_(self) -> None:
        low, bits = self.low.data, self.bits.data
        if bits < 1 or low < 0 or low + bits > 32:
            raise VerifyException(
                f"loop.field requires bits of a word of 32, got {low} to {low + bits}"
            )


@irdl_op_definition
class ThreefryOp(IRDLOperation):
    """Two words of 32 random bits, in one of 64, of a key and a count alike: Threefry-2x32 of 20
    rounds. `%bits = loop.threefry %key, %count : i64`; the lower halves are the first words.
    """

    name = "loop.threefry"
    key: SSAValue = operand_def(IntegerType(64))
    count: SSAValue = operand_def(IntegerType(64))
    result: SSAValue = result_def(IntegerType(64))
    traits = traits_def(Pure())
    assembly_format = "$key `,` $count attr-dict `:` type($result)"


@irdl_op_definition
class ClockOp(IRDLOperation):
    """Ticks of the processor's clock so far: `%now = loop.clock : i64`."""

    name = "loop.clock"
    result: SSAValue = result_def(IntegerType(64))
    assembly_format = "attr-dict `:` type($result)"


class IndexedOp(IRDLOperation):
    """What carries one integer expression over index values and sizes."""

    operands_: Sequence[SSAValue] = var_operand_def(IndexType)
    expr: ExprsAttr = prop_def(ExprsAttr)

    @property
    def value(self) -> Expr:
        """The expression over SSA values."""
        return bind(self.expr.data[0], self.operands_)


@irdl_op_definition
class IndexOp(IndexedOp):
    """The value of an integer expression: `%p = loop.index 4 * %i + n`."""

    name = "loop.index"
    result: SSAValue = result_def(IndexType)
    traits = traits_def(Pure())

    @staticmethod
    def of(expr: ExprLike) -> IndexOp:
        """The value of an expression over SSA values and symbols."""
        exprs, values = unbind([Expr.of(expr)])
        return IndexOp.create(
            operands=values, properties={"expr": ExprsAttr(tuple(exprs))}, result_types=[INDEX]
        )

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        values: list[SSAValue] = []
        expr = parse_value_expr(parser, values)
        return cls.create(
            operands=values, properties={"expr": ExprsAttr((expr,))}, result_types=[INDEX]
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_value_expr(printer, self.expr.data[0], self.operands_)


def is_function(op: Operation) -> bool:
    """Whether the operation is a mathematical function, which costs more than an instruction."""
    return op.dialect_name() == Math.name or isinstance(op, GeluOp)
