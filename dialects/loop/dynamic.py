"""What programs with control flow and run-time sizes are made of, beside calls: copies, rows of
buffers, sizes that get their value on the way, and buffers that grow.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.expr_text import parse_expr, parse_value_expr, print_value_expr, unbind
from weft.dialects.loop.arithmetic import IndexedOp
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import ProgramOp, ViewOp, WeightOp
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of, format_exprs


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copies a buffer's storage to another of the same type:
    `loop.copy %x, %y : !loop.buffer<[n], f32>`.
    """

    name = "loop.copy"
    source: SSAValue = operand_def(BufferType)
    target: SSAValue = operand_def(BufferType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @staticmethod
    def of(source: SSAValue, target: SSAValue) -> CopyOp:
        """The copy of the whole source."""
        return CopyOp.create(operands=[source, target])

    def verify_(self) -> None:
        if self.source.type != self.target.type:
            got = f"{self.source.type} and {self.target.type}"
            raise VerifyException(f"loop.copy requires two buffers of one type, got {got}")

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        return cls.of(*_parse_pair(parser))

    def print(self, printer: Printer) -> None:
        _print_pair(printer, self.source, self.target)


def _parse_pair(parser: Parser) -> tuple[SSAValue, SSAValue]:
    """Two buffers of one type."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    target = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operand_type = parser.parse_type()
    return parser.resolve_operand(source, operand_type), parser.resolve_operand(
        target, operand_type
    )


def _print_pair(printer: Printer, source: SSAValue, target: SSAValue) -> None:
    printer.print_string(" ")
    printer.print_list([source, target], printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_attribute(source.type)


@irdl_op_definition
class BindSymbolOp(IndexedOp):
    """Gives a named size its value from here to the end of the block:
    `loop.bind_symbol "n" = %count`.

    The program fails where the value is negative.
    """

    name = "loop.bind_symbol"
    size: StringAttr = prop_def(StringAttr)

    @staticmethod
    def of(size: str, value: ExprLike) -> BindSymbolOp:
        """The binding of a name to an expression over SSA values and other sizes."""
        exprs, values = unbind([Expr.of(value)])
        return BindSymbolOp.create(
            operands=values, properties={"size": StringAttr(size), "expr": ExprsAttr(tuple(exprs))}
        )

    @classmethod
    def parse(cls, parser: Parser) -> BindSymbolOp:
        size = StringAttr(parser.parse_str_literal())
        parser.parse_punctuation("=")
        values: list[SSAValue] = []
        expr = parse_value_expr(parser, values)
        return cls.create(operands=values, properties={"size": size, "expr": ExprsAttr((expr,))})

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.size.data}" = ')
        print_value_expr(printer, self.expr.data[0], self.operands_)


@irdl_op_definition
class SubviewOp(IndexedOp):
    """What a buffer holds at one position of its first dimension, in its place:
    `%r = loop.subview %x[%i] : !loop.buffer<[n, 4], f32> to !loop.buffer<[4], f32>`.
    """

    name = "loop.subview"
    source: SSAValue = operand_def(BufferType)
    result: SSAValue = result_def(BufferType)

    @staticmethod
    def of(source: SSAValue, position: ExprLike, type: BufferType) -> SubviewOp:
        """The row at an expression over SSA values and sizes."""
        exprs, values = unbind([Expr.of(position)])
        return SubviewOp.create(
            operands=[source, *values],
            properties={"expr": ExprsAttr(tuple(exprs))},
            result_types=[type],
        )

    def verify_(self) -> None:
        source, row = buffer_type_of(self.source), buffer_type_of(self.result)
        if source.element != row.element or product(source.storage[1:]) != row.size:
            raise VerifyException(f"loop.subview requires a row of {source}, got {row}")

    @classmethod
    def parse(cls, parser: Parser) -> SubviewOp:
        source = parser.parse_unresolved_operand()
        values: list[SSAValue] = []
        parser.parse_punctuation("[")
        expr = parse_value_expr(parser, values)
        parser.parse_punctuation("]")
        parser.parse_punctuation(":")
        value = parser.resolve_operand(source, parser.parse_type())
        parser.parse_keyword("to")
        return cls.create(
            operands=[value, *values],
            properties={"expr": ExprsAttr((expr,))},
            result_types=[parser.parse_type()],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string("[")
        print_value_expr(printer, self.expr.data[0], self.operands_)
        printer.print_string("] : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class CurrentViewOp(IRDLOperation):
    """A growable buffer as it is now, under the sizes that hold here:
    `%y = loop.current_view %x : !loop.buffer<[0], f32> to !loop.buffer<[n], f32>`.
    """

    name = "loop.current_view"
    source: SSAValue = operand_def(BufferType)
    result: SSAValue = result_def(BufferType)
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    @staticmethod
    def of(source: SSAValue, type: BufferType) -> CurrentViewOp:
        """The buffer that an allocation of growable scope has become."""
        return CurrentViewOp.create(operands=[source], result_types=[type])

    def verify_(self) -> None:
        _require_growable(self)


@irdl_op_definition
class ReallocOp(IRDLOperation):
    """Makes a growable buffer large enough for another type; earlier views of it end here.

        %y = loop.realloc %x keep : !loop.buffer<[0], f32> to !loop.buffer<[n], f32>

    With `keep` it keeps what it holds.
    """

    name = "loop.realloc"
    source: SSAValue = operand_def(BufferType)
    keep: UnitAttr | None = opt_prop_def(UnitAttr)
    result: SSAValue = result_def(BufferType)
    assembly_format = "$source (`keep` $keep^)? attr-dict `:` type($source) `to` type($result)"

    @staticmethod
    def of(source: SSAValue, type: BufferType, *, keep: bool = False) -> ReallocOp:
        """The allocation, of growable scope, with room for the type."""
        properties = {"keep": UnitAttr()} if keep else {}
        return ReallocOp.create(operands=[source], properties=properties, result_types=[type])

    def verify_(self) -> None:
        _require_growable(self)


@irdl_op_definition
class TransferOwnershipOp(IRDLOperation):
    """Hands a growable buffer to the caller as an output, whose memory it becomes:
    `loop.transfer_ownership %x, %y : !loop.buffer<[n], f32>`.
    """

    name = "loop.transfer_ownership"
    source: SSAValue = operand_def(BufferType)
    output: SSAValue = operand_def(BufferType)

    @staticmethod
    def of(source: SSAValue, output: SSAValue) -> TransferOwnershipOp:
        """The end of a growable buffer's life in the program."""
        return TransferOwnershipOp.create(operands=[source, output])

    @classmethod
    def parse(cls, parser: Parser) -> TransferOwnershipOp:
        return cls.of(*_parse_pair(parser))

    def print(self, printer: Printer) -> None:
        _print_pair(printer, self.source, self.output)


@irdl_op_definition
class RequireEqualOp(IRDLOperation):
    """The program fails where two sizes differ: `loop.require_equal [n, 2 * m]`."""

    name = "loop.require_equal"
    sizes: ExprsAttr = prop_def(ExprsAttr)

    @staticmethod
    def of(first: Expr, second: Expr) -> RequireEqualOp:
        """The check of two expressions over sizes."""
        return RequireEqualOp.create(properties={"sizes": ExprsAttr((first, second))})

    @classmethod
    def parse(cls, parser: Parser) -> RequireEqualOp:
        sizes = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_expr(parser)
        )
        return cls.create(properties={"sizes": ExprsAttr(tuple(sizes))})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {format_exprs(self.sizes.data)}")


