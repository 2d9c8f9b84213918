"""Sums of products, as in matrix products and convolutions:
`T[..] += X[..] * Y[..]` over reduction loops.

    for jo parallel:  for ...:  for io:              columns in panels, rows in tiles
        acc[6][32] in registers
        for ii unroll:  for ji vector unroll:  acc[ii, ji] = 0
        for k:  for ii unroll:  for ji vector unroll:  acc[ii, ji] += X[i, k] * Y[k, j]
        for ii unroll:  for ji vector unroll:  out[i, j] = f(acc[ii, ji])

A column is a loop that moves only Y, and becomes the vector; a row moves only X. Y is brought into
panels as wide as the tile: ahead of the call for a weight; per panel on the thread's stack where
its columns are scattered, or it is large and many rows read it; all of it in front of the product
where such a panel would be too large for the second cache; else not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from compiler.loop.layouts import LONGEST_STRIDE, lane_stride
from compiler.loop.nest import loops_in, perfect_nest, subscripts, update_of, weight_arguments
from compiler.loop.schedules.coalesce_loops import flatten_outer
from compiler.loop.schedules.gemm.accumulation import (
    Accumulation,
    aligned,
    is_short,
    neighbours,
    overlap,
)
from compiler.loop.schedules.gemm.register_tile import accumulate
from compiler.loop.schedules.gemm.tile_params import Params
from compiler.loop.schedules.innermost_loops import lanes_of
from compiler.target.target import Target
from dialects.expr import product
from dialects.loop.ops import ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp

NAME = "contraction"

SCATTER_COST = 24
"""Multiply-adds that a vector costs whose lanes are stored apart, once per sum."""

PACKING_COST = 0.25
"""What packing a panel in every call adds to the time of its multiply-adds."""

SPREAD_COST = 8.0
"""The same for lanes that lie apart in an operand that other loops move too: no panel holds it."""

SPACED_COST = 0.25
"""The same for lanes a few elements apart, which are loaded as whole vectors and picked from."""

LONG_SUM = 512
"""The length that a loop of unknown length is taken to have."""

FEW_ROWS = 4
"""Rows of a tile with which loads of columns hardly keep up."""


def apply_all(kernel: KernelOp, target: Target, params: Params | None = None) -> Iterator[str]:
    """Schedules every sum of products of the kernel, by default in tiles as large as the target's
    registers allow; yields once for each.
    """
    for nest in _accumulations(kernel):
        found = find(kernel, nest, target)
        if found is not None and accumulate(kernel, found, target, params):
            yield NAME


def _accumulations(kernel: KernelOp) -> list[list[ForOp]]:
    """The perfect nests of the kernel that end in reduction loops around one multiply-add."""
    nests = [perfect_nest(op) for op in kernel.body.block.ops if isinstance(op, ForOp)]
    return [
        nest
        for nest in nests
        if nest[-1].reduction is not None and product_of(nest[-1]) is not None
    ]


def product_of(loop: ForOp) -> tuple[LoadOp, LoadOp, StoreOp] | None:
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


def find(kernel: KernelOp, nest: list[ForOp], target: Target) -> Accumulation | None:
    """The roles of the nest's loops, with the initialisation before it and the
    nests after it that go on with it.
    """
    outer = [loop for loop in nest if loop.reduction is None]
    reductions = nest[len(outer) :]
    product = product_of(nest[-1])
    if product is None or not outer or any(loop.reduction is None for loop in reductions):
        return None
    x, y, store = product
    before, after = neighbours(nest[0], store)
    nests = [aligned(loop, outer) for loop in (*before, nest[0], *after)]
    if any([a.extent for a in each] != [b.extent for b in outer] for each in nests):
        return None
    nests, result = flatten_outer(kernel, nests, store.buffer)
    outer = nests[len(before)]
    nest = [*outer, *reductions]
    moves_x, moves_y = _moved(x), _moved(y)
    only_x = [n for n, loop in enumerate(outer) if loop.index in moves_x - moves_y]
    only_y = [n for n, loop in enumerate(outer) if loop.index in moves_y - moves_x]
    both = [n for n, loop in enumerate(outer) if loop.index in moves_x & moves_y]
    candidates = [(n, x) for n in only_x] + [(n, y) for n in only_y]
    candidates += [(n, load) for n in both for load in (x, y)]
    column = _choose_column(kernel, nest, candidates, store, target)
    if column is None:
        return None
    position, panel = column
    others = only_x if panel is y else only_y
    rows = _choose_rows(others, outer)
    beside = [n for n in (only_x if panel is x else only_y) if n != position]
    short = is_short(outer[position], lanes_of([nest[0]], target), target)
    alone = rows is None and (short or any(overlap(panel, outer[n], reductions) for n in beside))
    if alone:
        rows = _choose_rows(beside, outer)
    narrow = position in both or alone
    both = [n for n in both if n != position]
    packed = panel if _is_packed(kernel, panel, outer[position], nest, target) else None
    beside = _other_factor(panel, nest)
    return Accumulation(nests, reductions, position, rows, both, packed, result, narrow, beside)


def _choose_rows(others: Sequence[int], outer: Sequence[ForOp]) -> int | None:
    """The innermost loop with enough iterations for a tile, else the longest."""
    lengths = {n: outer[n].extent.constant or LONG_SUM for n in reversed(others)}
    longest = max(lengths, key=lambda n: lengths[n], default=None)
    if longest is None or lengths[longest] == 1:
        return None
    return next((n for n, length in lengths.items() if length >= FEW_ROWS), longest)


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
        beside = _other_factor(load, nest)
        if loop.index in _moved(beside) and lane_stride(beside, loop, lanes) != 1:
            return inf
        extent = loop.extent.constant
        filled = 0.9 if extent is None else extent / (-(-extent // lanes) * lanes)
        is_whole = lane_stride(store, loop, lanes) == 1
        scattered = 0.0 if is_whole else SCATTER_COST / (depth or LONG_SUM)
        together = load.buffer in weights or lane_stride(load, loop, lanes) == 1
        packed = 0.0 if together else _packing_cost(load, loop, nest, lanes)
        return (1.0 + scattered + packed) / filled

    usable = [(n, load) for n, load in candidates if nest[n].extent != 1]
    best = min(usable, key=cost, default=None)
    return None if best is None or cost(best) == inf else best


def _other_factor(load: LoadOp, nest: Sequence[ForOp]) -> LoadOp:
    factors = product_of(nest[-1])
    assert factors is not None, "the nest ends in a sum of products"
    return factors[1] if load is factors[0] else factors[0]


def _packing_cost(load: LoadOp, column: ForOp, nest: Sequence[ForOp], lanes: int) -> float:
    """What it costs to bring neighbouring columns of an operand together in every call."""
    if _fits_panels(load, column, nest):
        return PACKING_COST
    return SPACED_COST if _is_spaced(load, column, lanes) else SPREAD_COST


def _is_packed(
    kernel: KernelOp, load: LoadOp, column: ForOp, nest: Sequence[ForOp], target: Target
) -> bool:
    """Whether the columns of an operand may be brought together, rather than loaded apart."""
    is_weight = load.buffer in weight_arguments(kernel)
    spaced = _is_spaced(load, column, lanes_of([nest[0]], target))
    return is_weight or not spaced or _fits_panels(load, column, nest)


def _fits_panels(load: LoadOp, column: ForOp, nest: Sequence[ForOp]) -> bool:
    """Whether no other loop moves the operand that does not move the other factor too."""
    other = _moved(_other_factor(load, nest))
    outer = {loop.index for loop in nest if loop.reduction is None and loop.extent != 1}
    return (_moved(load) & outer) - other == {column.index}


def _is_spaced(load: LoadOp, column: ForOp, lanes: int) -> bool:
    step = lane_stride(load, column, lanes)
    return step is not None and step.constant in range(2, LONGEST_STRIDE + 1)
