"""Two products with a softmax of the rows between them, as in attention: all of it for a block of
rows at a time, whose scores stay in the second cache.

    for h parallel:  for io:
        Q', S, P in scratch, rows next to each other
        for jo:  acc[8][32] in registers:  S[j, i] = sum over k of K[j, k] * Q'[k, i]
        for j:  for ii vector:  m[i] = max(m[i], S[j, i])
        for j:  for ii vector:  P[j, i] = exp(S[j, i] - m[i]);  l[i] += P[j, i]
        for j:  for ii vector:  P[j, i] = P[j, i] / l[i]
        for do:  for io:  acc[8][32] in registers:  O[i, d] = sum over j of P[j, i] * V[j, d]

The rows are the lanes of all vectors but those of the last product: nothing is added across lanes,
and neither K nor V is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from compiler.loop.nest import accesses_in, perfect_nest, subscripts, update_of
from compiler.loop.primitives import (
    distribute,
    fuse,
    hoist_allocation,
    pack,
    panels,
    reorder,
    split_at,
    stage,
    stage_partial,
    tile,
    unroll,
    vectorize,
)
from compiler.loop.primitives.staging import Staged
from compiler.loop.schedules.gemm.blocked_summation import block_of, cut_long_sum
from compiler.loop.schedules.gemm.pack_panels import fill_panels
from compiler.loop.schedules.gemm.packed_buffers import write_out_terms
from compiler.loop.schedules.gemm.tile_params import LONGEST_SUM
from compiler.loop.schedules.innermost_loops import (
    lanes_for,
    lanes_of,
    parallelize_outermost,
    stride,
    vectorize_leaves,
)
from compiler.loop.schedules.simplify import drop_stored_only
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, Operand, atom_expr
from dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.program import KernelOp
from dialects.loop.scalar import width
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type

NAME = "attention"

VECTORS = 2
"""Vectors of a block's rows, and of the columns that the last product computes together."""

ROWS = 8
"""The most rows of a register tile, as far as there are registers for so many."""

ENOUGH_ROWS = 64
"""Rows of a head that pay for a copy of what all of them are multiplied with."""

LARGEST_SCRATCH = 128 * 1024
"""Bytes of a block of scores, of which a thread has up to three on its stack."""


