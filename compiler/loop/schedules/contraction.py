"""Sums of products, as in matrix products and convolutions:
`T[..] += X[..] * Y[..]` over reduction loops.

    for jo parallel:  for ...:  for io:              columns in panels, rows in tiles
        acc[6][32] in registers
        for ii unroll:  for ji vector unroll:  acc[ii, ji] = 0
        for k:  for ii unroll:  for ji vector unroll:  acc[ii, ji] += X[i, k] * Y[k, j]
        for ii unroll:  for ji vector unroll:  out[i, j] = f(acc[ii, ji])

A column is a loop that moves only Y, and becomes the vector; a row moves only X. Y is brought into
panels as wide as the tile: ahead of the call for a weight, per panel on the thread's stack
otherwise, unless its columns lie together anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Operation, SSAValue

from compiler.loop.nest import accesses_in, is_inside, loops_in, perfect_nest, subscripts, update_of
from compiler.loop.primitives import (
    distribute,
    fuse,
    pack,
    panels,
    reorder,
    split_at,
    stage,
    tile,
    unroll,
    vectorize,
)
from compiler.loop.schedules.leaves import (
    parallelize_outermost,
    stride,
    vectorize_leaves,
)
from compiler.loop.schedules.simplify import drop_stored_only
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, Operand, atom_expr, product
from dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp
from dialects.loop.scalar import compute_type, width
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type

NAME = "contraction"

WEIGHTS = "weights"
"""The kernel's attribute with the positions of the arguments that are
weights, which may be packed ahead.
"""

ENOUGH = 12
"""Iterations of a loop that a pool shares evenly enough."""

SCATTER_COST = 24
"""Multiply-adds that a vector costs whose lanes are stored apart, once per sum."""

PACKING_COST = 0.25
"""What packing a panel in every call adds to the time of its multiply-adds."""

LONG_SUM = 512
"""The length that a sum of unknown length is taken to have."""

LONGEST_UNROLL = 8
"""Iterations of an innermost reduction loop that is written out."""

LARGEST_PANEL = 128 * 1024
"""Bytes of a panel that is packed on the stack."""


@dataclass(frozen=True)
class Params:
    """The register tile: rows, and vectors a row."""

    rows: int
    vectors: int


def default_params(target: Target, rows: int | None, columns: int | None, lanes: int) -> Params:
    """The largest tile that fits the registers and divides the rows:
    `rows*vectors + vectors + 1` values live.
    """
    vectors = 2 if columns is None or columns > lanes else 1
    most = (target.vector_registers - vectors - 1) // vectors
    if rows is None:
        return Params(min(most, 8), vectors)
    if rows == 1:
        wide = 8 if columns is None else max(1, min(8, -(-columns // lanes)))
        return Params(1, wide)
    best = max(size for size in range(1, min(most, rows) + 1) if rows % size == 0)
    return Params(best if 2 * best >= min(most, rows) else min(most, rows), vectors)


@dataclass(frozen=True)
class Shape:
    """How the tiles of one contraction look: register tile, lanes of a vector,
    whether there are rows at all, and how many loops move both operands.
    """

    params: Params
    lanes: int
    has_rows: bool
    both: int
    target: Target

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.params.vectors * self.lanes


@dataclass
class Contraction:
    """The nests of one sum of products: the outer loops of each, in the order of the result's dims.

    `columns` and `rows` are positions among those loops, `both` those of the loops that move both
    operands, as a batch or the groups of a convolution do. `panel` is the load of the operand that
    the columns move, `result` the buffer of the sums.
    """

    nests: list[list[ForOp]]
    reductions: list[ForOp]
    columns: int
    rows: int | None
    both: list[int]
    panel: LoadOp
    result: SSAValue


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every sum of products of the kernel; yields once for each."""
    for nest in _accumulations(kernel):
        found = find(kernel, nest, target)
        if found is not None and _apply(kernel, found, target):
            yield NAME


def _accumulations(kernel: KernelOp) -> list[list[ForOp]]:
    """The perfect nests of the kernel that end in reduction loops around one multiply-add."""
    nests = [perfect_nest(op) for op in kernel.body.block.ops if isinstance(op, ForOp)]
    return [
        nest for nest in nests if nest[-1].reduction is not None and _product(nest[-1]) is not None
    ]


