"""Primitives that bring producers to their consumers: fuse_loops, compute_at, compute_inline and
forward_store; eliminate_dead_buffer and eliminate_empty_loop remove what is left over.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.dependence import Relation, crossing_pairs, may_clash
from weft.compiler.loop.legality import common_reduction, refuse, require_commuting, require_fusable
from weft.compiler.loop.nest import (
    child_in,
    describe,
    is_inside,
    is_pure,
    loads_in,
    move_ops,
    only_loop,
    replace_index,
    subscript_atoms,
    subscripts,
    value_name,
)
from weft.compiler.loop.primitives.recording import primitive
from weft.compiler.loop.primitives.tiling import require_unmarked
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops


@primitive
def fuse_loops(first: ForOp, second: ForOp) -> ForOp:
    """Makes one loop of two neighbours with equal extents.

        for i:  S(i)      ->   for i:  S(i); T(i)
        for i:  T(i)

    What stands between them moves in front of the first. The loop is a reduction where both are of
    one kind, or one is and the other only adds independent iterations. Raises IllegalSchedule where
    T(i) needs S of a later iteration, or what stands between cannot move. Returns the first loop.
    """
    require_unmarked("fuse_loops", first)
    require_unmarked("fuse_loops", second)
    if first.parent is not second.parent or first.extent != second.extent:
        got = f"{describe(first)} with {first.extent} and {describe(second)} with {second.extent}"
        raise IllegalSchedule(f"fuse_loops requires neighbours of equal extent, got {got}")
    between = _between(first, second)
    require_fusable("fuse_loops", first, second)
    require_commuting("fuse_loops", [first], between)
    for op in between:
        op.detach()
        Rewriter.insert_op(op, InsertPoint.before(first))
    _append(first, second)
    return first


def _between(first: ForOp, second: ForOp) -> list[Operation]:
    ops: list[Operation] = []
    op = first.next_op
    while op is not None and op is not second:
        ops.append(op)
        op = op.next_op
    if op is None:
        got = f"{describe(second)} in front of {describe(first)}"
        raise IllegalSchedule(f"fuse_loops requires the first loop to come first, got {got}")
    return ops


def _append(first: ForOp, second: ForOp) -> None:
    """Moves the second loop's body to the end of the first's."""
    combiner = common_reduction(first, second)
    first.properties.pop("reduction", None)
    if combiner is not None:
        first.properties["reduction"] = combiner
    move_ops(list(second.body.block.ops), first.body.block)
    steps = (Expr.atom(first.index) - first.lower) // first.step.data
    index = second.lower + steps * second.step.data
    if index == Expr.atom(first.index):
        second.index.replace_all_uses_with(first.index)
    else:
        replace_index(second.index, index)
    Rewriter.erase_op(second)


@primitive
def compute_at(producer: ForOp, consumer: ForOp) -> ForOp:
    """Moves a producer nest into a loop of its consumer, by fusing the loops around that.

        for i:  for j:  t[i, j] = S      ->   for i:  for j:  t[i, j] = S;  T(t[i, j])
        for i:  for j:  T(t[i, j])

    The producer's leading loops have to have the extents of the consumer's down to the named one; a
    producer that is tiled as its consumer is computes a tile at a time. Returns the loop that holds
    both.
    """
    block = producer.parent
    assert block is not None, "a nest under schedule is in a block"
    top = child_in(block, consumer)
    levels = [
        loop for loop in [*enclosing_loops(consumer), consumer] if top and is_inside(loop, top)
    ]
    if not levels:
        got = f"{describe(producer)} and {describe(consumer)}"
        raise IllegalSchedule(f"compute_at requires two nests of one block, got {got}")
    fused = fuse_loops(producer, levels[0])
    for level in levels[1:]:
        head = fused.body.block.first_op
        if not isinstance(head, ForOp) or head is level:
            got = f"{describe(fused)} around {describe(level)}"
            raise IllegalSchedule(
                f"compute_at requires a producer with a loop for each level, got {got}"
            )
        fused = fuse_loops(head, level)
    return fused


@primitive
def compute_inline(store: StoreOp) -> None:
    """Substitutes what a pointwise nest stores into each load of its temporary, which goes.

        for i:  for j:  t[i, j] = f(x[i, j])      ->   for i:  for j:  y[j, i] = g(f(x[i, j]))
        for i:  for j:  y[j, i] = g(t[i, j])

    Raises IllegalSchedule unless the store is the only one to a local buffer, writes each element
    once, and what it reads is still the same where the buffer is loaded.
    """
    nest = _pointwise_nest(store)
    loads = _loads_of_temporary(store, nest)
    outer = nest[0]
    _require_unchanged(store, outer, loads)
    indices = [next(iter(expr.atoms()), None) for expr in subscripts(store)]
    for load in loads:
        values = dict(zip(indices, load.index, strict=True))
        if load is loads[-1]:
            _move_to_load(store, load, values)
        else:
            _substitute_load(store, load, values)
    Rewriter.erase_op(outer)
    allocation = store.buffer.owner
    assert isinstance(allocation, AllocOp), "a temporary is allocated"
    Rewriter.erase_op(allocation)


def _pointwise_nest(store: StoreOp) -> list[ForOp]:
    """The loops whose indices subscript the store; they run over all of the buffer only."""
    index = subscripts(store)
    dims = store.buffer_type.shape
    indexed = sum(expr != 0 or dim != 1 for expr, dim in zip(index, dims, strict=True))
    loops = enclosing_loops(store)
    nest = loops[len(loops) - indexed :] if indexed else []
    whole = all(
        loop.lower == 0 and loop.step.data == 1 and _covers(loop, index, store) for loop in nest
    )
    chained = all(only_loop(o.body.block) is i for o, i in zip(nest, nest[1:], strict=False))
    body = [] if store.parent is None else list(store.parent.ops)
    plain = all(is_pure(op) or isinstance(op, LoadOp) or op is store for op in body)
    distinct = subscript_atoms(store) == {loop.index for loop in nest}
    if not nest or not (whole and chained and plain and distinct):
        rule = "a nest that writes each element of its buffer once"
        raise IllegalSchedule(f"compute_inline requires {rule}, got {describe(store)}")
    return nest


def _covers(loop: ForOp, index: tuple[Expr, ...], store: StoreOp) -> bool:
    here = Expr.atom(loop.index)
    dims = [dim for expr, dim in zip(index, store.buffer_type.shape, strict=True) if expr == here]
    return dims == [loop.extent]


def _loads_of_temporary(store: StoreOp, nest: list[ForOp]) -> list[LoadOp]:
    """The loads of the stored buffer, all of them behind the nest."""
    users = [use.operation for use in store.buffer.uses]
    block = nest[0].parent
    assert block is not None, "a nest under schedule is in a block"
    order = {op: position for position, op in enumerate(block.ops)}
    for user in users:
        child = child_in(block, user)
        behind = child is not None and order[child] > order[nest[0]]
        if user is not store and not (isinstance(user, LoadOp) and behind):
            rule = "that its buffer is otherwise only loaded, behind the nest"
            raise IllegalSchedule(f"compute_inline requires {rule}, got {describe(user)}")
    if not isinstance(store.buffer.owner, AllocOp):
        rule = "a store to a temporary"
        raise IllegalSchedule(f"compute_inline requires {rule}, got {describe(store)}")
    return sorted(
        (user for user in users if isinstance(user, LoadOp)),
        key=lambda load: order[child_in(block, load) or load],
    )


def _require_unchanged(store: StoreOp, nest: ForOp, loads: Iterable[LoadOp]) -> None:
    """Refuses where what the nest reads is stored before the last use of its result."""
    block = nest.parent
    assert block is not None, "a nest under schedule is in a block"
    users = {child_in(block, load) for load in loads}
    last = next((op for op in reversed(list(block.ops)) if op in users), None)
    op = nest.next_op
    sources = loads_in(nest)
    while op is not None and last is not None:
        for pair in crossing_pairs(sources, [op]):
            rule = f"that what {value_name(store.buffer)} is computed from does not change"
            refuse("compute_inline", rule, pair)
        op = None if op is last else op.next_op


def _substitute_load(store: StoreOp, load: LoadOp, values: dict[Atom | None, Expr]) -> None:
    """Computes the stored value again, at the load's subscripts, instead of the load."""
    block = store.parent
    assert block is not None, "a store under schedule is in a block"
    copies: dict[SSAValue, SSAValue] = {}
    stand_in = Block(arg_types=[arg.type for arg in _index_values(values)])
    copies.update(zip(_index_values(values), stand_in.args, strict=True))
    for op in list(block.ops):
        if op is not store:
            Rewriter.insert_op(op.clone(copies), InsertPoint.before(load))
    load.result.replace_all_uses_with(copies.get(store.value, store.value))
    for original, argument in zip(_index_values(values), stand_in.args, strict=True):
        argument.name_hint = original.name_hint
        replace_index(argument, values[original])
    Rewriter.erase_op(load)


