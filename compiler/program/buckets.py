"""program -> program: programs for different sizes as one module, of which the first chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr

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


def merge_programs(chooser: ProgramOp, modules: Sequence[ModuleOp]) -> ModuleOp:
    """One module of the chooser, then the programs of all modules, and each kernel once.
    Modules are in the order of what the chooser calls.
    """
    (choice,) = chooser.body.block.ops
    assert isinstance(choice, DispatchOp), "a chooser chooses"
    names = choice.programs
    kernels: dict[str, KernelOp] = {}
    programs: list[ProgramOp] = []
    for name, module in zip(names, modules, strict=True):
        for op in list(module.ops):
            op.detach()
            if isinstance(op, KernelOp):
                kernels.setdefault(op.sym_name.data, op)
            elif isinstance(op, ProgramOp):
                op.properties["sym_name"] = StringAttr(name)
                programs.append(op)
    return ModuleOp([*kernels.values(), chooser, *programs])
