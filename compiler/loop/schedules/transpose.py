"""Transpositions: independent iterations that load along one loop and store along another. Both are
tiled, so that every line that is loaded is used whole.

    for lo parallel:  for so:
        t[64][64] in scratch, transposed
        for li, si by blocks in registers:  t[si, li] = x[so, lo]
        for li:  for si vector:  y[lo, so] = f(t[si, li])

What is only copied is transposed in registers, block by block; a result that no cache holds is
stored non-temporally, in small tiles, so that the lines of one page are written together.

    for so parallel:  for lo:  for sb < 2:  for lb < 2:
        for li < 16 unroll:  for si < 16 vector unroll:  y[lo, so] = x[so, lo]

Where a vector is half of a line, both halves of a few lines:

    for so parallel:  for lo:  for sl < 2:  for lb < 4:
        for sv < 2 unroll:  for li < 4 unroll:  for si < 8 vector unroll:  y[lo, so] = x[so, lo]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.loop.nest import loads_in, perfect_nest, stores_in, subscripts
from weft.compiler.loop.primitives import (
    nontemporal,
    reorder,
    split_at,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules import pointwise
from weft.compiler.loop.schedules.innermost_loops import (
    collapse_contiguous,
    copied_by,
    is_streaming_store,
    lanes_for,
    lanes_of,
    main_and_remainder,
    transpose_blocks,
    unscheduled,
    vectorize_innermost,
)
from weft.compiler.loop.schedules.interleave import interleave
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.strides import is_strided, stride
from weft.compiler.target.target import LINE, PAGE, Target
from weft.dialects.expr import Expr, Operand
from weft.dialects.loop.ops import ForOp, LoadOp, StoreOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import ExprsAttr, LayoutAttr, buffer_type_of

NAME = "transpose"

RUN_BYTES = 256
"""Bytes of a tile along either loop: whole lines of the cache, and few enough of them."""

LONGEST_UNROLL = 16
"""Elements of a row that are copied without a loop."""

SHORTEST_RUN = 4
"""Elements along either loop of a copy that are worth a tile of their own behind whole vectors."""

LINES = 2
"""Lines of a tile along non-temporal stores, and along loads where a vector is a line. With fewer,
pages are written in pieces too small to be fast; with more, they are read so.
"""

RUN_BITS = 128
"""Bits loaded at once from each row of such a tile: a vector holds the runs of several rows."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every nest without marks that transposes what it loads."""
    for loop in unscheduled(kernel):
        if not pointwise.matches(loop):
            continue
        # Of what is computed with, tiles are staged, and a tile of loops that are one is no box.
        if copied_by(perfect_nest(loop)[-1]) is not None:
            loop = collapse_contiguous(loop)
        if apply(perfect_nest(loop), target):
            yield NAME


def _across(nest: list[ForOp]) -> tuple[ForOp, ForOp, list[LoadOp]] | None:
    """The loop along which stores are contiguous, the one along which strided loads are, and these
    loads.
    """
    stores = stores_in(nest[-1])
    along = [loop for loop in nest if all(stride(store, loop) == 1 for store in stores)]
    if len(along) != 1 or not stores:
        return None
    for loop in [loop for loop in nest if loop is not along[0]]:
        loads = [
            load
            for load in loads_in(nest[-1])
            if stride(load, loop) == 1 and is_strided(load, along[0])
        ]
        if loads:
            return along[0], loop, loads
    return None


def apply(nest: list[ForOp], target: Target) -> bool:
    """Tiles both loops, with remainders; false where vectors do not fit either."""
    found = _across(nest)
    if found is None:
        return False
    if tops := interleave(nest, lanes_of(nest[-1:], target)):
        for top in tops:
            parallelize_outermost(top)
        return True
    stores, loads, across = found
    lanes, copy = lanes_for(stores, target), copied_by(nest[-1])
    # Blocks that are transposed in registers pay where half of each vector is filled.
    least = lanes if copy is None else lanes // 2
    if lanes == 1 or any((loop.extent.constant or lanes) < least for loop in (stores, loads)):
        return False
    others = [loop for loop in nest if loop not in (stores, loads)]
    reorder(*others, loads, stores)
    # A result that no cache will hold is stored non-temporally: then whole lines have to be written
    # at once, which decides the form of the tiles.
    buffers = list(dict.fromkeys(load.buffer for load in across))
    streaming = copy is not None and is_streaming_store(copy, target)
    if copy is not None and streaming:
        nontemporal(copy)
    if copy is not None and streaming and target.vector_bytes < LINE:
        tops = _transpose_lines(loads, copy, lanes)
    else:
        tops = _tiles(loads, copy, buffers, target, streaming=streaming)
    for top in others[:1] or tops:
        parallelize_outermost(top)
    return True