def _move_to_load(store: StoreOp, load: LoadOp, values: dict[Atom | None, Expr]) -> None:
    """Computes the stored value there instead, at the load's subscripts, in place of the load."""
    block = store.parent
    assert block is not None, "a store under schedule is in a block"
    for op in list(block.ops):
        if op is not store:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(load))
    load.result.replace_all_uses_with(store.value)
    for index in _index_values(values):
        replace_index(index, values[index])
    Rewriter.erase_op(load)


def _index_values(values: dict[Atom | None, Expr]) -> list[SSAValue]:
    return [atom for atom in values if isinstance(atom, SSAValue)]


@primitive
def forward_store(load: LoadOp) -> None:
    """Replaces a load by the value that the same iteration has just stored to that element.

        t[i] = %v;  %w = load t[i];  y[i] = %w + 1   ->   t[i] = %v;  y[i] = %v + 1

    A temporary that nobody loads any more goes, with the stores to it. Raises IllegalSchedule where
    no store of the same subscripts stands before the load in its block, or another may overwrite
    the element in between.
    """
    store = _latest_store(load)
    load.result.replace_all_uses_with(store.value)
    buffer = load.buffer
    Rewriter.erase_op(load)
    users = [use.operation for use in buffer.uses]
    if isinstance(buffer.owner, AllocOp) and all(isinstance(user, StoreOp) for user in users):
        for user in dict.fromkeys(users):
            Rewriter.erase_op(user)
        Rewriter.erase_op(buffer.owner)


