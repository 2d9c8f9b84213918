"""program -> program: a loop whose iterations compute a new state beside the old one goes from one
buffer to the other and back, instead of copying.

    loop.for %i = 0 to n {                      %y = loop.alloc workspace : ...
      %y = loop.alloc workspace : ...           loop.for %i = 0 to n floordiv 2 {
      loop.call @step(%x, %y)             =>      loop.call @step(%x, %y)
      loop.copy %y, %x                            loop.call @step(%y, %x)
    }                                           }
                                                loop.for %i = 0 to n mod 2 {
                                                  loop.call @step(%x, %y)
                                                  loop.copy %y, %x
                                                }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.expr import Expr
from weft.dialects.loop.dynamic import BindSymbolOp, CopyOp, root
from weft.dialects.loop.extents import RequireExtentsOp
from weft.dialects.loop.ops import AllocOp, ForOp
from weft.dialects.loop.program import CallOp, ProgramOp, ViewOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import buffer_type_of

WORTH_BYTES = 1 << 14
"""States below that, which stay in a first-level cache, are copied in less time than code that is
written twice takes."""

MOST_BODY_OPERATIONS = 64
"""Operations of an iteration that is written out once more."""


class DoubleBufferPass(ModulePass):
    """Rewrites the loops of every program whose iterations end by copying states."""

    name = "weft-double-buffer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        double_buffer(op)


def double_buffer(module: ModuleOp) -> None:
    """Rewrites the loops of a module's programs, inner ones first."""
    for program in module.ops:
        if isinstance(program, ProgramOp):
            loops = [op for op in program.walk() if isinstance(op, ForOp)]
            for loop in reversed(loops):
                copies = _copied_states(loop)
                if any(map(_is_worth_it, copies)):
                    _write_twice(loop, copies)


def _copied_states(loop: ForOp) -> list[CopyOp]:
    """The copies that an iteration ends with, of buffers of its own to those of states, where every
    operation of an iteration may be written twice.
    """
    block = loop.body.block
    plain = (AllocOp, BindSymbolOp, CallOp, CopyOp, RequireExtentsOp, ViewOp)
    if len(block.ops) > MOST_BODY_OPERATIONS or not all(isinstance(op, plain) for op in block.ops):
        return []
    copies: list[CopyOp] = []
    op = block.last_op
    while isinstance(op, CopyOp):
        copies.append(op)
        op = op.prev_op
    touched = [root(value) for copy in copies for value in copy.operands]
    alone = len(set(touched)) == len(touched)
    return copies if alone and all(_is_state(copy, block) for copy in copies) else []


def _is_state(copy: CopyOp, block: Block) -> bool:
    """Whether an iteration's own buffer is copied to a whole buffer from outside, which the
    iteration uses by that name alone.
    """
    fresh, state = copy.source.owner, copy.target
    if not isinstance(fresh, AllocOp) or fresh.parent is not block or root(state) is not state:
        return False
    if (
        fresh.scope.data != "workspace"
        or isinstance(state.owner, AllocOp)
        and (state.owner.parent is block or state.owner.scope.data != "workspace")
    ):
        return False
    views = [op for op in block.ops if isinstance(op, ViewOp)]
    used = [value for op in block.ops for value in op.operands if value not in _results(views)]
    return all(value is state for value in used if root(value) is state)


def _results(ops: Sequence[Operation]) -> set[SSAValue]:
    return {result for op in ops for result in op.results}


def _is_worth_it(copy: CopyOp) -> bool:
    buffer_type = buffer_type_of(copy.source)
    low, _ = buffer_type.size.range({})
    return (
        buffer_type.size.constant is None
        or (low or 0) * width(buffer_type.element) // 8 >= WORTH_BYTES
    )


def _write_twice(loop: ForOp, copies: Sequence[CopyOp]) -> None:
    """Unrolls the loop once, with the buffers of states swapped in the second iteration; the last
    of an odd number of iterations stands behind the loop.
    """
    lower, iterations = loop.lower, loop.extent // 2
    for copy in reversed(copies):
        fresh = copy.source.owner
        assert isinstance(fresh, AllocOp), "a state is copied from an allocation"
        fresh.detach()
        Rewriter.insert_op(fresh, InsertPoint.before(loop))
    there = {copy.source: copy.target for copy in copies}
    swapped = there | {state: fresh for fresh, state in there.items()}
    last = loop.extent - 2 * iterations
    pairs = ForOp.of(0, iterations)
    first = Expr.atom(pairs.index) * 2 + lower
    _add_iteration(pairs, loop, copies, first, {})
    _add_iteration(pairs, loop, copies, first + 1, swapped)
    made = [pairs]
    if last != 0:
        rest = ForOp.of(0, last)
        _add_iteration(rest, loop, (), lower + 2 * iterations + Expr.atom(rest.index), {})
        made.append(rest)
    Rewriter.replace_op(loop, made, [])


def _add_iteration(
    target: ForOp,
    loop: ForOp,
    left_out: Sequence[CopyOp],
    index: Expr,
    values: Mapping[SSAValue, SSAValue],
) -> None:
    """Adds an iteration of a loop, with other buffers and another expression for the index."""
    mapping = dict(values)
    for op in loop.body.block.ops:
        if op in left_out:
            continue
        if isinstance(op, BindSymbolOp):
            made: Operation = BindSymbolOp.of(
                op.size.data, op.value.substitute({loop.index: index})
            )
            made.location = op.location
        else:
            made = op.clone(mapping)
        mapping |= dict(zip(op.results, made.results, strict=True))
        target.body.block.add_op(made)
