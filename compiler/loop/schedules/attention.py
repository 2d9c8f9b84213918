"""Attention, two products with a softmax of the rows between them: all of it for a block of rows at
a time, whose scores stay in L2.

    for h parallel:  for io:
        Q', S, P in scratch, rows contiguous
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

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.loop.matchers import Product, split_nest, sum_of_products
from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    child_loops,
    indexed_dims,
    loads_in,
    perfect_nest,
    subscripts,
)
from weft.compiler.loop.primitives import (
    dim_innermost,
    distribute,
    hoist_allocation,
    pack,
    panels,
    reorder,
    split_at,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.primitives.staging import Staged
from weft.compiler.loop.schedules.attention_masks import skip_masked
from weft.compiler.loop.schedules.attention_products import (
    ROWS,
    VECTORS,
    parts,
    schedule_result,
    schedule_scores,
    splits_k,
)
from weft.compiler.loop.schedules.fuse_nests import fuse_nests, try_fuse
from weft.compiler.loop.schedules.gemm.pack_panels import fill_panels
from weft.compiler.loop.schedules.innermost_loops import (
    lanes_for,
    lanes_of,
    vectorize_innermost,
)
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.schedules.simplify import drop_stored_only
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp, ForOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import buffer_type_of

NAME = "attention"

ENOUGH_ROWS = 64
"""Rows of a head that pay for packing what all of them are multiplied with."""

LARGEST_SCRATCH = 128 * 1024
"""Bytes of a block of scores, of which a thread has up to three on its stack."""


class MatrixProduct(Struct, frozen=True):
    """A nest `T += X * Y`: its outer loops, the one over K, and its operations."""

    outer: list[ForOp]
    k_loop: ForOp
    ops: Product


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules the kernel if it is an attention as a whole."""
    nests = child_loops(kernel)
    products = [product for nest in nests if (product := _product(nest)) is not None]
    if len(products) != 2 or not _feeds(products[0], products[1]):
        return
    depth = len(products[0].outer) - 1
    shared = [perfect_nest(nest) for nest in nests]
    outer = products[0].outer[:depth]
    alike = all([a.extent for a in nest[:depth]] == [b.extent for b in outer] for nest in shared)
    rows = _rows_of_block(products[0], target)
    if depth < 1 or not alike or rows is None:
        return
    packed = _operands_to_pack(products[1], depth, target)
    apply([nest[:depth] for nest in shared], rows, packed, target)
    yield NAME


def _product(loop: ForOp) -> MatrixProduct | None:
    """The nest as a product over its innermost loop, if it is one of unconverted floats."""
    nest = perfect_nest(loop)
    split, ops = split_nest(nest), sum_of_products(nest[-1])
    if split is None or ops is None or len(split.reductions) != 1:
        return None
    return MatrixProduct(split.outer, nest[-1], ops) if ops.is_unconverted_float else None


def _feeds(first: MatrixProduct, second: MatrixProduct) -> bool:
    """Whether the first stores a temporary, and one factor of the second is a temporary."""
    temporaries = [load.buffer for load in second.ops[:2] if _is_temporary(load.buffer)]
    return _is_temporary(first.ops.store.buffer) and len(temporaries) == 1


def _operands_to_pack(result: MatrixProduct, depth: int, target: Target) -> list[SSAValue]:
    """The operand of the last product that all rows of a head read, where it is better packed into
    panels first: K is long, and blocks of rows read the operand often enough.
    """
    heads, rows = result.outer[: depth - 1], result.outer[depth - 1]
    if not any(loop.extent != 1 for loop in heads) or not splits_k(result.k_loop, target):
        return []
    if (rows.extent.constant or 0) < ENOUGH_ROWS:
        return []
    column = Expr.atom(result.outer[-1].index)
    loads = [load for load in result.ops[:2] if not _is_temporary(load.buffer)]
    return [
        load.buffer
        for load in loads
        if subscripts(load)[-1] == column and load.buffer.uses.get_length() == 1
    ]


