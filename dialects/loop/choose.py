"""The choice of a program by the sizes of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def

from dialects.expr import Expr
from dialects.loop.types import ExprsAttr


@irdl_op_definition
class ChooseOp(IRDLOperation):
    """Runs, with the arguments of the program that it stands in, the program for the sizes of the
    call: the n-th callee where all named sizes are those of the n-th row.

        loop.choose ["batch"] of [#loop.exprs<[1]>, #loop.exprs<[4]>] to [@main_0, @main_1]
          else @main_dynamic

    Without an `else` a call with other sizes fails.
    """

    name = "loop.choose"
    sizes = prop_def(ArrayAttr[StringAttr])
    rows = prop_def(ArrayAttr[ExprsAttr])
    callees = prop_def(ArrayAttr[SymbolRefAttr])
    otherwise = opt_prop_def(SymbolRefAttr)
    assembly_format = "$sizes `of` $rows `to` $callees (`else` $otherwise^)? attr-dict"

    @staticmethod
    def of(
        table: Sequence[Mapping[str, int]], callees: Sequence[str], otherwise: str | None
    ) -> ChooseOp:
        """The choice by a table: the sizes for which each callee is, all with the same names."""
        rows = [ExprsAttr(tuple(map(Expr.of, row.values()))) for row in table]
        properties: dict[str, Attribute] = {
            "sizes": ArrayAttr([StringAttr(name) for name in table[0]]),
            "rows": ArrayAttr(rows),
            "callees": ArrayAttr([SymbolRefAttr(name) for name in callees]),
        }
        if otherwise is not None:
            properties["otherwise"] = SymbolRefAttr(otherwise)
        return ChooseOp.create(properties=properties)

    @property
    def programs(self) -> list[str]:
        """The names of the callees, then of the one for other sizes."""
        other = [] if self.otherwise is None else [self.otherwise]
        return [each.root_reference.data for each in (*self.callees.data, *other)]

    @property
    def names(self) -> list[str]:
        """The named sizes."""
        return [name.data for name in self.sizes.data]
