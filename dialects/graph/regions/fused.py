"""`graph.fused`: operators that become one kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import TensorType, type_of


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a region; its operands are the results of the operation around it."""

    name = "graph.yield"
    operands_: Sequence[SSAValue] = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$operands_ attr-dict `:` type($operands_)"


@irdl_op_definition
class FusedOp(IRDLOperation):
    """A group of operators with one kernel; the body's arguments are the operands.

    %y = graph.fused(%a = %x, %b = %w) : (T, T) -> T {
      ...
      graph.yield %r : T
    }
    """

    name = "graph.fused"
    operands_: Sequence[SSAValue] = var_operand_def(TensorType)
    results_: Sequence[SSAValue] = var_result_def(TensorType)
    body: Region = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), Pure())

    @staticmethod
    def of(operands: Sequence[SSAValue], body: Block) -> FusedOp:
        """The group with that body, whose last operation yields the results."""
        yielded = body.last_op
        assert isinstance(yielded, YieldOp), "the body of a group ends in graph.yield"
        return FusedOp.build(
            operands=[operands],
            result_types=[[value.type for value in yielded.operands_]],
            regions=[Region(body)],
        )

    @property
    def members(self) -> list[GraphOp]:
        """The operators of the group in order."""
        return [op for op in self.body.block.ops if isinstance(op, GraphOp)]

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values inside the body that become the results."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp), "the body of a group ends in graph.yield"
        return last.operands_

    @property
    def structure(self) -> Hashable:
        """What makes the group compute what it computes: groups of one structure are alike but for
        the names and the origins of their values.
        """
        arguments = self.body.block.args
        numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(arguments)}
        operators: list[Hashable] = []
        for op in self.members:
            attributes = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
            operands = tuple(numbers[operand] for operand in op.operands)
            operators.append((op.name, attributes, operands, op.result_types))
            numbers |= {result: len(numbers) + n for n, result in enumerate(op.results)}
        yielded = tuple(numbers[value] for value in self.yielded)
        return self.body.block.arg_types, tuple(operators), yielded

    def verify_(self) -> None:
        outside = [operand.type for operand in self.operands_]
        if [argument.type for argument in self.body.block.args] != outside:
            raise VerifyException("graph.fused requires body arguments of the operands' types")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("graph.fused requires a body that ends in graph.yield")
        if [value.type for value in self.yielded] != [result.type for result in self.results_]:
            raise VerifyException("graph.fused requires results of the yielded types")
        strangers = [
            op.name
            for op in self.body.block.ops
            if not isinstance(op, (GraphOp, YieldOp, UnregisteredOp))
        ]
        if strangers:
            raise VerifyException(
                f"graph.fused requires graph operators in its body, got {strangers[0]}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        for position, (argument, operand) in enumerate(
            zip(self.body.block.args, self.operands_, strict=True)
        ):
            printer.print_string(", " if position else "")
            printer.print_ssa_value(argument)
            printer.print_string(" = ")
            printer.print_ssa_value(operand)
        printer.print_string(") : ")
        printer.print_operation_type(self)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> FusedOp:
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN,
            lambda: (parser.parse_argument(expect_type=False), _parse_operand(parser)),
        )
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        arguments = [
            inner.resolve(each) for (inner, _), each in zip(pairs, types.inputs.data, strict=True)
        ]
        operands = [
            parser.resolve_operand(outer, each)
            for (_, outer), each in zip(pairs, types.inputs.data, strict=True)
        ]
        body = parser.parse_region(arguments)
        return cls.build(operands=[operands], result_types=[types.outputs.data], regions=[body])


def _parse_operand(parser: Parser):
    parser.parse_punctuation("=")
    return parser.parse_unresolved_operand()


def group_of(op: GraphOp) -> FusedOp:
    """A group of the one operator, which is moved into it;
    operands that it repeats become one argument.
    """
    operands = list(dict.fromkeys(op.operands))
    body = Block(arg_types=[type_of(operand) for operand in operands])
    inner = op.clone(dict(zip(operands, body.args, strict=True)))
    body.add_ops([inner, YieldOp.create(operands=list(inner.results))])
    return FusedOp.of(operands, body)
