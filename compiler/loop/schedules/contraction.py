"""Contractions, as in matrix products and convolutions: `T[..] += X[..] * Y[..]` over reductions.

    for jo parallel:  for ...:  for io:              panels of nr columns, tiles of mr rows
        acc[6][32] in registers
        for ii unroll:  for ji vector unroll:  acc[ii, ji] = 0
        for k:  for ii unroll:  for ji vector unroll:  acc[ii, ji] += X[i, k] * Y[k, j]
        for ii unroll:  for ji vector unroll:  out[i, j] = f(acc[ii, ji])

The columns of the register tile are a loop that indexes only Y, and become the vector; the rows
index only X. Y is packed into panels as wide as the tile: before the call for a weight; a panel at
a time on the thread's stack where columns are strided, or Y is large and many rows read it; as a
whole in front of the product where such a panel would be too large for L2; else not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from weft.compiler.loop.layouts import LONGEST_STRIDE, lane_stride
from weft.compiler.loop.matchers import Product, split_nest, sum_of_products
from weft.compiler.loop.nest import child_loops, perfect_nest, subscript_atoms, weight_arguments
from weft.compiler.loop.schedules.coalesce_loops import coalesce_outer
from weft.compiler.loop.schedules.gemm.accumulation import (
    Accumulation,
    aligned_nests,
    is_short,
    overlap,
)
from weft.compiler.loop.schedules.gemm.macro_kernel import build_macro_kernel
from weft.compiler.loop.schedules.gemm.tile_params import Params
from weft.compiler.loop.schedules.innermost_loops import lanes_of
from weft.compiler.target.target import Target
from weft.dialects.expr import product
from weft.dialects.loop.ops import ForOp, LoadOp
from weft.dialects.loop.program import KernelOp

NAME = "contraction"

SCATTER_COST = 24
"""Multiply-adds that a vector costs whose lanes are stored strided, once per element of T."""

PACKING_COST = 0.25
"""What packing a panel in every call adds to the time of its multiply-adds."""

GATHER_COST = 8.0
"""The same for strided lanes of an operand that other loops index too: no panel holds it."""

STRIDED_COST = 0.25
"""The same for lanes a few elements apart, which are loaded as whole vectors and shuffled."""

ASSUMED_EXTENT = 512
"""The iterations that a loop of unknown extent is taken to have."""

FEW_ROWS = 4
"""Rows of a tile below which the loads of its columns hold the multiply-adds up."""


def apply_all(kernel: KernelOp, target: Target, params: Params | None = None) -> Iterator[str]:
    """Schedules every contraction of the kernel, by default in tiles as large as the target's
    registers allow; yields once for each.
    """
    nests = [perfect_nest(loop) for loop in child_loops(kernel)]
    for nest in [nest for nest in nests if sum_of_products(nest[-1]) is not None]:
        found = find(kernel, nest, target)
        if found is not None and build_macro_kernel(kernel, found, target, params):
            yield NAME


def find(kernel: KernelOp, nest: list[ForOp], target: Target) -> Accumulation | None:
    """The parts that the loops of a contraction play in its register tile, with the nests that
    initialise its result and read it; None for another nest.
    """
    split, factors = split_nest(nest), sum_of_products(nest[-1])
    if split is None or factors is None:
        return None
    # A tile of T stays in registers from its initialisation to the nest that reads it, so all of
    # these nests have to be tiled alike.
    found = aligned_nests(nest[0], factors.store, split.outer)
    if found is None:
        return None
    # Loops over contiguous memory become one before any is chosen: the pixels of an image fill
    # vectors that the last loop over its columns alone does not.
    nests, result = coalesce_outer(kernel, found.nests, factors.store.buffer)
    outer, reductions = nests[found.own], split.reductions
    nest = [*outer, *reductions]
    (lhs, rhs, _), (in_lhs, in_rhs) = factors, map(subscript_atoms, factors[:2])
    only_lhs = [n for n, loop in enumerate(outer) if loop.index in in_lhs - in_rhs]
    only_rhs = [n for n, loop in enumerate(outer) if loop.index in in_rhs - in_lhs]
    batch = [n for n, loop in enumerate(outer) if loop.index in in_lhs & in_rhs]
    # The vector may run along either operand, which is then the panel: T = X Y is Tt = Yt Xt. It
    # may run along a batch dim too, as in depthwise convolutions: its lanes load both operands.
    candidates = [(n, lhs) for n in only_lhs] + [(n, rhs) for n in only_rhs]
    candidates += [(n, load) for n in batch for load in (lhs, rhs)]
    column = _choose_column(kernel, nest, factors, candidates, target)
    if column is None:
        return None
    position, panel = column
    in_panel, in_other = (only_rhs, only_lhs) if panel is rhs else (only_lhs, only_rhs)
    rows = _choose_rows(in_other, outer)
    # Rows of the other operand share each vector of the panel. Where there are none, as in a
    # product of one row, rows of the panel itself are worth a tile if they hide the latency of few
    # vectors, or if their windows overlap; they share no vector, so the tile is narrow.
    others = [n for n in in_panel if n != position]
    short = is_short(outer[position], lanes_of([nest[0]], target), target)
    alone = rows is None and (short or any(overlap(panel, outer[n], reductions) for n in others))
    return Accumulation(
        nests=nests,
        reductions=reductions,
        columns=position,
        rows=_choose_rows(others, outer) if alone else rows,
        result=result,
        batch=[n for n in batch if n != position],
        panel=panel if _is_packed(kernel, factors, panel, nest, position, target) else None,
        other=factors.other_than(panel),
        narrow=position in batch or alone,
    )


def _choose_rows(others: Sequence[int], outer: Sequence[ForOp]) -> int | None:
    """The innermost loop with enough iterations for a tile, else the longest."""
    lengths = {n: outer[n].extent.constant or ASSUMED_EXTENT for n in reversed(others)}
    longest = max(lengths, key=lambda n: lengths[n], default=None)
    if longest is None or lengths[longest] == 1:
        return None
    return next((n for n, length in lengths.items() if length >= FEW_ROWS), longest)


def _choose_column(
    kernel: KernelOp,
    nest: Sequence[ForOp],
    factors: Product,
    candidates: Iterable[tuple[int, LoadOp]],
    target: Target,
) -> tuple[int, LoadOp] | None:
    """The loop that becomes the vector, with the operand that it indexes: the one whose lanes are
    best filled, loaded and stored.
    """
    weights = weight_arguments(kernel)
    lanes = lanes_of([nest[0]], target)
    depth = product(loop.extent for loop in nest if loop.reduction is not None).constant

    def cost(candidate: tuple[int, LoadOp]) -> float:
        position, load = candidate
        loop = nest[position]
        other = factors.other_than(load)
        if loop.index in subscript_atoms(other) and lane_stride(other, loop, lanes) != 1:
            return inf
        extent = loop.extent.constant
        filled = 0.9 if extent is None else extent / (-(-extent // lanes) * lanes)
        contiguous = lane_stride(factors.store, loop, lanes) == 1
        scattered = 0.0 if contiguous else SCATTER_COST / (depth or ASSUMED_EXTENT)
        ready = load.buffer in weights or lane_stride(load, loop, lanes) == 1
        packed = 0.0 if ready else _packing_cost(factors, load, nest, position, lanes)
        return (1.0 + scattered + packed) / filled

    usable = [(n, load) for n, load in candidates if nest[n].extent != 1]
    best = min(usable, key=cost, default=None)
    return None if best is None or cost(best) == inf else best


def _packing_cost(
    factors: Product, load: LoadOp, nest: Sequence[ForOp], column: int, lanes: int
) -> float:
    """What packing strided columns of an operand costs in every call, or loading them strided."""
    if _fits_panels(factors, load, nest, column):
        return PACKING_COST
    return STRIDED_COST if _is_strided(load, nest[column], lanes) else GATHER_COST


def _is_packed(
    kernel: KernelOp,
    factors: Product,
    load: LoadOp,
    nest: Sequence[ForOp],
    column: int,
    target: Target,
) -> bool:
    """Whether the columns of an operand may be packed, rather than loaded strided."""
    is_weight = load.buffer in weight_arguments(kernel)
    strided = _is_strided(load, nest[column], lanes_of([nest[0]], target))
    return is_weight or not strided or _fits_panels(factors, load, nest, column)


def _fits_panels(factors: Product, load: LoadOp, nest: Sequence[ForOp], column: int) -> bool:
    """Whether no other loop indexes the operand that does not index the other factor too."""
    outer = {loop.index for loop in nest if loop.reduction is None and loop.extent != 1}
    others = subscript_atoms(factors.other_than(load))
    return (subscript_atoms(load) & outer) - others == {nest[column].index}


def _is_strided(load: LoadOp, column: ForOp, lanes: int) -> bool:
    """Whether lanes are a few elements apart: whole vectors are loaded and shuffled."""
    step = lane_stride(load, column, lanes)
    return step is not None and step.constant in range(2, LONGEST_STRIDE + 1)
