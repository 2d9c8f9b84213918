"""`loop.concurrent`: branches of a program that may run at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def, var_region_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import CallOp, ViewOp


@irdl_op_definition
class ConcurrentOp(IRDLOperation):
    """Branches of calls, each on one thread and all at the same time, where a context has as many
    threads as it says; with others one after the other, each call on all of them.

        loop.concurrent 2 to 4 {
          loop.call @a(%x, %p) : ...
        } and {
          loop.call @b(%x, %q) : ...
        }

    No branch writes what another one reads or writes.
    """

    name = "loop.concurrent"
    least: IntAttr = prop_def(IntAttr)
    most: IntAttr = prop_def(IntAttr)
    branches: Sequence[Region] = var_region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    @staticmethod
    def of(least: int, most: int, branches: Sequence[Block]) -> ConcurrentOp:
        """The operation on blocks of calls, and of buffers that only one of them uses."""
        return ConcurrentOp.create(
            properties={"least": IntAttr(least), "most": IntAttr(most)},
            regions=[Region(block) for block in branches],
        )

    def verify_(self) -> None:
        if len(self.branches) < 2:
            raise VerifyException(f"{self.name} requires two branches or more")
        if not 2 <= self.least.data <= self.most.data:
            got = f"{self.least.data} to {self.most.data}"
            raise VerifyException(f"{self.name} requires a range of threads from 2 on, got {got}")
        for op in (op for branch in self.branches for op in branch.block.ops):
            if not isinstance(op, (CallOp, AllocOp, ViewOp)):
                raise VerifyException(
                    f"{self.name} requires calls, buffers and views, got {op.name}"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.least.data} to {self.most.data} ")
        for position, branch in enumerate(self.branches):
            printer.print_string(" and " if position else "")
            printer.print_region(branch)

    @classmethod
    def parse(cls, parser: Parser) -> ConcurrentOp:
        least = parser.parse_integer()
        parser.parse_keyword("to")
        most = parser.parse_integer()
        regions = [parser.parse_region()]
        while parser.parse_optional_keyword("and"):
            regions.append(parser.parse_region())
        return cls.create(
            properties={"least": IntAttr(least), "most": IntAttr(most)}, regions=regions
        )


def branch_of(op: Operation) -> Block | None:
    """The block of the branch that an operation stands in, if it does in any."""
    block = op.parent
    while block is not None:
        around = block.parent_op()
        if isinstance(around, ConcurrentOp):
            return block
        block = None if around is None else around.parent
    return None
