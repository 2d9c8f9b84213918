"""graph -> loop: a loop whose iterations compute a few numbers each, and change elements of what
they carry, is one kernel.

    %y = graph.for %x {                       loop.kernel @for(%x, %y) {
    ^body(%t):                                  copy %x to %y
      %a = slice %t; %b = add %a, %a      ->    for %i { %a = load %y[%i]; ...; store %b, %y[%i] }
      yield insert_slice %t, %b               }
    }

A call for each operator of an iteration would cost more than what it computes. Small tensors are
scratch of the kernel, or no more than values; a large one is written in place by the operator that
makes a changed one of it, behind all that read it as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.graph_to_loop.lower_scalar_loop import SMALL, ScalarLoopLowering, Unfit
from weft.dialects.expr import Atom, Symbol
from weft.dialects.graph import ConstantOp, ForOp, FusedOp, GraphOp, IfOp
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.graph.regions.fused import YieldOp
from weft.dialects.interval import Range
from weft.dialects.loop.program import KernelOp

MOST: Final = 1024
"""Operators of a loop: legality of a kernel's schedule takes time with the square of its accesses.
"""

LONGEST: Final = 1 << 28
"""Operators that a call computes at most: a kernel is not ended before its time."""

UNKNOWN: Final = 1 << 16
"""Iterations of a loop whose count only the call knows, for that limit."""


ScalarLoop = tuple[KernelOp, list[SSAValue]]
"""A kernel, and the values of the graph whose buffers are its arguments in front of those of the
loop's results.
"""


def lower_scalar_loop(
    loop: ForOp, *, strict: bool, max_iterations: int | None
) -> ScalarLoop | None:
    """The naive kernel of a loop over scalars; None for a loop that is none.

    In such a kernel one operator follows the other, whatever they would be grouped with.
    """
    if not _is_candidate(loop, max_iterations):
        return None
    copy = loop.clone()
    _dissolve_groups(copy)
    outside, found = _captured(copy), None
    for views in (1, SMALL):
        with suppress(Unfit):
            found = ScalarLoopLowering(copy, outside, views, strict=strict).run(), outside
            break
    copy.erase()
    return found


def _is_candidate(loop: ForOp, max_iterations: int | None) -> bool:
    """Whether a loop has no effects, sizes that only calls find, and not too much work."""
    inside = list(loop.walk())
    if sum(isinstance(op, GraphOp) for op in inside) > MOST:
        return False
    for op in inside:
        if not isinstance(op, (GraphOp, FusedOp, YieldOp, ForOp, IfOp)) or defined_sizes(op):
            return False
        if isinstance(op, ForOp) and max_iterations is not None:
            count = op.iterations.constant
            if count is None or count > max_iterations:
                return False
    return _work(loop, {}) <= LONGEST


def _work(loop: ForOp, numbers: Mapping[Atom, Range]) -> int:
    """How many operators all iterations compute, where those of loops around have such numbers."""
    most = loop.iterations.range(numbers)[1]
    count = UNKNOWN if most is None else most
    inside = {**numbers, Symbol(loop.index.data): (0, max(count - 1, 0))}
    once = sum(_work(op, inside) if isinstance(op, ForOp) else 1 for op in _directly_in(loop))
    return once * count


def _directly_in(loop: ForOp) -> Iterator[Operation]:
    """The operators of an iteration; of nested loops only these."""
    waiting = list(loop.body.block.ops)
    while waiting:
        op = waiting.pop()
        yield op
        if not isinstance(op, ForOp):
            waiting += [inner for region in op.regions for inner in region.block.ops]


def _dissolve_groups(loop: ForOp) -> None:
    """Puts the operators of groups in the places of these."""
    for group in [op for op in loop.walk() if isinstance(op, FusedOp)]:
        block = group.parent
        assert block is not None, "a group stands in a loop"
        for argument, operand in zip(group.body.block.args, group.operands_, strict=True):
            argument.replace_all_uses_with(operand)
        for result, value in zip(group.results_, list(group.yielded), strict=True):
            result.replace_all_uses_with(value)
        for op in list(group.members):
            op.detach()
            block.insert_op_before(op, group)
        group.detach()
        group.erase()


def _captured(loop: ForOp) -> list[SSAValue]:
    """The values around a loop that it reads, but for constants that are no weights."""
    inside = set(loop.walk())
    values = dict.fromkeys(operand for op in loop.walk() for operand in op.operands)
    kept: list[SSAValue] = []
    for value in values:
        around = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
        literal = isinstance(value.owner, ConstantOp) and value.owner.literal is not None
        if around not in inside and not literal:
            kept.append(value)
    return kept
