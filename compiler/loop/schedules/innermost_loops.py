"""Vectorises innermost loops: which of a nest becomes the vector, how a reduction is split for
that, and copies that are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from weft.compiler.loop.matchers import copied_by, update_of
from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    child_loops,
    is_branch,
    is_inside,
    loads_in,
    loops_in,
    most_iterations,
    only_loop,
    perfect_nest,
    stores_in,
)
from weft.compiler.loop.primitives import (
    collapse,
    reorder,
    split_at,
    split_reduction,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.interleave import interleave, vectorize_turns
from weft.compiler.loop.schedules.unroll_and_jam import jam_factor
from weft.compiler.loop.strides import is_contiguous, is_strided, stride
from weft.compiler.target.target import LINE, Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, product
from weft.dialects.loop.ops import (
    AccessOp,
    AllocOp,
    ForOp,
    IfOp,
    LoadOp,
    StoreOp,
    enclosing_loops,
)
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import compute_type, width
from weft.dialects.loop.types import buffer_type_of

ACCUMULATORS = 4
"""Vectors of partial results of a loop's reductions: consecutive operations are on different ones
and need not wait for each other.
"""

LEAST_LANES = 4
"""Partial results of a reduction that are worth a vector; fewer are combined one by one."""

PREFETCH_BYTES = 4096
"""Bytes by which contiguous accesses are prefetched: across the end of a page too."""

LARGEST_SCRATCH = 64 * 1024
"""Bytes of a temporary that moves onto the stack of the thread that computes the row."""


def nests_and_branches(kernel: KernelOp) -> list[ForOp]:
    """The nests of a kernel, and of the branches that it takes, those within others too."""
    blocks = [kernel.body.block]
    for block in blocks:  # which grow
        blocks += [op.then.block for op in block.ops if isinstance(op, IfOp)]
    return [op for block in blocks for op in block.ops if isinstance(op, ForOp)]


def lanes_for(loop: ForOp, target: Target) -> int:
    """How many iterations one vector holds, by the widest element that the loop computes with."""
    bits = [_bits(access) for access in accesses_in(loop) if not is_index_load(access, loop)]
    lanes = target.lanes(max([32, *bits]) // 8)
    extent = loop.extent.constant
    while extent is not None and lanes > 1 and lanes // 2 >= extent:
        lanes //= 2
    return lanes


def is_index_load(access: AccessOp, loop: ForOp) -> bool:
    """Whether an access loads an integer, such as the index of a row, that is the same in every
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


def is_streaming_store(store: StoreOp, target: Target) -> bool:
    """Whether a store fills an argument that no cache holds until somebody reads it: it is as large
    as half of the LLC, and with operands of its size, whose lines it would evict, larger than all
    of it. What just fits stays: threads fill the LLC together, and share the bandwidth to memory.
    """
    if isinstance(store.buffer.owner, AllocOp):
        return False
    filled = _bytes_of(store)
    loads = loads_in(_nest_of(store))
    operands = {load.buffer: min(_bytes_of(load), filled) for load in loads}
    least = target.l3_bytes // 2
    return filled >= least and filled + sum(operands.values()) > target.l3_bytes


def streams_past_caches(store: StoreOp, target: Target) -> bool:
    """Whether a store fills an argument of which L2 keeps less than half, and its innermost loop
    whole lines: a part of one is read from memory to be written.
    """
    local = isinstance(store.buffer.owner, AllocOp)
    size = width(store.buffer_type.element) // 8
    filled = (enclosing_loops(store)[-1].extent.constant or 0) * size
    return not local and _bytes_of(store) >= 2 * target.l2_bytes and filled >= LINE


def _bytes_of(access: AccessOp) -> int:
    """How large the buffer of an access is; 0 where that is dynamic."""
    buffer_type = access.buffer_type
    return (product(buffer_type.shape).constant or 0) * width(buffer_type.element) // 8


def _nest_of(access: AccessOp) -> Operation:
    """The outermost loop around an access, or itself."""
    return next(iter(enclosing_loops(access)), access)


