"""The layouts in which kernels may have their buffers, and about what their accesses cost there.

A blocked layout (NCHWc) stores as many channels contiguously as a vector has lanes:
`[n, c floordiv L, h, w, c mod L]`. Accumulators of a convolution leave their registers in whole
vectors, and windows and elementwise operators have full vectors whatever the image's width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod

from msgspec import Struct
from xdsl.dialects.builtin import BFloat16Type, NoneAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from weft.compiler.loop.matchers import update_of
from weft.compiler.loop.nest import accesses_in, index_ranges, subscripts, weight_arguments
from weft.compiler.loop.strides import continues
from weft.compiler.target.target import LINE, Target
from weft.dialects.expr import Expr, Operand, Symbol, product, row_major_strides
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp, size_ranges
from weft.dialects.loop.scalar import compute_type, width
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type_of

CHANNELS = 1
"""The axis of channels."""

LONG_LOOP = 64
"""The iterations that a loop of unknown extent is taken to have."""

UNKNOWN_FILL = 0.75
"""How much of the vectors along a loop is filled whose extent only a call knows: widths of images
that networks halve a few times are often less than one vector, or few.
"""

TILE_BYTES = 64
"""Of a row of a register that holds a tile of a matrix."""

BROADCAST_COST = 0.25
STRIDED_COST = 2.0
TAP_COST = 2.0
"""Of vectors at the taps of windows, which start anywhere, and fall on two lines."""

APART_COST = 0.3
"""What it adds where each term of a sum over channels is on a line, or a page, of its own."""

ARITHMETIC_COST = 0.5
"""Of a vector, in loads of a vector of neighbours."""

LONGEST_STRIDE = 4
"""The longest stride of lanes that are still loaded as whole vectors."""

_LANE = Symbol("lane")
_BLOCK = Symbol("block")


def blocked(buffer_type: BufferType, target: Target) -> BufferType | None:
    """The type with a blocked layout, `[n, c floordiv L, ..., c mod L]`; None for a buffer
    that has no more channels than a vector has lanes, or nothing but channels.
    """
    if buffer_type.rank < 3 or not isinstance(buffer_type.layout, NoneAttr):
        return None
    lanes = target.lanes(max(32, width(compute_type(buffer_type.element))) // 8)
    channels = buffer_type.shape[CHANNELS].constant
    if channels is None or channels < lanes or lanes == 1 or product(buffer_type.shape[2:]) == 1:
        return None
    lanes = _channels_of_block(buffer_type, channels, lanes, target)
    axis = Expr.of(Operand(CHANNELS))
    others = [Expr.of(Operand(dim)) for dim in range(2, buffer_type.rank)]
    position = (Expr.of(Operand(0)), axis // lanes, *others, axis % lanes)
    batch, count, *spatial = buffer_type.shape
    storage = (batch, count.ceildiv(lanes), *spatial, Expr.of(lanes))
    return BufferType(
        buffer_type.dims, buffer_type.element, LayoutAttr(ExprsAttr(position), ExprsAttr(storage))
    )


def _channels_of_block(buffer_type: BufferType, channels: int, lanes: int, target: Target) -> int:
    """As many channels as a vector has lanes; of bytes and bf16 as many as fill a row of a register
    that holds a tile of a matrix, where the target has such and blocks of so many divide the
    channels.
    """
    bits = width(buffer_type.element)
    if bits != 8 and not isinstance(buffer_type.element, BFloat16Type):
        return lanes
    filling = TILE_BYTES * 8 // bits
    return filling if target.has_matrix_products(32 // bits) and not channels % filling else lanes


def reads_windows(kernel: KernelOp) -> bool:
    """Whether the kernel reads windows of images: two loops index one of their spatial axes."""
    return any(
        sum(isinstance(atom, SSAValue) for atom in set(expr.atoms())) > 1
        for access in accesses_in(kernel)
        if access.buffer_type.rank >= 3
        for expr in subscripts(access)[CHANNELS + 1 :]
    )


def with_layouts(kernel: KernelOp, buffer_types: Sequence[BufferType], target: Target) -> KernelOp:
    """A copy of the kernel whose arguments have these types.

    A temporary whose channels have the index of a blocked argument's becomes blocked like it.
    """
    copy = kernel.clone()
    changed: dict[SSAValue, BufferType] = dict(zip(copy.body.block.args, buffer_types, strict=True))
    reached = [v for v, each in changed.items() if not isinstance(each.layout, NoneAttr)]
    links = _links(_accesses_of(copy))
    changed |= _temporaries(links, reached, partial(_candidate, target))
    for value, buffer_type in changed.items():
        if value.type != buffer_type:
            Rewriter.replace_value_with_new_type(value, buffer_type)
    return copy


def _candidate(target: Target, value: SSAValue) -> BufferType | None:
    return blocked(buffer_type_of(value), target)


def _temporaries(
    links: Mapping[SSAValue, Sequence[SSAValue]],
    arguments: Iterable[SSAValue],
    candidate: Callable[[SSAValue], BufferType | None],
) -> dict[SSAValue, BufferType]:
    """The types of the temporaries that follow blocked arguments."""
    reached = list(arguments)
    found: dict[SSAValue, BufferType] = {}
    while reached:
        for other in links.get(reached.pop(), ()):
            if not isinstance(other.owner, AllocOp) or other in found:
                continue
            buffer_type = candidate(other)
            if buffer_type is not None:
                found[other] = buffer_type
                reached.append(other)
    return found


def _has_layout(value: SSAValue) -> bool:
    return not isinstance(buffer_type_of(value).layout, NoneAttr)


def _links(reads: Mapping[StoreOp, Sequence[AccessOp]]) -> dict[SSAValue, list[SSAValue]]:
    """The buffers whose channels some iteration reads and writes at one and the same index, each
    once.
    """
    links: dict[SSAValue, dict[SSAValue, None]] = {}
    for store, accesses in reads.items():
        for access in accesses:
            here, there = access.buffer, store.buffer
            if access is store or there in links.get(here, {}):
                continue
            if _shares_channels(access, store):
                links.setdefault(here, {})[there] = None
                links.setdefault(there, {})[here] = None
    return {buffer: list(others) for buffer, others in links.items()}


def _accesses_of(kernel: KernelOp) -> dict[StoreOp, list[AccessOp]]:
    """For each store of a kernel itself and the loads of the iteration that it ends."""
    loads: dict[Block, list[AccessOp]] = {}
    found: dict[StoreOp, list[AccessOp]] = {}
    for store in [op for op in kernel.walk() if isinstance(op, StoreOp)]:
        block = store.parent
        assert block is not None, "a store is in a block"
        if block not in loads:
            accesses = (op for op in block.ops if isinstance(op, AccessOp))
            loads[block] = [op for op in accesses if not isinstance(op, StoreOp)]
        found[store] = [store, *loads[block]]
    return found


def _shares_channels(load: AccessOp, store: AccessOp) -> bool:
    if min(load.buffer_type.rank, store.buffer_type.rank) <= CHANNELS:
        return False
    here, there = subscripts(load)[CHANNELS], subscripts(store)[CHANNELS]
    return (here - there).constant is not None and bool(list(here.atoms()))


@dataclass
class Traffic:
    """About how many vectors a kernel loads, stores and computes with arguments of given types, if
    each nest is vectorised along the loop that is best for it.
    """

    kernel: KernelOp
    target: Target

    def __post_init__(self) -> None:
        reads = _accesses_of(self.kernel)
        self.links = _links(reads)
        # Many stores may share the same loads.
        weights = weight_arguments(self.kernel)
        weights |= {store.buffer for store, each in reads.items() if _is_of(weights, store, each)}
        costs = cache(partial(_vector_costs, weights, cache(subscripts)))
        self.candidate = cache(partial(_candidate, self.target))
        self.statements = [
            _Statement.of(store, accesses, costs, self.target) for store, accesses in reads.items()
        ]

    def cost(self, in_blocks: Sequence[bool]) -> float:
        """The traffic with these arguments blocked and the others row-major."""
        given = zip(self.kernel.body.block.args, in_blocks, strict=True)
        known = {value for value, is_blocked in given if is_blocked or _has_layout(value)}
        known |= _temporaries(self.links, known, self.candidate).keys()
        return sum(statement.cost(known) for statement in self.statements)


def _is_of(weights: set[SSAValue], store: StoreOp, accesses: Sequence[AccessOp]) -> bool:
    """Whether a temporary holds what is computed of weights, element by element: that is inlined
    where it is read.
    """
    loads = [access for access in accesses if access is not store]
    local = isinstance(store.buffer.owner, AllocOp)
    return local and bool(loads) and all(load.buffer in weights for load in loads)


_VectorCosts = Callable[[AccessOp, ForOp, int], tuple[float, float]]
"""Of vectors of so many lanes along a loop in a row-major buffer, and in one with blocks."""


class _Statement(Struct):
    """A store with the loads beside it: for each loop that may become the vector, how much of the
    vectors is filled, and what each buffer costs row-major and blocked.
    """

    total: int
    lanes: int
    loops: list[tuple[float, list[tuple[SSAValue, float, float]]]]

    @staticmethod
    def of(
        store: StoreOp, reads: Sequence[AccessOp], costs_of: _VectorCosts, target: Target
    ) -> _Statement:
        lanes = target.lanes(max(32, width(compute_type(store.buffer_type.element))) // 8)
        update = update_of(store)
        extents = {
            loop: loop.extent.constant or LONG_LOOP
            for loop in enclosing_loops(store)
            if loop.extent != 0
        }
        total = prod(extents.values())
        results = prod(n for loop, n in extents.items() if loop.reduction is None)
        loops: list[tuple[float, list[tuple[SSAValue, float, float]]]] = []
        terms = {loop.index for loop in extents if loop.reduction is not None}
        apart = {access: APART_COST if _are_terms_apart(access, terms) else 0.0 for access in reads}
        for loop in extents:
            if loop.reduction is not None:
                continue
            costs: list[tuple[SSAValue, float, float]] = []
            for access in reads:
                sums = access is store or (update is not None and access is update.load)
                times = results if sums else total
                row, block = costs_of(access, loop, lanes)
                costs.append((access.buffer, times * (row + apart[access]), times * block))
            loops.append((_fill(_run_along(loop, list(extents), reads), lanes), costs))
        return _Statement(total, lanes, loops)

    def cost(self, blocked: set[SSAValue]) -> float:
        """What the statement costs along its best loop."""
        work = ARITHMETIC_COST * self.total
        sums = (
            (work + sum(block if buffer in blocked else row for buffer, row, block in costs)) / fill
            for fill, costs in self.loops
        )
        return min(sums, default=float(self.total * self.lanes)) / self.lanes


def _fill(extent: int | None, lanes: int) -> float:
    """How much of the vectors along so many iterations is filled."""
    return UNKNOWN_FILL if extent is None else extent / (-(-extent // lanes) * lanes)


def _are_terms_apart(access: AccessOp, terms: set[SSAValue]) -> bool:
    """Whether terms of a sum are in different channels, whose images are longer than a line."""
    shape = access.buffer_type.shape
    if not terms or len(shape) <= CHANNELS or not terms & set(subscripts(access)[CHANNELS].atoms()):
        return False
    pixels = product(shape[CHANNELS + 1 :]).constant
    return pixels is None or pixels * width(access.buffer_type.element) // 8 > LINE


def _run_along(loop: ForOp, loops: Sequence[ForOp], accesses: Sequence[AccessOp]) -> int | None:
    """The iterations of a loop, and of the loops around it that could be one with it."""
    extent, inner = loop.extent, loop
    for outer in reversed(loops[: loops.index(loop)]):
        if not all(continues(access, outer, inner) for access in accesses):
            break
        extent, inner = extent * outer.extent, outer
    return extent.constant


def _vector_costs(
    weights: set[SSAValue],
    index_of: Callable[[AccessOp], Sequence[Expr]],
    access: AccessOp,
    loop: ForOp,
    lanes: int,
) -> tuple[float, float]:
    """What a vector along a loop costs in a buffer: row-major, and in a blocked layout."""
    index = index_of(access)
    dims = [n for n, expr in enumerate(index) if loop.index in expr.atoms()]
    if not dims:
        return BROADCAST_COST, BROADCAST_COST
    if access.buffer in weights:
        return 1.0, 1.0
    row = _row_major_cost(access.buffer_type, index, dims, loop, lanes)
    return row, _blocked_cost(index, dims, loop, lanes)


def _row_major_cost(
    buffer_type: BufferType, index: Sequence[Expr], dims: Sequence[int], loop: ForOp, lanes: int
) -> float:
    """What a vector along a loop that indexes these dims costs in a row-major buffer."""
    if not all(index[n].is_affine_in(loop.index) for n in dims):
        return float(lanes)
    strides = row_major_strides(buffer_type.shape)
    step = sum((index[n].coefficient(loop.index) * strides[n] for n in dims), Expr.of(0)).constant
    if step == 1:
        taps = any(len(set(index[n].atoms())) > 1 for n in dims)
        return TAP_COST if taps else 1.0
    return STRIDED_COST if 0 < (step or lanes) <= LONGEST_STRIDE else float(lanes)


def _blocked_cost(index: Sequence[Expr], dims: Sequence[int], loop: ForOp, lanes: int) -> float:
    """The same in a blocked layout: lanes are channels of one block."""
    start = index[CHANNELS] - Expr.atom(loop.index) if dims == [CHANNELS] else Expr.of(1)
    return 1.0 if start % lanes == 0 else float(lanes)


def conversion_traffic(buffer_type: BufferType) -> float:
    """What it costs to convert a buffer to another layout: an element at a time."""
    return float(prod(dim.constant or LONG_LOOP for dim in buffer_type.shape)) * (
        1 + BROADCAST_COST
    )


def lane_stride(access: AccessOp, loop: ForOp, lanes: int) -> Expr | None:
    """The stride, in elements, of the lanes of a vector that runs along the loop and starts at a
    multiple of its length; None where that varies.
    """
    address = _by_vectors(access, loop, lanes)
    return address.coefficient(_LANE) if address.is_affine_in(_LANE) else None


def is_in_blocks(access: AccessOp, loop: ForOp, lanes: int) -> bool:
    """Whether the lanes of such a vector are contiguous, but not with those of the next."""
    address = _by_vectors(access, loop, lanes)
    if not address.is_affine_in(_LANE) or address.coefficient(_LANE) != 1:
        return False
    return not address.is_affine_in(_BLOCK) or address.coefficient(_BLOCK) != lanes


def _by_vectors(access: AccessOp, loop: ForOp, lanes: int) -> Expr:
    """An access's address, with the loop's index in vectors and lanes."""
    vector = Expr.of(_BLOCK) * lanes + Expr.of(_LANE)
    moved = [expr.substitute({loop.index: vector}) for expr in subscripts(access)]
    address = access.buffer_type.address(moved)
    if not address.has_operators():
        return address
    return address.simplify(index_ranges(address, size_ranges(access) | {_LANE: (0, lanes - 1)}))