def _product(loop: ForOp) -> tuple[LoadOp, LoadOp, StoreOp] | None:
    """The two factors' loads and the store of `T += X * Y`, if that is the loop's body."""
    stores = [op for op in loop.body.block.ops if isinstance(op, StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    if update is None or update.kind != "add" or loops_in(loop):
        return None
    multiply = update.contribution.owner
    if not isinstance(multiply, (arith.MulfOp, arith.MuliOp)):
        return None
    factors = [_loaded(operand) for operand in multiply.operands]
    if factors[0] is None or factors[1] is None:
        return None
    return factors[0], factors[1], update.store


def _loaded(value: SSAValue) -> LoadOp | None:
    owner = value.owner
    while isinstance(owner, (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)):
        owner = owner.operands[0].owner
    return owner if isinstance(owner, LoadOp) else None


def find(kernel: KernelOp, nest: list[ForOp], target: Target) -> Contraction | None:
    """The roles of the nest's loops, with the initialisation before it and the
    nests after it that go on with it.
    """
    outer = [loop for loop in nest if loop.reduction is None]
    reductions = nest[len(outer) :]
    product = _product(nest[-1])
    if product is None or not outer or any(loop.reduction is None for loop in reductions):
        return None
    x, y, store = product
    moves_x, moves_y = _moved(x), _moved(y)
    only_x = [n for n, loop in enumerate(outer) if loop.index in moves_x - moves_y]
    only_y = [n for n, loop in enumerate(outer) if loop.index in moves_y - moves_x]
    candidates = [(n, x) for n in only_x] + [(n, y) for n in only_y]
    column = _choose_column(kernel, nest, candidates, store, target)
    if column is None:
        return None
    position, panel = column
    others = only_x if panel is y else only_y
    rows = next((n for n in reversed(others) if outer[n].extent != 1), None)
    before, after = _neighbours(nest[0], store)
    nests = [_aligned(loop, outer) for loop in (*before, nest[0], *after)]
    if any([a.extent for a in each] != [b.extent for b in outer] for each in nests):
        return None
    both = [n for n, loop in enumerate(outer) if loop.index in moves_x & moves_y]
    return Contraction(nests, reductions, position, rows, both, panel, store.buffer)


def _aligned(loop: ForOp, outer: Sequence[ForOp]) -> list[ForOp]:
    """The nest's loops, one that runs over two of the others' together cut in two like them."""
    found: list[ForOp] = []
    remaining = list(perfect_nest(loop))
    for position, wanted in enumerate(outer):
        if not remaining:
            break
        following = outer[position + 1].extent if position + 1 < len(outer) else Expr.of(1)
        size = following.constant
        here = remaining[0].extent
        if here != wanted.extent and size and size > 1 and here == wanted.extent * size:
            tiles = tile(remaining.pop(0), size)
            remaining = [tiles.outer, tiles.inner, *remaining]
        found.append(remaining.pop(0))
    return found


def _moved(load: LoadOp) -> set[object]:
    return {atom for expr in subscripts(load) for atom in expr.atoms()}


def _choose_column(
    kernel: KernelOp,
    nest: Sequence[ForOp],
    candidates: Iterable[tuple[int, LoadOp]],
    store: StoreOp,
    target: Target,
) -> tuple[int, LoadOp] | None:
    """The loop that becomes the vector: the one whose lanes are best filled, loaded and stored."""
    weights = weight_arguments(kernel)
    lanes = lanes_of([nest[0]], target)
    depth = product(loop.extent for loop in nest if loop.reduction is not None).constant

    def cost(candidate: tuple[int, LoadOp]) -> float:
        position, load = candidate
        loop = nest[position]
        extent = loop.extent.constant
        filled = 0.9 if extent is None else extent / (-(-extent // lanes) * lanes)
        scattered = 0.0 if stride(store, loop) == 1 else SCATTER_COST / (depth or LONG_SUM)
        packed = 0.0 if load.buffer in weights or stride(load, loop) == 1 else PACKING_COST
        return (1.0 + scattered + packed) / filled

    usable = [(n, load) for n, load in candidates if nest[n].extent != 1]
    return min(usable, key=cost, default=None)


def weight_arguments(kernel: KernelOp) -> set[SSAValue]:
    """The kernel's arguments that are weights in every call."""
    marked = kernel.attributes.get(WEIGHTS)
    if not isinstance(marked, ArrayAttr):
        return set()
    positions = [entry.data for entry in marked if isinstance(entry, IntAttr)]
    return {kernel.body.block.args[position] for position in positions}


def _neighbours(loop: ForOp, store: StoreOp) -> tuple[list[ForOp], list[ForOp]]:
    """The nest before that initialises the sum, and the one behind that reads it."""
    before = loop.prev_op
    after = loop.next_op
    first = isinstance(before, ForOp) and _touches(before, store.buffer)
    last = isinstance(after, ForOp) and _touches(after, store.buffer) and _is_pointwise(after)
    return [before] if first and isinstance(before, ForOp) else [], [after] if last and isinstance(
        after, ForOp
    ) else []


def _touches(loop: ForOp, buffer: SSAValue) -> bool:
    return any(access.buffer is buffer for access in accesses_in(loop))


def _is_pointwise(loop: ForOp) -> bool:
    return all(level.reduction is None for level in (loop, *loops_in(loop)))


def _apply(kernel: KernelOp, found: Contraction, target: Target) -> bool:
    """Fuses the nests, splits off what is no whole tile, and tiles each part;
    false where fusing is not legal.
    """
    loops = found.nests[0]
    lanes = lanes_of([nest[0] for nest in found.nests], target)
    rows = 1 if found.rows is None else loops[found.rows].extent.constant
    params = default_params(target, rows, loops[found.columns].extent.constant, lanes)
    shape = Shape(params, lanes, found.rows is not None, len(found.both), target)
    axis = _axis_of(found, shape.width)
    shared = _fuse([list(reorder(*[nest[n] for n in _order(found)])) for nest in found.nests])
    if shared is None:
        return False
    shared = list(reorder(shared.pop(shape.both), *shared))
    panel = found.panel.buffer
    if panel in weight_arguments(kernel) and axis is not None:
        panel = pack(panel, panels(buffer_type(panel), axis, shape.width))
    for part in _split(shared, shape.width):
        for chain in _split_rows(part, shape):
            _tile(chain, shape, panel, found.result)
    drop_stored_only(found.result)
    return True


def _order(found: Contraction) -> list[int]:
    """The loops that move both operands, the columns, the others, and the rows innermost."""
    rows = [] if found.rows is None else [found.rows]
    others = [n for n in range(len(found.nests[0])) if n not in (found.columns, *rows, *found.both)]
    return [*found.both, found.columns, *others, *rows]


def _fuse(nests: Sequence[list[ForOp]]) -> list[ForOp] | None:
    """One nest of the shared loops around all statements;
    None where a statement has to wait for another nest.
    """
    shared = list(nests[0])
    try:
        for nest in nests[1:]:
            for level, loop in enumerate(nest):
                shared[level] = fuse(shared[level], loop)
    except IllegalSchedule:
        return None
    return shared


def lanes_of(loops: Iterable[ForOp], target: Target) -> int:
    """How many of the widest elements that the loops access fit a vector."""
    accesses = [access for loop in loops for access in accesses_in(loop)]
    bits = max(width(compute_type(access.buffer_type.element)) for access in accesses)
    return target.lanes(max(32, bits) // 8)


def _axis_of(found: Contraction, width: int) -> int | None:
    """The dim of the panel that the columns count through in whole tiles;
    None where there is no such dim.
    """
    index = next(
        nest[found.columns].index for nest in found.nests if is_inside(found.panel, nest[0])
    )
    exprs = subscripts(found.panel)
    axes = [axis for axis, expr in enumerate(exprs) if index in set(expr.atoms())]
    if len(axes) != 1:
        return None
    return axes[0] if (exprs[axes[0]] - atom_expr(index)) % width == 0 else None


def _split(chain: Sequence[ForOp], size: int) -> list[list[ForOp]]:
    """The nest cut into whole tiles of its outermost loop and the rest."""
    loop = chain[0]
    whole = loop.extent // size * size
    if whole == loop.extent or whole == 0:
        return [list(chain)]
    return [perfect_nest(part)[: len(chain)] for part in split_at(loop, whole)]


def _split_rows(chain: Sequence[ForOp], shape: Shape) -> list[list[ForOp]]:
    """The nest cut at its innermost loop, the rows, which comes out for that and goes back."""
    if not shape.has_rows or _is_whole(chain[-1], shape.params.rows):
        return [list(chain)]
    turned = reorder(chain[-1], *chain[:-1])
    return [list(reorder(*part[1:], part[0])) for part in _split(turned, shape.params.rows)]


def _is_whole(loop: ForOp, size: int) -> bool:
    return loop.extent % size == 0


def _tile(chain: Sequence[ForOp], shape: Shape, panel: SSAValue, result: SSAValue) -> None:
    """Tiles, stages and marks one nest whose loops hold whole tiles, or are shorter than one."""
    columns, *others = chain
    rows = others.pop() if shape.has_rows else None
    if columns.extent.constant is None and not _is_whole(columns, shape.width):
        vectorize_leaves(columns, shape.target)
        parallelize_outermost(columns)
        return
    jo, ji, _ = tile(columns, min(shape.width, columns.extent.constant or shape.width))
    outer, inner = [*others[: shape.both], jo, *others[shape.both :]], [ji]
    if rows is not None:
        io, ii, _ = tile(rows, _tile_rows(rows, shape))
        outer, inner = [*outer, io], [ii, ji]
    reorder(*outer, *inner)
    packed = _stage_panel(panel, jo, ji)
    write_back = _stage_sums(result, outer[-1], ji)
    for nest in (*_separate(inner), write_back):
        _mark(nest, shape.lanes)
    parallelize_outermost(outer[0] if packed or shape.both else _spread(outer))


def _tile_rows(rows: ForOp, shape: Shape) -> int:
    if _is_whole(rows, shape.params.rows):
        return shape.params.rows
    return min(rows.extent.constant or 1, shape.params.rows)


def _spread(loops: Sequence[ForOp]) -> ForOp:
    """Brings a loop with work for many threads to the outside:
    the first long one, else the longest.
    """
    shared = next((loop for loop in loops if (loop.extent.constant or ENOUGH) >= ENOUGH), None)
    shared = shared or max(loops, key=lambda loop: loop.extent.constant or 0)
    return reorder(shared, *(loop for loop in loops if loop is not shared))[0]


def _stage_panel(panel: SSAValue, jo: ForOp, ji: ForOp) -> bool:
    """Packs the panel's columns next to each other,
    where they are scattered and few enough for the stack.
    """
    loads = [access for access in accesses_in(jo) if access.buffer is panel]
    if all(stride(load, ji) in (0, 1) for load in loads):
        return False
    reductions = [loop for loop in loops_in(jo) if loop.reduction is not None]
    rows = product(loop.extent for loop in reductions).constant
    bytes = width(buffer_type(panel).element) // 8 * (ji.extent.constant or 1)
    axis = _column_axis(loads[0], ji)
    if rows is None or rows * bytes > LARGEST_PANEL or axis is None:
        return False
    try:
        staged = stage(panel, jo, "scratch")
    except IllegalSchedule:
        return False
    pack(staged.buffer, _last(buffer_type(staged.buffer), axis))
    return True


def _stage_sums(result: SSAValue, at: ForOp, ji: ForOp) -> list[ForOp]:
    """Keeps the tile of sums in registers, its columns next to each other;
    returns the loops that write it back.
    """
    access = next(access for access in accesses_in(at) if access.buffer is result)
    axis = _column_axis(access, ji)
    assert axis is not None, "the columns move the result"
    staged = stage(result, at, "registers")
    pack(staged.buffer, _last(buffer_type(staged.buffer), axis))
    return list(staged.write_back)


def _column_axis(access: AccessOp, ji: ForOp) -> int | None:
    axes = [axis for axis, expr in enumerate(subscripts(access)) if ji.index in set(expr.atoms())]
    return axes[0] if len(axes) == 1 else None


def _last(kind: BufferType, axis: int) -> LayoutAttr:
    """The row-major layout with one dim moved to the end."""
    order = [dim for dim in range(kind.rank) if dim != axis] + [axis]
    subscripts = tuple(Expr.of(Operand(dim)) for dim in order)
    return LayoutAttr(ExprsAttr(subscripts), ExprsAttr(tuple(kind.shape[dim] for dim in order)))


def _separate(inner: Sequence[ForOp]) -> list[list[ForOp]]:
    """Distributes the loops inside a tile over what comes before, in and after the
    reduction, which moves outside.
    """
    body = list(inner[-1].body.block.ops)
    start = next(n for n, op in enumerate(body) if isinstance(op, ForOp))
    nests = [list(inner)]
    for cut in (body[start], body[start + 1] if start + 1 < len(body) else None):
        if cut is None or cut.prev_op is None:
            continue
        nest: list[ForOp] = []
        before: Operation = cut
        for loop in reversed(nests[-1]):
            before = distribute(loop, before)
            nest.insert(0, before)
        nests.append(nest)
    for nest in nests:
        reductions = [loop for loop in perfect_nest(nest[0]) if loop not in nest]
        if reductions:
            reorder(*reductions, *nest)
            if (reductions[-1].extent.constant or LONGEST_UNROLL + 1) <= LONGEST_UNROLL:
                unroll(reductions[-1])
    return nests


def _mark(nest: Sequence[ForOp], lanes: int) -> None:
    """Writes the loops of a tile out, the one over neighbouring columns in vectors."""
    for loop in nest:
        columns = all(
            stride(access, loop) == 1 for access in accesses_in(loop) if _is_local(access)
        )
        if columns:
            vectorize(loop, min(lanes, 1 << ((loop.extent.constant or lanes) - 1).bit_length()))
        unroll(loop)


def _is_local(access: AccessOp) -> bool:
    owner = access.buffer.owner
    return isinstance(owner, AllocOp) and owner.scope.data == "registers"
