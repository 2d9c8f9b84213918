"""The choice of a program by the sizes of a call, and the call of one program by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)

from weft.dialects.expr import Expr, product
from weft.dialects.loop.types import BufferType, ExprsAttr


@irdl_op_definition
class DispatchOp(IRDLOperation):
    """Runs, with the arguments of the program that it stands in, the program for the sizes of the
    call: the n-th callee where all named sizes are those of the n-th row.

        loop.dispatch ["batch"] of [#loop.exprs<[1]>, #loop.exprs<[4]>] to [@main_0, @main_1]
          else @main_dynamic

    Where there are `padded` programs, in the order of the callees, sizes of at least 1 and at most
    those of a row run the padded one of the least such row. Without an `else` a call with other
    sizes fails.
    """

    name = "loop.dispatch"
    sizes = prop_def(ArrayAttr[StringAttr])
    rows = prop_def(ArrayAttr[ExprsAttr])
    callees = prop_def(ArrayAttr[SymbolRefAttr])
    padded = opt_prop_def(ArrayAttr[SymbolRefAttr])
    otherwise = opt_prop_def(SymbolRefAttr)
    assembly_format = (
        "$sizes `of` $rows `to` $callees (`padded` $padded^)? (`else` $otherwise^)? attr-dict"
    )

    @staticmethod
    def of(
        table: Sequence[Mapping[str, int]],
        callees: Sequence[str],
        otherwise: str | None,
        padded: Sequence[str] = (),
    ) -> DispatchOp:
        """The choice by a table: the sizes for which each callee is, all with the same names."""
        rows = [ExprsAttr(tuple(map(Expr.of, row.values()))) for row in table]
        properties: dict[str, Attribute] = {
            "sizes": ArrayAttr([StringAttr(name) for name in table[0]]),
            "rows": ArrayAttr(rows),
            "callees": ArrayAttr([SymbolRefAttr(name) for name in callees]),
        }
        if padded:
            properties["padded"] = ArrayAttr([SymbolRefAttr(name) for name in padded])
        if otherwise is not None:
            properties["otherwise"] = SymbolRefAttr(otherwise)
        return DispatchOp.create(properties=properties)

    @property
    def programs(self) -> list[str]:
        """The names of the callees, of the padded ones, then of the one for other sizes."""
        padded = () if self.padded is None else self.padded.data
        other = () if self.otherwise is None else (self.otherwise,)
        return [each.root_reference.data for each in (*self.callees.data, *padded, *other)]

    def by_volume(self) -> list[int]:
        """The numbers of the rows, those of least volume first."""
        volumes = [product(row.data).constant or 0 for row in self.rows.data]
        return sorted(range(len(volumes)), key=volumes.__getitem__)

    @property
    def names(self) -> list[str]:
        """The named sizes."""
        return [name.data for name in self.sizes.data]


@irdl_op_definition
class CallProgramOp(IRDLOperation):
    """Runs another program with buffers of this one for its arguments, and one for its workspace:

        loop.call_program @main_0 <[width]>(%x, %y) inputs #builtin.int<1> in %w : ... in ...

    The expressions are the values of its sizes. Where it fails, so does this program.
    """

    name = "loop.call_program"
    callee = prop_def(SymbolRefAttr)
    sizes = prop_def(ExprsAttr)
    inputs = prop_def(IntAttr)
    arguments = var_operand_def(BufferType)
    workspace = operand_def(BufferType)
    assembly_format = (
        "$callee $sizes `(` $arguments `)` `inputs` $inputs `in` $workspace attr-dict "
        "`:` type($arguments) `in` type($workspace)"
    )

    @staticmethod
    def of(
        callee: str,
        sizes: Sequence[Expr],
        arguments: Sequence[SSAValue],
        inputs: int,
        workspace: SSAValue,
    ) -> CallProgramOp:
        """The run of the program of that name; the first arguments are its inputs."""
        return CallProgramOp.create(
            operands=[*arguments, workspace],
            properties={
                "callee": SymbolRefAttr(callee),
                "sizes": ExprsAttr(tuple(sizes)),
                "inputs": IntAttr(inputs),
            },
        )

    @property
    def program(self) -> str:
        """The name of the program."""
        return self.callee.root_reference.data