def _is_temporary(buffer: SSAValue) -> bool:
    return isinstance(buffer.owner, AllocOp)


def _rows_of_block(scores: MatrixProduct, target: Target) -> int | None:
    """How many rows have room for their scores; None where that is no vector of them."""
    rows, length = (loop.extent.constant for loop in scores.outer[-2:])
    lanes = lanes_of([scores.outer[0]], target)
    if lanes == 1 or rows == 1:
        return None
    bytes = (length or 1) * width(scores.ops.store.buffer_type.element) // 8
    for count in range(VECTORS, 0, -1):
        if count * lanes * bytes <= LARGEST_SCRATCH:
            return min(count * lanes, rows or count * lanes)
    return None


def apply(
    nests: Sequence[list[ForOp]], rows: int, packed: Sequence[SSAValue], target: Target
) -> None:
    """Fuses the nests down to the rows, and schedules whole blocks of rows and the remainder."""
    shared = fuse_nests(nests)
    temporaries = [
        buffer
        for buffer in dict.fromkeys(access.buffer for access in accesses_in(shared[0]))
        if _is_temporary(buffer)
    ]
    for buffer in packed:  # before loops over it end where only a block knows
        _pack_panels(buffer, shared[-2], target)
    blocks = [tile(part, size)[:2] for part, size in _row_parts(shared[-1], rows)]
    for block, inner in blocks:
        _schedule_block(block, inner, temporaries, target)
    for buffer in temporaries:
        if buffer.uses.get_length():
            drop_stored_only(buffer)
    for top in shared[:1] if len(shared) > 1 else [block for block, _ in blocks]:
        _hoist_workspace(top)
        parallelize_outermost(top)


def _hoist_workspace(top: ForOp) -> None:
    """Hoists the allocations in the workspace out of a nest; iterations of the loops around a block
    share them.
    """
    for allocation in [op for op in top.walk() if isinstance(op, AllocOp)]:
        if allocation.scope.data == "workspace":
            alone = enclosing_loops(allocation) == [top]
            block = hoist_allocation(allocation, per_iteration=alone)
            while isinstance(block.parent_op(), ForOp):
                block = hoist_allocation(block, per_iteration=True)


def _pack_panels(operand: SSAValue, head: ForOp, target: Target) -> None:
    """Packs what all blocks of a head multiply with into panels of a tile's width."""
    staged = stage_tile(operand, head, "workspace")
    buffer_type = buffer_type_of(staged.buffer)
    width = VECTORS * target.lanes(4)
    pack(staged.buffer, panels(buffer_type, buffer_type.rank - 1, width))
    fill_panels(staged.load_in, buffer_type.rank - 1, width, target.lanes(4))