def prefers_streams(target: Target) -> bool:
    """Whether long contiguous reads are better split into several interleaved streams than
    prefetched: where vectors are shorter than a line, prefetches are too many of the loads, and
    cost more than they save.
    """
    return target.vector_bytes < LINE


def collapse_contiguous(loop: ForOp) -> ForOp:
    """Collapses nested loops, both reductions or both none, wherever every access has one stride
    through both; returns the new outermost.
    """
    outer = loop
    first = None
    while (inner := only_loop(outer.body.block)) is not None:
        alike = outer.reduction == inner.reduction
        if outer.extent == 1 or (alike and is_contiguous(outer, inner)):
            outer = collapse(outer, inner)
        else:
            first = first or outer
            outer = inner
    return first or outer


def vectorize_innermost(loop: ForOp, target: Target) -> None:
    """Vectorises every innermost nest inside the loop, the loop included."""
    nest = perfect_nest(loop)
    inner = child_loops(nest[-1])
    if inner:
        for op in inner:
            vectorize_innermost(_collapse_innermost(op), target)
        return
    if any(is_branch(op) for op in nest[-1].body.block.ops):
        return
    lanes = lanes_of([nest[0]], target)
    if transpose_copy(nest, lanes) or interleave(nest, lanes):
        return
    candidates = sorted((each for each in nest if most_iterations(each) != 1), key=_vector_cost)
    if not any(_try_vectorize(loop, target) for loop in candidates):
        any(_try_short_reduction(loop, target) for loop in candidates)


