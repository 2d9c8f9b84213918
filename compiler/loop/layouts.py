"""The layouts in which kernels may have their buffers, and about what their accesses cost there.

A blocked layout keeps as many channels as a vector has lanes next to each other, `[n, c floordiv L,
h, w, c mod L]`: the sums of a convolution leave their registers in whole vectors, and windows and
elementwise operators have full vectors whatever the image's width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.loop.nest import bounds_of, ranges_of, subscripts, update_of, weight_arguments
from compiler.target.target import Target
from dialects.expr import Atom, Expr, Operand, Symbol, product
from dialects.interval import Range
from dialects.loop.ops import AccessOp, AllocOp, ForOp, StoreOp, enclosing_loops
from dialects.loop.program import KernelOp
from dialects.loop.scalar import compute_type, width
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type

CHANNELS = 1
"""The axis of channels."""

LONG_LOOP = 64
"""The iterations that a loop of unknown extent is taken to have."""

BROADCAST_COST = 0.25
STRIDED_COST = 2.0
ARITHMETIC_COST = 0.5
"""Of a vector, in loads of a vector of neighbours."""

LONGEST_STRIDE = 4
"""Distance of lanes that are still loaded as whole vectors."""

_LANE = Symbol("lane")
_BLOCK = Symbol("block")


def blocked(kind: BufferType, target: Target) -> BufferType | None:
    """The type with its channels in blocks, `[n, c floordiv L, ..., c mod L]`; None for a buffer
    that has no more channels than a vector has lanes, or nothing but channels.
    """
    if kind.rank < 3 or not isinstance(kind.layout, NoneAttr):
        return None
    lanes = target.lanes(max(32, width(compute_type(kind.element))) // 8)
    channels = kind.shape[CHANNELS].constant
    if channels is None or channels < lanes or lanes == 1 or product(kind.shape[2:]) == 1:
        return None
    axis = Expr.of(Operand(CHANNELS))
    others = [Expr.of(Operand(dim)) for dim in range(2, kind.rank)]
    place = (Expr.of(Operand(0)), axis // lanes, *others, axis % lanes)
    batch, count, *spatial = kind.shape
    storage = (batch, count.ceildiv(lanes), *spatial, Expr.of(lanes))
    return BufferType(kind.dims, kind.element, LayoutAttr(ExprsAttr(place), ExprsAttr(storage)))


def with_layouts(kernel: KernelOp, kinds: Sequence[BufferType], target: Target) -> KernelOp:
    """A copy of the kernel whose arguments have these types.

    A temporary whose channels go along with those of a blocked argument becomes blocked like it.
    """
    copy = kernel.clone()
    changed: dict[SSAValue, BufferType] = dict(zip(copy.body.block.args, kinds, strict=True))
    changed |= _temporaries(copy, changed, target)
    for value, kind in changed.items():
        if value.type != kind:
            Rewriter.replace_value_with_new_type(value, kind)
    return copy


def _temporaries(
    kernel: KernelOp, arguments: Mapping[SSAValue, BufferType], target: Target
) -> dict[SSAValue, BufferType]:
    """The types of the temporaries that follow blocked arguments."""
    links = _links(kernel)
    reached = [v for v, kind in arguments.items() if not isinstance(kind.layout, NoneAttr)]
    found: dict[SSAValue, BufferType] = {}
    while reached:
        for other in links.get(reached.pop(), ()):
            kind = blocked(buffer_type(other), target)
            if isinstance(other.owner, AllocOp) and kind is not None and other not in found:
                found[other] = kind
                reached.append(other)
    return found


def _links(kernel: KernelOp) -> dict[SSAValue, list[SSAValue]]:
    """The buffers whose channels some iteration reads and writes at one and the same index."""
    links: dict[SSAValue, list[SSAValue]] = {}
    for store in [op for op in kernel.walk() if isinstance(op, StoreOp)]:
        for access in _beside(store):
            if access is not store and _goes_along(access, store):
                links.setdefault(access.buffer, []).append(store.buffer)
                links.setdefault(store.buffer, []).append(access.buffer)
    return links


def _beside(store: StoreOp) -> list[AccessOp]:
    """The store, and the loads of the iteration that it ends."""
    block = store.parent
    assert block is not None, "a store lies in a block"
    loads = [op for op in block.ops if isinstance(op, AccessOp) and not isinstance(op, StoreOp)]
    return [store, *loads]


def _goes_along(load: AccessOp, store: AccessOp) -> bool:
    if min(load.buffer_type.rank, store.buffer_type.rank) <= CHANNELS:
        return False
    here, there = subscripts(load)[CHANNELS], subscripts(store)[CHANNELS]
    return (here - there).constant is not None and bool(list(here.atoms()))


def traffic(kernel: KernelOp, kinds: Sequence[BufferType], target: Target) -> float:
    """About how many vectors the kernel loads, stores and computes with arguments of these types,
    if each nest runs along the loop that is best for it.
    """
    types: dict[SSAValue, BufferType] = dict(zip(kernel.body.block.args, kinds, strict=True))
    types |= _temporaries(kernel, types, target)
    stores = [op for op in kernel.walk() if isinstance(op, StoreOp)]
    return sum(_store_traffic(store, types, weight_arguments(kernel), target) for store in stores)


def _store_traffic(
    store: StoreOp,
    types: Mapping[SSAValue, BufferType],
    weights: set[SSAValue],
    target: Target,
) -> float:
    loops = enclosing_loops(store)
    lanes = target.lanes(max(32, width(compute_type(store.buffer_type.element))) // 8)
    update = update_of(store)
    extents = {loop: loop.extent.constant or LONG_LOOP for loop in loops}
    total = prod(extents.values())
    results = prod(n for loop, n in extents.items() if loop.reduction is None)

    def cost(loop: ForOp) -> float:
        vectors = 0.0
        for access in _beside(store):
            sums = access is store or (update is not None and access is update.load)
            if access.buffer in weights:
                step = 1 if any(loop.index in e.atoms() for e in subscripts(access)) else 0
            else:
                kind = types.get(access.buffer, access.buffer_type)
                step = lane_stride(access, loop, lanes, kind)
            vectors += (results if sums else total) * _vector_cost(step, lanes)
        filled = extents[loop] / (-(-extents[loop] // lanes) * lanes)
        return (vectors + ARITHMETIC_COST * total) / lanes / filled

    independent = [loop for loop in loops if loop.reduction is None]
    return min((cost(loop) for loop in independent), default=float(total))


def _vector_cost(step: Expr | int | None, lanes: int) -> float:
    if step == 0:
        return BROADCAST_COST
    if step == 1:
        return 1.0
    near = step is not None and (Expr.of(step).constant or lanes) <= LONGEST_STRIDE
    return STRIDED_COST if near else float(lanes)


def conversion_traffic(kind: BufferType) -> float:
    """What it costs to bring a buffer into another layout: an element at a time."""
    return float(prod(dim.constant or LONG_LOOP for dim in kind.shape)) * (1 + BROADCAST_COST)


def lane_stride(
    access: AccessOp, loop: ForOp, lanes: int, kind: BufferType | None = None
) -> Expr | None:
    """How far apart, in elements, the lanes of a vector access memory that runs along the loop and
    starts at a multiple of its length; None where that varies.
    """
    ranges = _ranges(access, lanes)
    block = Expr.of(_BLOCK) * lanes + Expr.of(_LANE)
    moved = [expr.substitute({loop.index: block}) for expr in subscripts(access)]
    address = (kind or access.buffer_type).address(moved).simplify(ranges)
    return address.coefficient(_LANE) if address.is_affine_in(_LANE) else None


def _ranges(access: AccessOp, lanes: int) -> dict[Atom, Range]:
    ranges = ranges_of(bounds_of(enclosing_loops(access)))
    ranges[_LANE] = (0, lanes - 1)
    return ranges
