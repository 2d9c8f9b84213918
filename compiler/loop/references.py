"""How the text of a schedule names what is in a kernel.

A loop is named by its index and a buffer by its value: `k`, or `k#1` for the second `k` in program
order. Any other operation is named by the loop around it and its position there: `k#1:3`, and `:0`
at the top.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.nest import describe, loops_in
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp
from weft.dialects.loop.program import KernelOp

UNNAMED = "_"
"""What a value without a name of its own is called."""


def loop_reference(kernel: KernelOp, loop: ForOp) -> str:
    """The text that `find_loop` understands."""
    name = loop.index.name_hint or UNNAMED
    alike = [each for each in loops_in(kernel) if (each.index.name_hint or UNNAMED) == name]
    return _numbered(name, next(n for n, each in enumerate(alike) if each is loop))


def find_loop(kernel: KernelOp, reference: str) -> ForOp:
    """The loop of that reference. Raises IllegalSchedule where the kernel has none."""
    loops = loops_in(kernel)
    name, number = _split(reference)
    alike = [loop for loop in loops if (loop.index.name_hint or UNNAMED) == name]
    if number >= len(alike):
        choices = [loop.index.name_hint or UNNAMED for loop in loops]
        raise IllegalSchedule(
            f"@{kernel.sym_name.data} requires a loop out of {choices}, got {reference}"
        )
    return alike[number]


def buffer_reference(kernel: KernelOp, buffer: SSAValue) -> str:
    """The text that `find_buffer` understands."""
    name = buffer.name_hint or UNNAMED
    alike = [each for each in _buffers(kernel) if (each.name_hint or UNNAMED) == name]
    return _numbered(name, next(n for n, each in enumerate(alike) if each is buffer))


def find_buffer(kernel: KernelOp, reference: str) -> SSAValue:
    """The argument or allocation of that reference. Raises IllegalSchedule for none such."""
    name, number = _split(reference)
    alike = [value for value in _buffers(kernel) if (value.name_hint or UNNAMED) == name]
    if number >= len(alike):
        choices = [value.name_hint or UNNAMED for value in _buffers(kernel)]
        raise IllegalSchedule(
            f"@{kernel.sym_name.data} requires a buffer out of {choices}, got {reference}"
        )
    return alike[number]


def operation_reference(kernel: KernelOp, op: Operation) -> str:
    """The text that `find_operation` understands."""
    around = op.parent_op()
    block = op.parent_block()
    assert block is not None, "an operation under schedule lies in a block"
    position = next(n for n, each in enumerate(block.ops) if each is op)
    where = loop_reference(kernel, around) if isinstance(around, ForOp) else ""
    if not where and around is not kernel:
        raise IllegalSchedule(f"a schedule requires operations in loops alone, got {describe(op)}")
    return f"{where}:{position}"


def find_operation(kernel: KernelOp, reference: str) -> Operation:
    """The operation of that reference. Raises IllegalSchedule where the kernel has none."""
    if ":" not in reference:
        return find_loop(kernel, reference)
    where, _, position = reference.rpartition(":")
    around = find_loop(kernel, where) if where else kernel
    ops = list(around.body.block.ops)
    if not position.isdecimal() or int(position) >= len(ops):
        got = f"{reference!r} where {len(ops)} operations are"
        raise IllegalSchedule(f"@{kernel.sym_name.data} requires LOOP:POSITION, got {got}")
    return ops[int(position)]


def _buffers(kernel: KernelOp) -> list[SSAValue]:
    allocations = (op.result for op in kernel.walk() if isinstance(op, AllocOp))
    return [*kernel.body.block.args, *allocations]


def _numbered(name: str, number: int) -> str:
    return f"{name}#{number}" if number else name


def _split(reference: str) -> tuple[str, int]:
    name, hash_, number = reference.partition("#")
    if hash_ and not number.isdecimal():
        raise IllegalSchedule(f"a schedule requires NAME or NAME#NUMBER, got {reference!r}")
    return name, int(number or 0)
