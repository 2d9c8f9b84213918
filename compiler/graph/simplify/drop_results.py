"""graph -> graph, a part of dead-code elimination: results of branches and loops that nobody reads,
or that are what was there before.

    %y, %z = graph.for %a, %b ... { ^(%p, %q): ..., graph.yield %p1, %q1 }     %z not used, %q only
    ->  %y = graph.for %a ... { ^(%p): ..., graph.yield %p1 }                  for %q1 itself
    %y = graph.if %c { A, graph.yield %x } else { B, graph.yield %x }      ->  %x for %y
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import BlockArgument, Operation, OpResult, Region, SSAValue, SSAValues

from weft.dialects.graph import ConditionOp, ControlOp
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import defined_sizes, yielded
from weft.dialects.graph.regions.effects import EffectOp
from weft.dialects.graph.regions.repeat import RepeatOp


def drop_dead_results(op: ControlOp) -> None:
    """Takes the results from a branch or a loop that are not needed; operators that are left unused
    stay.
    """
    if isinstance(op, BranchOp):
        _replace_equal(op)
        _keep_results(
            op, [n for n, each in enumerate(op.results) if _is_read(op, each)], op.regions
        )
    elif isinstance(op, RepeatOp):
        _replace_invariant(op)
        live = _live(op)
        _keep_operands(op, live)
        _keep_results(op, live, [op.repeated])


def _keep_operands(op: RepeatOp, live: Sequence[int]) -> None:
    """Drops carried values; operators that still read one are dead, and read its first one."""
    for region in op.regions:
        for argument, operand in reversed(list(zip(region.block.args, op.operands, strict=True))):
            if argument.index not in live:
                argument.replace_all_uses_with(operand)
                region.block.erase_arg(argument)
    op.operands = [each for number, each in enumerate(op.operands) if number in live]


def _keep_results(op: ControlOp, kept: Sequence[int], regions: Iterable[Region]) -> None:
    """Leaves an operator some of its results, and of what these regions hand on."""
    if len(kept) == len(op.results):
        return
    for region in regions:
        last = region.block.last_op
        assert last is not None, "a region hands on results"
        last.operands = [last.operands[number] for number in kept]
    old = [op.results[number] for number in kept]
    new = [OpResult(each.type, op, number) for number, each in enumerate(old)]
    for before, after in zip(old, new, strict=True):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    op.results = SSAValues(new)


def _is_read(op: ControlOp, result: SSAValue) -> bool:
    """Whether somebody reads a result, or it names a size."""
    return bool(result.uses) or _names_size(op, type_of(result))


def _names_size(op: ControlOp, tensor_type: TensorType) -> bool:
    names = set(op.size_names)
    return any(not names.isdisjoint(dim.symbols()) for dim in tensor_type.dims.data or ())


def _replace_equal(op: BranchOp) -> None:
    """Reads around the branch what all regions yield from there."""
    for result, *values in zip(op.results, *map(yielded, op.regions), strict=True):
        first = values[0]
        same = all(each is first for each in values) and first.type == result.type
        if same and not op.is_ancestor(first.owner):
            result.replace_all_uses_with(first)


def _replace_invariant(op: RepeatOp) -> None:
    """Reads in front of the loop what every iteration hands on as it is."""
    body, handed = op.repeated.block, yielded(op.repeated)
    for number, operand in enumerate(op.operands):
        if handed[number] is body.args[number] and operand.type == body.args[number].type:
            for region in op.regions:
                region.block.args[number].replace_all_uses_with(operand)
            op.results[number].replace_all_uses_with(operand)
            handed = yielded(op.repeated)


def _live(op: RepeatOp) -> list[int]:
    """The results that are read, and the carried values that these, or what acts, depend on."""
    handed = yielded(op.repeated)
    live = {n for n, each in enumerate(op.results) if _is_read(op, each)}
    pending = [handed[n] for n in live]
    pending += [value for each in _acting(op) for value in each.operands]
    reached: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in reached:
            continue
        reached.add(value)
        if isinstance(value, OpResult):
            pending += _needed_for(value)
        elif isinstance(value, BlockArgument) and value.block.parent_op() is op:
            live.add(value.index)
            pending.append(handed[value.index])
        elif isinstance(value, BlockArgument) and isinstance(
            inner := value.block.parent_op(), RepeatOp
        ):
            pending += [inner.operands[value.index], yielded(inner.repeated)[value.index]]
    return sorted(live)


def _needed_for(result: OpResult) -> list[SSAValue]:
    """The values that a result depends on, of what a branch or a loop hands on only its own."""
    op, number = result.op, result.index
    match op:
        case BranchOp():
            return [*op.operands, *(yielded(region)[number] for region in op.regions)]
        case RepeatOp():
            return [*op.operands[number : number + 1], yielded(op.repeated)[number]]
        case _:
            return [each for inner in op.walk() for each in inner.operands]


def _acting(op: RepeatOp) -> Iterator[Operation]:
    """What is needed in a loop whatever is read of it: effects, conditions, and sizes."""
    for inner in op.walk():
        acts = isinstance(inner, EffectOp | ConditionOp) or defined_sizes(inner)
        if acts and inner is not op:
            yield inner
