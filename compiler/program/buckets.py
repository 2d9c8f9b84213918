"""program -> program: programs for different sizes as one module, of which the first chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.errors import UnsupportedError
from weft.dialects.loop.dispatch import DispatchOp
from weft.dialects.loop.dynamic import output_sizes
from weft.dialects.loop.program import KernelOp, ProgramOp


def choosing_program(
    program: ProgramOp, table: Sequence[Mapping[str, int]], *, padded: bool, otherwise: bool
) -> ProgramOp:
    """The program for any size with a choice in place of its body: `@main_0` is for the first row
    of the table, `@main_0_padded` for lesser sizes if `padded`, `@main_dynamic` for what has no
    row, if `otherwise`.

    Raises UnsupportedError where outputs have sizes that depend on values.
    """
    if output_sizes(program):
        got = ", ".join(output_sizes(program))
        raise UnsupportedError(f"buckets require outputs whose sizes the inputs decide, got {got}")
    chooser = program.clone()
    for op in reversed(list(chooser.body.block.ops)):
        op.detach()
        op.drop_all_references()
    name = program.sym_name.data
    names = [f"{name}_{number}" for number in range(len(table))]
    other = f"{name}_dynamic" if otherwise else None
    padding = [f"{each}_padded" for each in names] if padded else []
    chooser.body.block.add_op(DispatchOp.of(table, names, other, padding))
    return chooser


class MergeProgramsPass(ModulePass):
    """Merges the programs among which one chooses, each in a module of its own, and their kernels.

        loop.program @main(..) { loop.dispatch .. }     loop.kernel @k .. loop.kernel @l ..
        module { loop.kernel @k ..                  =>  loop.program @main(..) { loop.dispatch .. }
                 loop.program @main(..) .. }            loop.program @main_0(..) ..
        module { loop.kernel @k .. loop.kernel @l ..    loop.program @main_1(..) ..
                 loop.program @main(..) .. }

    Modules are in the order of what is chosen among. Kernels of one name are the same kernel.
    """

    name = "weft-merge-programs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for chooser in list(op.ops):
            choice = chooser.body.block.first_op if isinstance(chooser, ProgramOp) else None
            if isinstance(choice, DispatchOp):
                _merge_programs(op, chooser, choice)


def _merge_programs(module: ModuleOp, chooser: Operation, choice: DispatchOp) -> None:
    parts = [op for op in module.ops if isinstance(op, ModuleOp)]
    if len(parts) != len(choice.programs):
        rule = f"weft-merge-programs requires a module for each of {', '.join(choice.programs)}"
        raise UnsupportedError(f"{rule}, got {len(parts)}")
    kernels: dict[str, KernelOp] = {}
    programs: list[ProgramOp] = []
    for name, part in zip(choice.programs, parts, strict=True):
        for op in list(part.ops):
            op.detach()
            if isinstance(op, KernelOp):
                kernels.setdefault(op.sym_name.data, op)
            elif isinstance(op, ProgramOp):
                op.properties["sym_name"] = StringAttr(name)
                programs.append(op)
        Rewriter.erase_op(part)
    Rewriter.insert_op(list(kernels.values()), InsertPoint.before(chooser))
    Rewriter.insert_op(programs, InsertPoint.after(chooser))
