"""program -> program: buffers that a kernel would copy to pad them are within their border from the
start.

The buffer becomes a view of the inside of a larger one, whose border a small kernel fills. Whoever
writes or reads the buffer uses the view; the kernel that pads takes the larger one as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol, TypeVar

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from weft.compiler.program.layouts.kernel_table import KernelTable, branch_blocks
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import FILLS_BORDER, CallOp, KernelOp, ProgramOp, ViewOp
from weft.dialects.loop.types import BufferType, buffer_type_of


class Border(Protocol):
    """What is stored around a buffer; equal ones are the same."""

    def around(self, buffer_type: BufferType) -> BufferType:
        """The type of a buffer with its border."""
        ...

    def within(self, buffer_type: BufferType) -> BufferType:
        """The type of the buffer inside of its border."""
        ...


H = TypeVar("H", bound=Border)


class HaloChoices(Protocol[H]):
    """What kernels say about borders; the driver implements it by the loop level."""

    def halo(self, kernel: KernelOp, position: int) -> H | None:
        """The border that a kernel puts around a copy of an argument."""
        ...

    def unpadded(self, kernel: KernelOp, position: int) -> KernelOp:
        """The kernel that takes the argument with its border."""
        ...

    def retyped(self, kernel: KernelOp, buffer_types: tuple[BufferType, ...]) -> KernelOp:
        """The kernel with arguments of other types."""
        ...

    def border(self, buffer_type: BufferType, halo: H) -> KernelOp:
        """A kernel that fills the border."""
        ...


def place_halos(module: ModuleOp, choices: HaloChoices[H]) -> None:
    """Rewrites each program of the module, and the kernels that it calls."""
    table = KernelTable(module)
    for program in [op for op in module.ops if isinstance(op, ProgramOp)]:
        for block in branch_blocks(program):
            position = {op: number for number, op in enumerate(block.ops)}
            for op in list(position):
                if isinstance(op, AllocOp) and (halo := _wanted(op, table, choices)) is not None:
                    _offset_of(op, halo, table, choices, position)
    table.drop_unused()


def _wanted(alloc: AllocOp, table: KernelTable, choices: HaloChoices[H]) -> H | None:
    """The border that most of the calls that read a buffer put around it; None for a buffer that is
    not written by one call as a whole, or is not only passed to calls of the program.
    """
    calls = [use.operation for use in alloc.result.uses]
    here = all(isinstance(call, CallOp) and call.parent is alloc.parent for call in calls)
    if not here or len(calls) < 2:
        return None
    found: Counter[H] = Counter()
    for call in dict.fromkeys(calls):
        assert isinstance(call, CallOp), "the buffer is only passed to calls"
        positions = [n for n, argument in enumerate(call.arguments) if argument is alloc.result]
        halo = choices.halo(table[call.kernel], positions[0])
        if halo is not None and len(positions) == 1:
            found[halo] += 1
    return max(found, key=lambda halo: (found[halo], str(halo)), default=None)


def _offset_of(
    alloc: AllocOp,
    halo: H,
    table: KernelTable,
    choices: HaloChoices[H],
    position: Mapping[Operation, int],
) -> None:
    buffer_type = buffer_type_of(alloc.result)
    padded = AllocOp.of(halo.around(buffer_type))
    inside = ViewOp.of(padded.result, halo.within(buffer_type))
    padded.result.name_hint = inside.result.name_hint = alloc.result.name_hint
    border = table.variant((buffer_type, halo), lambda: choices.border(buffer_type, halo))
    names = dict.fromkeys(name for dim in buffer_type.shape for name in dim.symbols())
    fill = CallOp.of(border, [Expr.of(name) for name in names], [padded.result])
    fill.attributes[FILLS_BORDER] = UnitAttr()
    block = alloc.parent
    assert block is not None, "an allocation stands in a program"
    calls = sorted({use.operation for use in alloc.result.uses}, key=position.__getitem__)
    block.insert_ops_before([padded, inside, fill], calls[0])
    for call in calls:
        assert isinstance(call, CallOp), "the buffer is only passed to calls"
        _redirect(call, alloc.result, (padded.result, inside.result), halo, table, choices)
    alloc.detach()
    alloc.erase()


def _redirect(
    call: CallOp,
    old: SSAValue,
    new: tuple[SSAValue, SSAValue],
    halo: H,
    table: KernelTable,
    choices: HaloChoices[H],
) -> None:
    """Passes the buffer with its border where the call pads it so, else the inside."""
    padded, inside = new
    kernel = table[call.kernel]
    positions = [n for n, argument in enumerate(call.arguments) if argument is old]
    if len(positions) == 1 and choices.halo(kernel, positions[0]) == halo:
        value, key = padded, (call.kernel, positions[0])
        variant = table.variant(key, lambda: choices.unpadded(kernel, positions[0]))
    else:
        buffer_types = [buffer_type_of(argument) for argument in kernel.body.block.args]
        for position in positions:
            buffer_types[position] = halo.within(buffer_types[position])
        value, key = inside, (call.kernel, tuple(buffer_types))
        variant = table.variant(key, lambda: choices.retyped(kernel, tuple(buffer_types)))
    for position in positions:
        call.operands[position] = value
    call.properties["callee"] = SymbolRefAttr(variant)
