"""program -> program: where a kernel is best computed in one way if a call has few rows, and in
another if it has many, the kernel becomes two, and each of its calls a branch.

    loop.call @mm[n](..)   ->   loop.if (n < 8) { loop.call @mm_few[n](..) }
                                else { loop.call @mm_many[n](..) }

Which version runs depends on the sizes of a call alone, so that results are the same bits for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.program.layouts.kernel_table import KernelTable, branch_blocks
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.arithmetic import IndexOp
from weft.dialects.loop.ops import IfOp
from weft.dialects.loop.program import ROWS, CallOp, KernelOp, ProgramOp, size_ranges

FEW: Final = "few"
MANY: Final = "many"

RowsOf = Callable[[KernelOp], Expr | None]
"""The rows, over a kernel's sizes, by whose number it has versions; None where it has none."""


def split_versions(module: ModuleOp, rows_of: RowsOf, few_rows: int) -> None:
    """Splits the kernels that `rows_of` names rows of into versions for less than `few_rows` and
    for others, where a call that no loop repeats may have either; a call whose sizes decide has the
    one version.
    """
    table = KernelTable(module)
    rows = {name: rows_of(kernel) for name, kernel in table.kernels.items()}
    for program in [op for op in module.ops if isinstance(op, ProgramOp)]:
        for block in list(branch_blocks(program)):
            for call in [op for op in block.ops if isinstance(op, CallOp)]:
                own = rows[call.kernel]
                if own is not None:
                    _split(call, _of_call(own, call, table[call.kernel]), few_rows, table)
    table.drop_unused()


def _of_call(rows: Expr, call: CallOp, kernel: KernelOp) -> Expr:
    """The rows of a call over the sizes of its program."""
    sizes = zip(kernel.symbol_names, call.sizes.data, strict=True)
    values: dict[Atom, Expr] = {Symbol(name): size for name, size in sizes}
    return rows.substitute(values)


def _split(call: CallOp, rows: Expr, few_rows: int, table: KernelTable) -> None:
    # Of no rows either version is right.
    sizes = dict.fromkeys(rows.atoms(), (1, None)) | size_ranges(call)
    least, most = rows.range(sizes)
    if least is not None and least >= few_rows:
        _call_version(call, MANY, table)
        return
    if most is not None and most < few_rows:
        _call_version(call, FEW, table)
        return
    builder = Builder(InsertPoint.before(call))
    number = builder.insert(arith.IndexCastOp(builder.insert(IndexOp.of(rows)).result, i64))
    limit = builder.insert(arith.ConstantOp(IntegerAttr(few_rows, i64)))
    holds = builder.insert(arith.CmpiOp(number.result, limit.result, "slt"))
    branch = builder.insert(IfOp.build(operands=[holds.result], regions=[[Block()], [Block()]]))
    branch.location = call.location
    for version, region in ((FEW, branch.then), (MANY, branch.otherwise)):
        own = call.clone()
        _call_version(own, version, table)
        region.block.add_op(own)
    Rewriter.erase_op(call)


def _call_version(call: CallOp, rows: str, table: KernelTable) -> None:
    """Has a call run the version of its kernel for few or many rows."""
    kernel = table[call.kernel]
    name = table.variant((call.kernel, rows), lambda: _version(kernel, rows))
    call.properties["callee"] = SymbolRefAttr(name)


def _version(kernel: KernelOp, rows: str) -> KernelOp:
    made = kernel.clone()
    made.attributes[ROWS] = StringAttr(rows)
    return made