@dataclass(frozen=True)
class Product:
    """A nest `T += X * Y`: its outer loops, and the loads of both factors."""

    outer: list[ForOp]
    factors: tuple[LoadOp, LoadOp]
    store: StoreOp


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules the kernel if it is an attention as a whole."""
    nests = [op for op in kernel.body.block.ops if isinstance(op, ForOp)]
    products = [product for nest in nests if (product := _product(nest)) is not None]
    if len(products) != 2 or not _reaches(products[0], products[1]):
        return
    depth = len(products[0].outer) - 1
    shared = [perfect_nest(nest) for nest in nests]
    outer = products[0].outer[:depth]
    alike = all([a.extent for a in nest[:depth]] == [b.extent for b in outer] for nest in shared)
    rows = _rows_of_block(products[0], target)
    if depth < 1 or not alike or rows is None:
        return
    copied = _copied(products[1], depth, target)
    apply([nest[:depth] for nest in shared], rows, copied, target)
    yield NAME


def _product(loop: ForOp) -> Product | None:
    """The nest as a sum of products over its innermost loop, if it is one."""
    nest = perfect_nest(loop)
    outer = [level for level in nest if level.reduction is None]
    stores = [op for op in nest[-1].body.block.ops if isinstance(op, StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    if len(nest) != len(outer) + 1 or nest[-1].reduction is None or update is None:
        return None
    multiply = update.contribution.owner
    if update.kind != "add" or not isinstance(multiply, arith.MulfOp):
        return None
    x, y = (operand.owner for operand in multiply.operands)
    if not isinstance(x, LoadOp) or not isinstance(y, LoadOp):
        return None
    return Product(outer, (x, y), update.store)


def _reaches(first: Product, second: Product) -> bool:
    """Whether the first makes temporaries that the second reads, along rows that both have."""
    temporaries = [load.buffer for load in second.factors if _is_temporary(load.buffer)]
    return _is_temporary(first.store.buffer) and len(temporaries) == 1


def _copied(result: Product, depth: int, target: Target) -> list[SSAValue]:
    """The operand of the last product that all rows of a head read, where it is better copied into
    panels first: its sum is long, and blocks of rows read it often enough.
    """
    heads, rows = result.outer[: depth - 1], result.outer[depth - 1]
    terms = next(loop for loop in enclosing_loops(result.store) if loop.reduction is not None)
    if not any(loop.extent != 1 for loop in heads) or not _goes_in_blocks(terms, target):
        return []
    if (rows.extent.constant or 0) < ENOUGH_ROWS:
        return []
    column = atom_expr(result.outer[-1].index)
    loads = [load for load in result.factors if not _is_temporary(load.buffer)]
    return [
        load.buffer
        for load in loads
        if subscripts(load)[-1] == column and load.buffer.uses.get_length() == 1
    ]


def _goes_in_blocks(terms: ForOp, target: Target) -> bool:
    """Whether a sum goes through all tiles of a block of rows a few terms at a time: it is long,
    and tiles have so few registers that each term is read for many of them.
    """
    return (terms.extent.constant or 0) > LONGEST_SUM and _tile_height(target) < ROWS


def _is_temporary(buffer: SSAValue) -> bool:
    return isinstance(buffer.owner, AllocOp)


def _rows_of_block(scores: Product, target: Target) -> int | None:
    """How many rows have room for their scores; None where that is no vector of them."""
    rows, length = (loop.extent.constant for loop in scores.outer[-2:])
    lanes = lanes_of([scores.outer[0]], target)
    if lanes == 1 or rows == 1:
        return None
    bytes = (length or 1) * width(scores.store.buffer_type.element) // 8
    for count in range(VECTORS, 0, -1):
        if count * lanes * bytes <= LARGEST_SCRATCH:
            return min(count * lanes, rows or count * lanes)
    return None


def apply(
    nests: Sequence[list[ForOp]], rows: int, copied: Sequence[SSAValue], target: Target
) -> None:
    """Fuses the nests down to the rows, and schedules whole blocks of rows and what is left."""
    shared = list(nests[0])
    for nest in nests[1:]:
        for level, loop in enumerate(nest):
            shared[level] = fuse(shared[level], loop)
    temporaries = [
        buffer
        for buffer in dict.fromkeys(access.buffer for access in accesses_in(shared[0]))
        if _is_temporary(buffer)
    ]
    blocks = [tile(part, size)[:2] for part, size in _row_parts(shared[-1], rows)]
    for block, inner in blocks:
        _schedule_block(block, inner, temporaries, target)
    for buffer in temporaries:
        if buffer.uses.get_length():
            drop_stored_only(buffer)
    for buffer in copied:
        _copy_panels(buffer, shared[-2], target)
    for top in shared[:1] if len(shared) > 1 else [block for block, _ in blocks]:
        _hoist_workspace(top)
        parallelize_outermost(top)


def _hoist_workspace(top: ForOp) -> None:
    """Brings the allocations in the workspace out of a nest; iterations of the loops around a block
    share its room.
    """
    for allocation in [op for op in top.walk() if isinstance(op, AllocOp)]:
        if allocation.scope.data == "workspace":
            alone = enclosing_loops(allocation) == [top]
            block = hoist_allocation(allocation, how="apart" if alone else "together")
            while isinstance(block.parent_op(), ForOp):
                block = hoist_allocation(block)


def _copy_panels(operand: SSAValue, head: ForOp, target: Target) -> None:
    """Copies what all blocks of a head multiply with into panels of a tile's columns."""
    staged = stage(operand, head, "workspace")
    kind = buffer_type(staged.buffer)
    width = VECTORS * target.lanes(4)
    pack(staged.buffer, panels(kind, kind.rank - 1, width))
    fill_panels(staged.load_in, kind.rank - 1, width, target.lanes(4))


