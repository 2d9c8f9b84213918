"""How the innermost loops of a nest run: which of them becomes the vector,
and how a reduction is split for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from compiler.loop.nest import (
    accesses_in,
    is_branch,
    is_inside,
    loops_in,
    most_iterations,
    only_loop,
    perfect_nest,
    ranges_around,
    subscripts,
    update_of,
)
from compiler.loop.primitives import (
    collapse,
    parallelize,
    reorder,
    split_at,
    split_reduction,
    stage,
    tile,
    unroll,
    vectorize,
)
from compiler.loop.schedules.unroll_and_jam import group_of
from compiler.target.target import LINE, Target
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, Quotient, product
from dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.program import KernelOp
from dialects.loop.scalar import compute_type, width
from dialects.loop.types import buffer_type

ACCUMULATORS = 4
"""Vectors of partial results of the reductions of a loop: the next operation on one has not to wait
for the last on another.
"""

LEAST_LANES = 4
"""Partial results of a reduction that are a vector; fewer elements are combined one by one."""

AHEAD = 4096
"""Bytes that long runs are loaded ahead: memory is read on while a page ends."""

FAR = 8
"""Elements between neighbouring loads from which on they lie on lines of their own."""

LARGEST_SCRATCH = 32 * 1024
"""Bytes of a temporary that moves onto the stack of the thread that computes the row."""


def lanes_for(loop: ForOp, target: Target) -> int:
    """How many iterations one vector holds, by the widest element that the loop computes with."""
    bits = [_bits(access) for access in accesses_in(loop) if not is_place(access, loop)]
    lanes = target.lanes(max([32, *bits]) // 8)
    extent = loop.extent.constant
    while extent is not None and lanes > 1 and lanes // 2 >= extent:
        lanes //= 2
    return lanes


def is_place(access: AccessOp, loop: ForOp) -> bool:
    """Whether an access loads an integer, such as the number of a row, that is the same in every
    iteration: it takes up no vector.
    """
    return (
        isinstance(access, LoadOp)
        and isinstance(access.buffer_type.element, IntegerType)
        and stride(access, loop) == 0
    )


def _bits(access: AccessOp) -> int:
    """The width that an element of an access is computed with."""
    return width(compute_type(access.buffer_type.element))


def lanes_of(loops: Iterable[ForOp], target: Target) -> int:
    """How many of the widest elements that the loops access fit a vector."""
    accesses = [access for loop in loops for access in accesses_in(loop)]
    bits = [_bits(access) for access in accesses]
    return target.lanes(max([32, *bits]) // 8)


def is_past_caches(store: StoreOp, target: Target) -> bool:
    """Whether a store fills an argument that no cache holds until somebody reads it: it is as large
    as half of the last one, and with operands of its size, whose lines it would push out, larger
    than that. What just fits stays: threads fill a cache together, and share one way to memory.
    """
    if isinstance(store.buffer.owner, AllocOp):
        return False
    filled = _bytes_of(store)
    loads = [each for each in accesses_in(_nest_of(store)) if isinstance(each, LoadOp)]
    operands = {load.buffer: min(_bytes_of(load), filled) for load in loads}
    least = target.l3_bytes // 2
    return filled >= least and filled + sum(operands.values()) > target.l3_bytes


def _bytes_of(access: AccessOp) -> int:
    """How large the buffer of an access is; 0 where only a call knows."""
    kind = access.buffer_type
    return (product(kind.shape).constant or 0) * width(kind.element) // 8


def _nest_of(access: AccessOp) -> Operation:
    """The outermost loop around an access, or itself."""
    return next(iter(enclosing_loops(access)), access)


def follows_streams(target: Target) -> bool:
    """Whether long runs are better read at several places in turn than ahead of one: where vectors
    are shorter than a line, prefetches are too many of the loads, and cost more than they save.
    """
    return target.vector_bytes < LINE


def stride(access: AccessOp, loop: ForOp) -> Expr | None:
    """How far apart, in elements, neighbouring iterations access memory; None where that varies."""
    ranges = ranges_around(access)
    address = access.buffer_type.address(subscripts(access)).simplify(ranges)
    return address.coefficient(loop.index) if address.is_affine_in(loop.index) else None


def is_far(load: LoadOp, loop: ForOp) -> bool:
    step = stride(load, loop)
    return step is not None and (step.constant is None or abs(step.constant) >= FAR)


def continues(outer: ForOp, inner: ForOp) -> bool:
    """Whether every access goes on in the outer loop where the inner one ends,
    so that both could be one loop.
    """
    for access in accesses_in(inner):
        far, near = stride(access, outer), stride(access, inner)
        if far is None or near is None or far != near * inner.extent:
            return False
    return True


def collapse_contiguous(loop: ForOp) -> ForOp:
    """Merges neighbouring loops of one kind wherever every access walks through both in one
    stride; returns the new outermost.
    """
    outer = loop
    first = None
    while (inner := only_loop(outer.body.block)) is not None:
        alike = outer.reduction == inner.reduction
        if outer.extent == 1 or (alike and continues(outer, inner)):
            outer = collapse(outer, inner)
        else:
            first = first or outer
            outer = inner
    return first or outer


def vectorize_leaves(loop: ForOp, target: Target) -> None:
    """Vectorises every innermost nest inside the loop, the loop included."""
    nest = perfect_nest(loop)
    inner = [op for op in nest[-1].body.block.ops if isinstance(op, ForOp)]
    if inner:
        for op in inner:
            vectorize_leaves(_collapse_leaf(op), target)
        return
    if any(is_branch(op) for op in nest[-1].body.block.ops):
        return
    if turn_copy(nest, lanes_of([nest[0]], target)):
        return
    candidates = sorted((each for each in nest if most_iterations(each) != 1), key=_badness)
    if not any(_try_vectorize(loop, target) for loop in candidates):
        any(_try_short_reduction(loop, target) for loop in candidates)


def turn_copy(nest: Sequence[ForOp], lanes: int, *, written_out: bool = False) -> bool:
    """Cuts a copy that loads along one loop and stores along another into blocks that registers
    turn; false for what is no such copy. One of a tile in registers is to be `written_out`.
    """
    store, load = copied_by(nest[-1]), nest[-1].body.block.first_op
    if store is None or not isinstance(load, LoadOp):
        return False
    stores = [loop for loop in nest if stride(store, loop) == 1]
    loads = [loop for loop in nest if loop not in stores and stride(load, loop) == 1]
    if len(stores) != 1 or not loads or not is_far(load, stores[0]):
        return False
    pair = stores[0], loads[-1]
    if lanes == 1 or any((loop.extent.constant or 0) < lanes // 2 for loop in pair):
        return False
    others = [loop for loop in nest if loop not in pair]
    try:
        reorder(*others, *pair)
    except IllegalSchedule:
        return False
    for part in whole_and_rest(pair[0], lanes):
        turned, _ = reorder(perfect_nest(part)[1], part)
        for each in whole_and_rest(turned, lanes):
            others += turn_blocks(perfect_nest(each), lanes, along_loads=True)
    for loop in others if written_out else ():
        unroll(loop)
    return True


def copied_by(loop: ForOp) -> StoreOp | None:
    """The store of a loop that does nothing but store what it loads."""
    load, store = loop.body.block.first_op, loop.body.block.last_op
    if not isinstance(load, LoadOp) or not isinstance(store, StoreOp) or load.next_op is not store:
        return None
    return store if store.value is load.result else None


def whole_and_rest(loop: ForOp, lanes: int) -> list[ForOp]:
    """The loop as what fills vectors, and the few iterations that are left."""
    extent = loop.extent.constant
    assert extent is not None, "a tile has a constant size"
    whole = extent // lanes * lanes
    return [loop] if whole in (0, extent) else list(split_at(loop, whole))


def turn_blocks(nest: list[ForOp], lanes: int, *, along_loads: bool) -> list[ForOp]:
    """Makes blocks of a part of a tile whose sides are multiples of a vector, or shorter; returns
    the loops over them.
    """
    loads, stores = nest
    lo, li, _ = tile(loads, min(lanes, loads.extent.constant or lanes))
    so, si, _ = tile(stores, min(lanes, stores.extent.constant or lanes))
    if along_loads:
        reorder(so, lo, li, si)
    else:
        reorder(lo, so, li, si)
    unroll(vectorize(si, lanes))
    unroll(li)
    return [so, lo]


def _collapse_leaf(loop: ForOp) -> ForOp:
    """The loop, as one with those inside where memory goes on through all of them."""
    is_leaf = not loops_in(perfect_nest(loop)[-1])
    return collapse_contiguous(loop) if is_leaf else loop


def _badness(loop: ForOp) -> tuple[int, int, int]:
    """Orders candidates: fewest scattered accesses first,
    then independent iterations before reductions.
    """
    stores = [access for access in accesses_in(loop) if isinstance(access, StoreOp)]
    apart = sum(stride(store, loop) != 1 for store in stores)
    return _scattered(loop), int(loop.reduction is not None), apart


def _scattered(loop: ForOp) -> int:
    """How many accesses of neighbouring iterations are neither of neighbours nor of one element."""
    steps = [stride(access, loop) for access in accesses_in(loop)]
    return sum(step is None or step not in (Expr.of(0), Expr.of(1)) for step in steps)


def abreast(loop: ForOp, lanes: int, target: Target) -> int:
    """The lanes of all vectors that a loop of independent iterations computes side by side."""
    return lanes * (1 if is_scattered(loop) else group_of(loop, lanes, target))


def is_scattered(loop: ForOp) -> bool:
    """Whether neighbouring iterations access other elements than neighbours, or one element."""
    return _scattered(loop) > 0


def _try_vectorize(loop: ForOp, target: Target) -> bool:
    lanes = lanes_for(loop, target)
    if lanes == 1:
        return False
    try:
        if loop.reduction is None:
            vectorize(loop, abreast(loop, lanes, target))
            return True
        if loop.extent.constant is not None and loop.extent.constant < 2 * lanes:
            return False
        if not any(update_of(access) for access in accesses_in(loop)):
            return False
        vectorize_reduction(loop, lanes)
    except IllegalSchedule:
        return False
    return True


def _try_short_reduction(loop: ForOp, target: Target) -> bool:
    """Runs a reduction of less than two vectors of neighbours as one, of the most elements that
    fill it; the others join its first lanes.
    """
    extent = loop.extent.constant
    if loop.reduction is None or extent is None or extent < LEAST_LANES:
        return False
    if _scattered(loop) or not any(update_of(access) for access in accesses_in(loop)):
        return False
    try:
        vectorize_reduction(loop, min(lanes_of([loop], target), 1 << extent.bit_length() - 1))
    except IllegalSchedule:
        return False
    return True


def vectorize_reduction(loop: ForOp, lanes: int) -> None:
    """Runs a reduction in several vectors of partial results, so that additions need not wait for
    each other. What is left of an unknown length has a vector of its own: registers cannot be
    chosen at run time.
    """
    extent = loop.extent.constant
    sums = {access.buffer for access in accesses_in(loop) if isinstance(access, StoreOp)}
    vectors = max(1, ACCUMULATORS // max(1, len(sums)))
    if extent is None:
        width = vectors * lanes
        loop, rest = split_at(loop, loop.extent // width * width)
        _accumulate(rest, lanes, 1)
        _accumulate(loop, lanes, vectors)
    else:
        _accumulate(loop, lanes, min(vectors, extent // lanes))


def _accumulate(loop: ForOp, lanes: int, vectors: int) -> None:
    parts = split_reduction(loop, lanes * vectors)
    for part in (parts.initialize, parts.inner, parts.remainder):
        if part is not None:
            vectorize(part, lanes)
            if part.extent.constant is not None:
                unroll(part)
    for halving in parts.halvings:
        count = halving.extent.constant or 0
        if count & (count - 1) == 0 and count > 1:
            vectorize(halving, min(count, lanes))
        unroll(halving)


def parallelize_outermost(loop: ForOp) -> ForOp:
    """Lets the outermost loop of a nest that has more than one iteration run in
    parallel, where that is legal; returns the nest's outermost loop.
    """
    for level in perfect_nest(loop):
        if level.extent == 1:
            continue
        if level.vector is not None:
            break
        try:
            parallelize(level)
        except IllegalSchedule:
            continue
        merged = _merged(level)
        return merged if level is loop else loop
    return loop


def _merged(loop: ForOp) -> ForOp:
    """A parallel loop whose iterations only a call counts, such as a batch's, merged with the next
    that may run in parallel too: there may be a single one, and nothing for other threads to do.
    Tiles stay as they are.
    """
    while _is_of_size(loop.extent) and (inner := only_loop(loop.body.block)) is not None:
        plain = inner.lower == 0 and inner.step.data == 1 and loop.index not in inner.operands_
        if inner.marks() or not plain:
            break
        try:
            parallelize(inner)
        except IllegalSchedule:
            break
        single = inner.extent == 1
        loop = collapse(loop, inner)
        if not single:
            break
    return loop


def _is_of_size(extent: Expr) -> bool:
    """Whether only a call knows the extent, and it counts whole dims rather than tiles of them."""
    atoms = [atom for monomial in extent.terms for atom in monomial]
    return bool(atoms) and not any(isinstance(atom, Quotient) for atom in atoms)


def privatize(loop: ForOp, most: int = LARGEST_SCRATCH) -> None:
    """Gives each iteration its own copy, of `most` bytes, of temporaries that only it uses."""
    for buffer in dict.fromkeys(access.buffer for access in accesses_in(loop)):
        owner = buffer.owner
        if not isinstance(owner, AllocOp) or is_inside(owner, loop):
            continue
        if all(is_inside(use.operation, loop) for use in buffer.uses):
            try:
                _stage_small(loop, owner, most)
            except IllegalSchedule:
                continue


def _stage_small(loop: ForOp, allocation: AllocOp, most: int) -> None:
    """Stages the temporary where its tile is a number or a short row."""
    kind = buffer_type(allocation.result)
    inside = {level.index for level in _levels(loop)}
    free = [
        dim
        for axis, dim in enumerate(kind.shape)
        if not all(
            set(access.index[axis].atoms()) <= inside
            for access in accesses_in(loop)
            if access.buffer is allocation.result
        )
    ]
    sizes = [dim.constant for dim in free]
    count = 1
    for size in sizes:
        if size is None:
            return
        count *= size
    if count * width(kind.element) // 8 <= most:
        stage(allocation.result, loop, "registers" if count == 1 else "scratch")


def _levels(loop: ForOp) -> list[ForOp]:
    return [*enclosing_loops(loop), loop]


def unscheduled(kernel: KernelOp) -> list[ForOp]:
    """The nests of a kernel on which no schedule has put its marks."""
    nests = [op for op in kernel.body.block.ops if isinstance(op, ForOp)]
    return [nest for nest in nests if not any(_is_marked(op) for op in nest.walk())]


def _is_marked(op: Operation) -> bool:
    return isinstance(op, ForOp) and bool(op.parallel or op.vector or op.unroll)