def _row_parts(rows: ForOp, size: int) -> list[tuple[ForOp, int]]:
    """Blocks of rows, and the remainder: that of a dynamic number of rows in shorter blocks."""
    if rows.extent.constant is not None:
        return parts(rows, size)
    found: list[tuple[ForOp, int]] = []
    for length in (size, ROWS):
        whole, rows = split_at(rows, rows.extent // length * length)
        found.append((whole, length))
    return [*found, (rows, 1)]


def _schedule_block(
    block: ForOp, rows: ForOp, temporaries: Sequence[SSAValue], target: Target
) -> None:
    """Schedules what one block of rows computes: a nest over the rows for each statement."""
    nests = _distribute(rows)
    products = [product for nest in nests if (product := _product(nest)) is not None]
    scores, result = (_with_initialisation(nests, product) for product in products)
    nests = [nest for nest in nests if nest.parent is not None]
    operands = [load.buffer for load in products[0].ops[:2]]
    _stage_rows(nests, block, temporaries, operands, target)
    rest = [nest for nest in nests if nest not in (scores, result)]
    skip_masked(scores, rest, result, target)
    _vectorize_rows(rest, target)
    schedule_scores(scores, target)
    schedule_result(result, target)


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
    """Gives the block copies of its own of its temporaries and of the operand that has its rows, in
    which rows are contiguous.
    """
    for buffer in (*temporaries, *operands):
        axis = _row_axis(nests, buffer)
        if axis is None:
            continue
        others = [dim for dim in buffer_type_of(buffer).shape[axis + 1 :] if dim != 1]
        all_constant = all(dim.constant is not None for dim in others)
        scope = ("scratch" if all_constant else "workspace") if others else "registers"
        staged = stage_tile(buffer, block, scope)
        _rows_innermost(staged, axis, target)


def _rows_innermost(staged: Staged, axis: int, target: Target) -> None:
    """Makes the rows of a copy contiguous; what is copied in is transposed in registers."""
    buffer_type = buffer_type_of(staged.buffer)
    pack(staged.buffer, dim_innermost(buffer_type, axis))
    rows = buffer_type.shape[axis].constant
    if staged.load_in and (rows is None or rows == 1):
        vectorize_innermost(staged.load_in[0], target)
    elif staged.load_in and rows is not None:
        lanes = min(lanes_of(staged.load_in[:1], target), 1 << (rows - 1).bit_length())
        fill_panels(staged.load_in, axis, rows, lanes)


def _row_axis(nests: Sequence[ForOp], buffer: SSAValue) -> int | None:
    """The dim of a buffer that the rows index, if it is one everywhere."""
    axes = {
        axis
        for nest in nests
        for access in accesses_to(buffer, nest)
        for axis in indexed_dims(access, nest)
    }
    return axes.pop() if len(axes) == 1 else None


def _with_initialisation(nests: Sequence[ForOp], product: MatrixProduct) -> ForOp:
    """The nest of a product, fused with the one before it that sets its accumulators to zero."""
    position = next(n for n, nest in enumerate(nests) if nest is product.outer[0])
    start = perfect_nest(nests[position - 1])
    writes = [access.buffer for access in accesses_in(start[0])]
    if position == 0 or writes != [product.ops.store.buffer] or len(start) != len(product.outer):
        raise IllegalSchedule("attention requires sums that are set to zero before the product")
    return fuse_nests([start, product.outer])[0]


def _vectorize_rows(nests: list[ForOp], target: Target) -> None:
    """Runs the statements on scores with the rows as lanes, those that can in one pass."""
    passes: list[ForOp] = []
    for nest in nests:
        inner = perfect_nest(nest)[1:]
        if inner:
            reorder(*inner, nest)
            fused = _fused(passes[-1] if passes else None, inner[0])
            passes += [fused] if fused is inner[0] else []
    for nest in nests:
        if nest.parent is not None and nest.extent != 1:
            unroll(vectorize(nest, lanes_for(nest, target)))
    for loop in passes:
        _pack_strided(loop, target)


def _pack_strided(loop: ForOp, target: Target) -> None:
    """Packs what rows load strided, such as a mask, with contiguous rows, for some columns at a
    time.
    """
    strided = {
        load.buffer: indexed_dims(load, enclosing_loops(load)[-1])
        for load in loads_in(loop)
        if stride(load, enclosing_loops(load)[-1]) not in (0, 1)
    }
    most = 4 * target.lanes(4)
    columns = min(most, loop.extent.constant or most)
    if strided and columns > 1:
        tiles = tile(loop, columns)
        for buffer, axes in strided.items():
            staged = stage_tile(buffer, tiles.outer, "scratch")
            if len(axes) == 1:
                _rows_innermost(staged, axes[0], target)
            else:
                vectorize_innermost(staged.load_in[0], target)


def _fused(first: ForOp | None, second: ForOp) -> ForOp:
    """Both loops over scores as one where that is legal, else the second."""
    if first is None or first.extent != second.extent or try_fuse(first, second) is None:
        return second
    rows = child_loops(first)
    if len(rows) == 2 and rows[0].extent == rows[1].extent:
        try_fuse(*rows)
    return first