def _row_parts(rows: ForOp, size: int) -> list[tuple[ForOp, int]]:
    """Whole blocks of rows, and what is left: of a number that only a call knows, in blocks that
    are shorter.
    """
    if rows.extent.constant is not None:
        return _parts(rows, size)
    parts: list[tuple[ForOp, int]] = []
    for length in (size, ROWS):
        whole, rows = split_at(rows, rows.extent // length * length)
        parts.append((whole, length))
    return [*parts, (rows, 1)]


def _tile_height(target: Target) -> int:
    """Rows of a tile whose sums stay in registers, beside a row of vectors and factors."""
    return max(1, min(ROWS, (target.vector_registers - target.factor_registers) // VECTORS - 1))


def _even_parts(loop: ForOp, most: int) -> list[tuple[ForOp, int]]:
    """The loop as tiles of `most` iterations, or of about one size: a short one keeps no unit
    busy.
    """
    extent = loop.extent.constant
    if extent is None or extent % most == 0:
        return _parts(loop, most)
    tiles = -(-extent // most)
    size, larger = extent // tiles, extent % tiles
    if larger == 0:
        return [(loop, size)]
    first, rest = split_at(loop, (size + 1) * larger)
    return [(first, size + 1), (rest, size)]


def _parts(loop: ForOp, size: int) -> list[tuple[ForOp, int]]:
    """The loop as whole tiles, and as one that is shorter, or as single iterations."""
    extent = loop.extent.constant
    if extent is not None and extent <= size:
        return [(loop, extent)]
    whole, left = loop.extent // size * size, (loop.extent % size).constant
    if left == 0:
        return [(loop, size)]
    main, rest = split_at(loop, whole)
    return [(main, size), (rest, left or 1)]


def _schedule_block(
    block: ForOp, rows: ForOp, temporaries: Sequence[SSAValue], target: Target
) -> None:
    """Schedules what one block of rows computes: a nest over the rows for each statement."""
    nests = _distribute(rows)
    products = [product for nest in nests if (product := _product(nest)) is not None]
    scores, result = (_with_start(nests, product) for product in products)
    nests = [nest for nest in nests if nest.parent is not None]
    operands = [load.buffer for load in products[0].factors]
    _stage_rows(nests, block, temporaries, operands, target)
    _vectorize_rows([nest for nest in nests if nest not in (scores, result)], target)
    _schedule_scores(scores, target)
    _schedule_result(result, target)


def _distribute(rows: ForOp) -> list[ForOp]:
    """A loop over the rows for each inner loop, and for what stands between them."""
    nests = [rows]
    while True:
        ops = list(nests[-1].body.block.ops)
        loops = [n for n, op in enumerate(ops) if isinstance(op, ForOp)]
        if not loops or len(ops) == 1:
            return nests
        nests.append(distribute(nests[-1], ops[loops[0] or 1]))


def _stage_rows(
    nests: Sequence[ForOp],
    block: ForOp,
    temporaries: Sequence[SSAValue],
    operands: Sequence[SSAValue],
    target: Target,
) -> None:
    """Gives the block copies of its own of its temporaries and of the operand that has its rows,
    rows next to each other.
    """
    for buffer in (*temporaries, *operands):
        axis = _row_axis(nests, buffer)
        if axis is None:
            continue
        others = [dim for dim in buffer_type(buffer).shape[axis + 1 :] if dim != 1]
        known = all(dim.constant is not None for dim in others)
        scope = ("scratch" if known else "workspace") if others else "registers"
        staged = stage(buffer, block, scope)
        _rows_last(staged, axis, target)


def _rows_last(staged: Staged, axis: int, target: Target) -> None:
    """Lays the rows of a copy next to each other; what is copied in is turned in registers."""
    kind = buffer_type(staged.buffer)
    pack(staged.buffer, _last(kind, axis))
    rows = kind.shape[axis].constant
    if staged.load_in and (rows is None or rows == 1):
        vectorize_leaves(staged.load_in[0], target)
    elif staged.load_in and rows is not None:
        lanes = min(lanes_of(staged.load_in[:1], target), 1 << (rows - 1).bit_length())
        fill_panels(staged.load_in, axis, rows, lanes)


def _row_axis(nests: Sequence[ForOp], buffer: SSAValue) -> int | None:
    """The dim of a buffer that the rows count through, if they do so everywhere."""
    axes = {
        axis
        for nest in nests
        for access in accesses_in(nest)
        if access.buffer is buffer
        for axis in _axes_of(access, nest)
    }
    return axes.pop() if len(axes) == 1 else None


def _axes_of(access: AccessOp, loop: ForOp) -> list[int]:
    """The dims of its buffer in which a loop moves an access."""
    exprs = enumerate(subscripts(access))
    return [axis for axis, expr in exprs if loop.index in set(expr.atoms())]


def _last(kind: BufferType, axis: int) -> LayoutAttr:
    """The row-major layout with one dim moved to the end."""
    order = [dim for dim in range(kind.rank) if dim != axis] + [axis]
    index = tuple(Expr.of(Operand(dim)) for dim in order)
    return LayoutAttr(ExprsAttr(index), ExprsAttr(tuple(kind.shape[dim] for dim in order)))


def _with_start(nests: Sequence[ForOp], product: Product) -> ForOp:
    """The nest of a product, fused with the one before it that sets its sums to zero."""
    position = next(n for n, nest in enumerate(nests) if nest is product.outer[0])
    start = perfect_nest(nests[position - 1])
    writes = [access.buffer for access in accesses_in(start[0])]
    if position == 0 or writes != [product.store.buffer] or len(start) != len(product.outer):
        raise IllegalSchedule("attention requires sums that are set to zero before the product")
    for first, second in zip(start, product.outer, strict=True):
        fuse(first, second)
    return start[0]


def _vectorize_rows(nests: list[ForOp], target: Target) -> None:
    """Runs the statements on scores with the rows as lanes, those that can in one pass."""
    passes: list[ForOp] = []
    for nest in nests:
        inner = perfect_nest(nest)[1:]
        if inner:
            reorder(*inner, nest)
            joined = _joined(passes[-1] if passes else None, inner[0])
            passes += [joined] if joined is inner[0] else []
    for nest in nests:
        if nest.parent is not None and nest.extent != 1:
            unroll(vectorize(nest, lanes_for(nest, target)))
    for loop in passes:
        _bring_near(loop, target)


def _bring_near(loop: ForOp, target: Target) -> None:
    """Copies what rows load far apart, such as a mask, with the rows next to each other, for some
    columns at a time.
    """
    far = {
        access.buffer: _axes_of(access, enclosing_loops(access)[-1])
        for access in accesses_in(loop)
        if isinstance(access, LoadOp) and stride(access, enclosing_loops(access)[-1]) not in (0, 1)
    }
    columns = min(4 * target.lanes(4), loop.extent.constant or 1)
    if far and columns > 1:
        tiles = tile(loop, columns)
        for buffer, axes in far.items():
            staged = stage(buffer, tiles.outer, "scratch")
            if len(axes) == 1:
                _rows_last(staged, axes[0], target)
            else:
                vectorize_leaves(staged.load_in[0], target)


def _joined(first: ForOp | None, second: ForOp) -> ForOp:
    """Both loops over scores as one where that is legal, else the second."""
    if first is None or first.extent != second.extent:
        return second
    try:
        fuse(first, second)
    except IllegalSchedule:
        return second
    rows = [op for op in first.body.block.ops if isinstance(op, ForOp)]
    if len(rows) == 2 and rows[0].extent == rows[1].extent:
        with suppress(IllegalSchedule):
            fuse(*rows)
    return first


def _schedule_scores(rows: ForOp, target: Target) -> None:
    """Tiles of a few columns of the scores, all rows of the block in vectors."""
    _, columns = perfect_nest(rows)[:2]
    reorder(columns, rows)
    for part, size in _even_parts(columns, _tile_height(target)):
        tiles = tile(part, size)
        inner = perfect_nest(tiles.inner)
        _accumulate(tiles.outer, inner[:2], target)


def _schedule_result(rows: ForOp, target: Target) -> None:
    """Tiles of a few rows and vectors of columns; of a long sum a few terms at a time, which stay
    in the first cache for all of them.
    """
    columns = perfect_nest(rows)[1]
    terms = next(op for op in columns.body.block.ops if isinstance(op, ForOp))
    if _goes_in_blocks(terms, target):
        second = distribute(columns, terms)
        first = distribute(rows, second)
        vectorize_leaves(rows, target)
        block = block_of(terms, LONGEST_SUM)
        _, columns, *_ = reorder(block, second, first, perfect_nest(block)[1])
    else:
        reorder(columns, rows)
    for stretch, length in _parts(columns, VECTORS * target.lanes(4)):
        inner = tile(stretch, length).inner
        row = perfect_nest(inner)[1]
        reorder(row, inner)
        for part, size in _even_parts(row, _tile_height(target)):
            tiles = tile(part, size)
            _accumulate(tiles.outer, perfect_nest(tiles.inner)[:2], target)


def _accumulate(tile: ForOp, inner: list[ForOp], target: Target) -> None:
    """Keeps the sums of a tile in registers: start, product and the way back are written out."""
    product = inner
    terms = next(op for op in inner[-1].body.block.ops if isinstance(op, ForOp))
    starts = terms.prev_op is not None
    if starts:
        second = distribute(inner[1], terms)
        product = [distribute(inner[0], second), second]
    result = next(access for access in accesses_in(terms) if isinstance(access, StoreOp)).buffer
    reorder(terms, *product)
    staged = stage(result, tile) if starts else stage_partial(result, tile)
    columns = next(
        axis
        for access in accesses_in(terms)
        if access.buffer is staged.buffer
        for axis, expr in enumerate(subscripts(access))
        if product[1].index in set(expr.atoms())
    )
    sums = pack(staged.buffer, _last(buffer_type(staged.buffer), columns))
    partial = cut_long_sum([terms], sums, LONGEST_SUM) if starts else [staged.load_in]
    nests = [inner, product] if starts else [product]
    for nest in (*nests, list(staged.write_back), *map(list, partial)):
        _mark(nest, target)
    if _tile_height(target) < ROWS:
        write_out_terms(tile)


def _mark(nest: Sequence[ForOp], target: Target) -> None:
    """Writes the loops of a tile out, the one over neighbouring elements in vectors."""
    along = [
        loop for loop in nest if all(stride(access, loop) in (0, 1) for access in _local(loop))
    ]
    rest = [loop for loop in nest if loop not in along[-1:]]
    if len(nest) > 1:
        reorder(*rest, *along[-1:])
    for loop in along[-1:]:
        vectorize(loop, lanes_for(loop, target))
    for loop in nest:
        unroll(loop)


def _local(loop: ForOp) -> list[AccessOp]:
    """The accesses inside a loop to what lies in registers."""
    return [access for access in accesses_in(loop) if _is_register(access.buffer)]


def _is_register(buffer: SSAValue) -> bool:
    return isinstance(buffer.owner, AllocOp) and buffer.owner.scope.data == "registers"