def _tiles(
    loads: ForOp, copy: StoreOp | None, buffers: list[SSAValue], target: Target, *, streaming: bool
) -> list[ForOp]:
    """Tiles the loop along loads and the one in it along stores; returns the outermost loops."""
    bits = max(_bits(buffer) for buffer in buffers)
    longest = LINES * LINE * 8 // bits if streaming else RUN_BYTES * 8 // max(32, bits)
    lanes = lanes_for(perfect_nest(loads)[1], target)
    # What does not fill a vector is stored in pieces where there are no masks, or non-temporally,
    # and copied in pieces where more than a copy is done.
    fill = lanes if copy is None or streaming or not target.has_masks else 1
    along_loads = streaming or (fill > 1 and copy is not None and not _conflicts_in_l1(copy, loads))
    shorter = (lanes,) if copy is None else (lanes, SHORTEST_RUN)
    parts = partial(_parts, shorter=shorter, is_inner=isinstance(loads.parent_op(), ForOp))
    tops: list[ForOp] = []
    for loop, size in parts(loads, longest, fill):
        inner, _ = reorder(perfect_nest(loop)[1], loop)
        for part, length in parts(inner, longest, fill):
            pair = perfect_nest(part)
            if copy is not None and length is not None and size is not None:
                tops.append(_transpose(pair, (length, size), lanes, along_loads=along_loads))
            else:
                tops.append(_tile(pair, (length, size), buffers, target, copies=copy is not None))
    return tops


def _bits(buffer: SSAValue) -> int:
    return width(buffer_type_of(buffer).element)


def _conflicts_in_l1(store: StoreOp, loop: ForOp) -> bool:
    """Whether the lines that a loop stores to fall in few sets of L1."""
    step = stride(store, loop)
    elements = (step.constant or 0) if step is not None else 0
    return elements * width(store.buffer_type.element) // 8 % PAGE == 0