def transpose_copy(nest: Sequence[ForOp], lanes: int, *, unrolled: bool = False) -> bool:
    """Tiles a copy that loads along one loop and stores along another into blocks that are
    transposed in registers; false for what is no such copy. One of a tile in registers is to be
    `unrolled`.
    """
    store, load = copied_by(nest[-1]), nest[-1].body.block.first_op
    if store is None or not isinstance(load, LoadOp):
        return False
    stores = [loop for loop in nest if stride(store, loop) == 1]
    loads = [loop for loop in nest if loop not in stores and stride(load, loop) == 1]
    if len(stores) != 1 or not loads or not is_strided(load, stores[0]):
        return False
    # Blocks of lanes x lanes elements are transposed by shuffles, so both loops have to fill half
    # of a vector. Shorter ones are better off with strided loads.
    pair = stores[0], loads[-1]
    if lanes == 1 or any((loop.extent.constant or 0) < lanes // 2 for loop in pair):
        return False
    others = [loop for loop in nest if loop not in pair]
    try:
        reorder(*others, *pair)
    except IllegalSchedule:
        return False
    # Splitting copies what is inside of a loop, so the one to split is brought outside: first the
    # loop along stores, then, within each of its parts, the loop along loads.
    for part in main_and_remainder(pair[0], lanes):
        inner, _ = reorder(perfect_nest(part)[1], part)
        for each in main_and_remainder(inner, lanes):
            others += transpose_blocks(perfect_nest(each), lanes, along_loads=True)
    for loop in others if unrolled else ():
        unroll(loop)
    return True


def main_and_remainder(loop: ForOp, lanes: int) -> list[ForOp]:
    """The loop as a main loop that fills vectors, and a remainder."""
    extent = loop.extent.constant
    assert extent is not None, "a tile has a constant size"
    whole = extent // lanes * lanes
    return [loop] if whole in (0, extent) else list(split_at(loop, whole))


def transpose_blocks(nest: list[ForOp], lanes: int, *, along_loads: bool) -> list[ForOp]:
    """Tiles a nest whose extents are multiples of a vector, or shorter, into blocks that are
    transposed in registers; returns the loops over them.
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


def _collapse_innermost(loop: ForOp) -> ForOp:
    """The loop, as one with those inside where memory is contiguous through all of them."""
    has_loops = bool(loops_in(perfect_nest(loop)[-1]))
    return loop if has_loops else collapse_contiguous(loop)


def _vector_cost(loop: ForOp) -> tuple[int, int, int]:
    """Orders candidates: fewest strided accesses first, then independent iterations before
    reductions.
    """
    strided_stores = sum(stride(store, loop) != 1 for store in stores_in(loop))
    return _count_strided(loop), int(loop.reduction is not None), strided_stores


def _count_strided(loop: ForOp) -> int:
    """How many accesses are neither contiguous along the loop nor of one element."""
    steps = [stride(access, loop) for access in accesses_in(loop)]
    return sum(step is None or step not in (Expr.of(0), Expr.of(1)) for step in steps)


def interleaved_lanes(loop: ForOp, lanes: int, target: Target) -> int:
    """The lanes of all vectors that a loop of independent iterations computes interleaved."""
    return lanes * (1 if has_strided_access(loop) else jam_factor(loop, lanes, target))


def has_strided_access(loop: ForOp) -> bool:
    """Whether an access is neither contiguous along the loop nor of one element."""
    return _count_strided(loop) > 0


def _try_vectorize(loop: ForOp, target: Target) -> bool:
    lanes = lanes_for(loop, target)
    if lanes == 1:
        return False
    try:
        if loop.reduction is None:
            if not vectorize_turns(loop, lanes):
                vectorize(loop, interleaved_lanes(loop, lanes, target))
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
    """Runs a contiguous reduction of less than two vectors as one, of the most elements that fill
    it; the others are added to its first lanes.
    """
    extent = loop.extent.constant
    if loop.reduction is None or extent is None or extent < LEAST_LANES:
        return False
    if _count_strided(loop) or not any(update_of(access) for access in accesses_in(loop)):
        return False
    try:
        vectorize_reduction(loop, min(lanes_of([loop], target), 1 << extent.bit_length() - 1))
    except IllegalSchedule:
        return False
    return True


def vectorize_reduction(loop: ForOp, lanes: int) -> None:
    """Runs a reduction in several vectors of partial results, so that additions need not wait for
    each other. The remainder of a dynamic length is added when one vector of them is left:
    registers cannot be chosen at run time.
    """
    extent = loop.extent.constant
    sums = {store.buffer for store in stores_in(loop)}
    vectors = max(1, ACCUMULATORS // max(1, len(sums)))
    if extent is not None:
        vectors = min(vectors, extent // lanes)
    parts = split_reduction(
        loop, lanes * vectors, rest=lanes if extent is None and vectors > 1 else None
    )
    for part in (parts.initialize, parts.inner, parts.rest, parts.remainder):
        if part is not None:
            vectorize(part, lanes)
            if part.extent.constant is not None:
                unroll(part)
    for halving in parts.halvings:
        count = halving.extent.constant or 0
        if count & (count - 1) == 0 and count > 1:
            vectorize(halving, min(count, lanes))
        unroll(halving)


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
    """Stages the temporary where its tile is a scalar or a short row."""
    buffer_type = buffer_type_of(allocation.result)
    inside = {level.index for level in _levels(loop)}
    free = [
        dim
        for axis, dim in enumerate(buffer_type.shape)
        if not all(
            set(access.index[axis].atoms()) <= inside
            for access in accesses_to(allocation.result, loop)
        )
    ]
    sizes = [dim.constant for dim in free]
    count = 1
    for size in sizes:
        if size is None:
            return
        count *= size
    if count * width(buffer_type.element) // 8 <= most:
        stage_tile(allocation.result, loop, "registers" if count == 1 else "scratch")


def _levels(loop: ForOp) -> list[ForOp]:
    return [*enclosing_loops(loop), loop]


def unscheduled(kernel: KernelOp) -> list[ForOp]:
    """The nests of a kernel that no schedule has marked."""
    return [nest for nest in child_loops(kernel) if not is_scheduled(nest)]


def is_scheduled(nest: ForOp) -> bool:
    """Whether a schedule has marked a loop of the nest."""
    return any(_is_marked(op) for op in nest.walk())


def _is_marked(op: Operation) -> bool:
    return isinstance(op, ForOp) and bool(op.parallel or op.vector or op.unroll)