def _require_growable(op: CurrentViewOp | ReallocOp) -> None:
    alloc = op.source.owner
    if not isinstance(alloc, AllocOp) or alloc.scope.data != "growable":
        raise VerifyException(f"{op.name} requires a loop.alloc of growable scope")


def aliased(op: Operation) -> SSAValue | None:
    """The buffer in whose storage an operation's result lies, None where it has its own."""
    return op.source if isinstance(op, (ViewOp, SubviewOp, CurrentViewOp, ReallocOp)) else None


def weight_of(value: SSAValue) -> WeightOp | None:
    """The weight that a buffer is, or a row of which it is; None of what is computed."""
    source = value.owner.source if isinstance(value.owner, SubviewOp) else value
    return source.owner if isinstance(source.owner, WeightOp) else None


def root(value: SSAValue) -> SSAValue:
    """The buffer that a value is, or is in."""
    while isinstance(value.owner, Operation) and (source := aliased(value.owner)) is not None:
        value = source
    return value


def output_sizes(program: ProgramOp) -> list[str]:
    """The sizes of outputs that are not the caller's: the program finds them, in this order."""
    known = set(program.symbol_names)
    outputs = program.body.block.args[program.inputs.data :]
    names = (name for out in outputs for dim in buffer_type_of(out).shape for name in dim.symbols())
    return [name for name in dict.fromkeys(names) if name not in known]


def is_given(program: ProgramOp, argument: SSAValue) -> bool:
    """Whether the program makes the memory of an output, as its size is found on the way."""
    found = set(output_sizes(program))
    dims = buffer_type_of(argument).shape
    return any(not found.isdisjoint(dim.symbols()) for dim in dims)


OPS = (
    CopyOp, BindSymbolOp, SubviewOp, CurrentViewOp, ReallocOp, TransferOwnershipOp, RequireEqualOp,
)  # fmt: skip