def _latest_store(load: LoadOp) -> StoreOp:
    op = load.prev_op
    outside = [Relation(loop, loop, "=") for loop in enclosing_loops(load)]
    while op is not None:
        if isinstance(op, StoreOp) and op.buffer is load.buffer and op.index == load.index:
            return op
        for pair in crossing_pairs([op], [load]):
            if may_clash(*pair, outside):
                refuse("forward_store", "that nothing overwrites the element in between", pair)
        op = op.prev_op
    rule = "a store of that element in front of it"
    raise IllegalSchedule(f"forward_store requires {rule}, got {describe(load)}")


@primitive
def eliminate_dead_buffer(allocation: AllocOp) -> None:
    """Removes a local buffer that is never loaded, the stores to it, and the loops that did nothing
    else.

        t = alloc;  for i:  t[i] = x[i];  for i:  y[i] = x[i]   ->   for i:  y[i] = x[i]

    Raises IllegalSchedule for a buffer that is loaded.
    """
    users = list(dict.fromkeys(use.operation for use in allocation.result.uses))
    for user in users:
        if not isinstance(user, StoreOp):
            got = describe(user)
            raise IllegalSchedule(
                f"eliminate_dead_buffer requires a buffer that is only stored, got {got}"
            )
    nests = [enclosing_loops(user) for user in users]
    for user in users:
        Rewriter.erase_op(user)
    Rewriter.erase_op(allocation)
    for loops in nests:
        for loop in reversed(loops):
            if loop.parent is not None and _does_nothing(loop):
                Rewriter.erase_op(loop)


def _does_nothing(loop: ForOp) -> bool:
    return all(is_pure(op) or isinstance(op, LoadOp) for op in loop.body.block.ops)


@primitive
def eliminate_empty_loop(loop: ForOp) -> None:
    """Removes a loop that never runs.

        for i < 0:  S(i)   ->

    Raises IllegalSchedule for a loop that may have iterations.
    """
    if loop.extent != 0:
        got = f"{describe(loop)} with {loop.extent}"
        raise IllegalSchedule(f"eliminate_empty_loop requires a loop without iterations, got {got}")
    Rewriter.erase_op(loop)