def _parts(
    loop: ForOp, longest: int, fill: int, *, shorter: Sequence[int], is_inner: bool
) -> list[tuple[ForOp, int | None]]:
    """The loop in parts, each with the tiles that it consists of, if possible of a multiple of
    `fill`. A loop of unknown extent leaves tiles of ever `shorter` sizes, and less than these:
    None; inside of other loops, whose every iteration asks for each part, it has no longer ones.
    """
    extent = loop.extent.constant
    if extent is None and is_inner:
        longest = shorter[0]
    elif extent is not None and extent <= longest:
        return [(loop, extent)]
    sizes = range(longest, longest // 2, -fill)
    size = next((size for size in sizes if extent and extent % size == 0), longest)
    whole = loop.extent // size * size
    if whole == loop.extent:
        return [(loop, size)]
    main, rest = split_at(loop, whole)
    if extent is not None:
        return [(main, size), (rest, rest.extent.constant)]
    parts: list[tuple[ForOp, int | None]] = [(main, size)]
    for each in [each for each in shorter if each < size]:
        some, rest = split_at(rest, rest.extent // each * each)
        parts.append((some, each))
    return [*parts, (rest, None)]


def _tile(
    nest: list[ForOp],
    sizes: tuple[int | None, int | None],
    buffers: list[SSAValue],
    target: Target,
    *,
    copies: bool,
) -> ForOp:
    """Tiles one part, the loop along which it stores outside, through a copy of what it loads;
    returns its outermost loop. A part of unknown size takes an element at a time where it only
    copies, for a gathered vector takes longer than its elements.
    """
    stores, loads = nest
    if sizes[0] is None or sizes[1] is None:
        if copies and (loads.extent.constant or LONGEST_UNROLL + 1) <= LONGEST_UNROLL:
            unroll(loads)
            return stores
        reorder(loads, stores)
        if not copies:
            vectorize(stores, lanes_for(stores, target))
        return loads
    so, si, _ = tile(stores, sizes[0])
    lo, li, _ = tile(loads, sizes[1])
    reorder(lo, so, li, si)
    for buffer in buffers:
        _stage(buffer, (so, si, li), target)
    vectorize(si, lanes_for(si, target))
    return lo


def _stage(buffer: SSAValue, loops: tuple[ForOp, ForOp, ForOp], target: Target) -> None:
    """Gives a tile a copy of what it loads across, transposed in registers where each of its two
    loops is along one dim: then vectors are loaded from it. What the tile loads of the same buffer
    along its vectors stays.
    """
    so, si, li = loops
    loads = [load for load in loads_in(so) if load.buffer is buffer]
    across = [load for load in loads if stride(load, li) == 1 and is_strided(load, si)]
    only = across[0] if len(across) < len(loads) else None
    layout = _transposed_layout(across[0], si, li)
    staged = stage_tile(buffer, so, "scratch", layout=layout, load=only)
    if layout is None:
        vectorize_innermost(staged.load_in[0], target)
    else:
        _transpose_parts(staged.load_in[0], lanes_for(staged.load_in[0], target), along_loads=False)


def _transposed_layout(load: LoadOp, stores: ForOp, loads: ForOp) -> LayoutAttr | None:
    """The layout of a tile that is contiguous along the loop of stores; none where the loops are no
    two dims of it, the one of loads the last.
    """
    index, rank = subscripts(load), load.buffer_type.rank
    dims = [
        [dim for dim, expr in enumerate(index) if loop.index in set(expr.atoms())]
        for loop in (stores, loads)
    ]
    extents = [loop.extent.constant or 1 for loop in (stores, loads)]
    fits = [len(each) for each in dims] == [1, 1] and dims[1] == [rank - 1] and min(extents) > 1
    if not fits or index[dims[0][0]].coefficient(stores.index) != 1:
        return None
    order = [dim for dim in range(rank) if dim not in dims[0]] + dims[0]
    storage = [1] * (rank - 2) + extents[::-1]
    return LayoutAttr(
        ExprsAttr(tuple(Expr.atom(Operand(dim)) for dim in order)),
        ExprsAttr(tuple(map(Expr.of, storage))),
    )


def _transpose(
    nest: list[ForOp], sizes: tuple[int, int], lanes: int, *, along_loads: bool
) -> ForOp:
    """Tiles one part, the loop along which it stores outermost, and the tiles into blocks that are
    transposed in registers, in the order of loads or in that of stores; returns its outermost loop.
    """
    stores, loads = nest
    so, si, _ = tile(stores, sizes[0])
    lo, li, _ = tile(loads, sizes[1])
    reorder(so, lo, si, li)
    _transpose_parts(si, lanes, along_loads=along_loads)
    return so


def _transpose_parts(stores: ForOp, lanes: int, *, along_loads: bool) -> None:
    """Transposes a loop along stores and the one in it along loads in registers, by blocks."""
    for part in main_and_remainder(stores, lanes):
        inner, _ = reorder(perfect_nest(part)[1], part)
        for each in main_and_remainder(inner, lanes):
            transpose_blocks(perfect_nest(each), lanes, along_loads=along_loads)


def _transpose_lines(loads: ForOp, copy: StoreOp, lanes: int) -> list[ForOp]:
    """Tiles a non-temporal copy into whole lines, where a vector is a part of one: the parts of a
    line are stored one after another, so that it goes to memory once, and few lines are loaded and
    stored at a time. Returns the outermost loops.
    """
    bits = width(copy.buffer_type.element)
    line = LINE * 8 // bits
    tops: list[ForOp] = []
    for some in main_and_remainder(loads, line):
        inner, _ = reorder(perfect_nest(some)[1], some)
        for part in main_and_remainder(inner, LINES * line):
            pair = perfect_nest(part)
            length, size = (loop.extent.constant or 0 for loop in pair)
            if length < LINES * line or size < line:
                tops.append(_transpose(pair, (length, size), lanes, along_loads=False))
            else:
                tops.append(_transpose_whole_lines(pair, line, lanes, min(lanes, RUN_BITS // bits)))
    return tops


def _transpose_whole_lines(nest: list[ForOp], line: int, lanes: int, columns: int) -> ForOp:
    """Tiles a part that whole lines fill, into blocks of a line by a few columns; returns its
    outermost loop.
    """
    stores, loads = nest
    so, si, _ = tile(stores, LINES * line)
    lo, li, _ = tile(loads, line)
    sio, sii, _ = tile(si, line)
    lio, lii, _ = tile(li, columns)
    siio, siii, _ = tile(sii, lanes)
    reorder(so, lo, sio, lio, siio, lii, siii)
    unroll(vectorize(siii, lanes))
    unroll(lii)
    unroll(siio)
    return so
