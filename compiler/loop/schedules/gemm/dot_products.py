"""Products of words as dot products: neighbouring terms of a sum, four bytes or two bf16, become an
element of 32 bits.

    for k < 64:  acc += x[i, k] * w[k, j]
    ->  for ko < 16:  for ki < 4:  acc += x[i, 4*ko + ki] * w[4*ko + ki, j]

The loop over the terms of a word stays innermost and is no reduction of the Problem, whose elements
are words. The factor of the rows has words in memory; the other one is a weight, and packed so that
it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import NoneAttr

from weft.compiler.loop.layouts import lane_stride
from weft.compiler.loop.matchers import Product, product_of_words
from weft.compiler.loop.nest import indexed_dims, subscripts, weight_arguments
from weft.compiler.loop.primitives import dim_innermost, interleave, pack, reorder, tile
from weft.compiler.loop.schedules.gemm.problem import divisor_of
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp
from weft.dialects.loop.program import KernelOp

FEWEST_USES = 16
"""Rows that pay for packing a factor in every call; an unknown number is taken to be so many."""

WIDEST_PANEL = 64
"""Columns of the widest panel."""


class Words(NamedTuple):
    """The reductions, the innermost over the terms of a word, and which factors have words in
    memory while the other one can be packed.
    """

    reductions: list[ForOp]
    as_rows: tuple[bool, bool]


def split_into_words(
    kernel: KernelOp,
    outer: Sequence[ForOp],
    reductions: Sequence[ForOp],
    product: Product,
    target: Target,
) -> Words | None:
    """Tiles one of the reductions into words, if the target has dot products; None, and nothing
    done, where no reduction has words in one factor and the other one can be packed.
    """
    terms = product.terms
    if product_of_words(reductions[-1]) is None or not target.has_dot_products(terms):
        return None
    factors, weights = product[:2], weight_arguments(kernel)
    packable = [
        (load.buffer in weights or _pays_to_pack(load, factors[1 - side], outer))
        and _has_whole_panels(load, factors[1 - side], outer)
        for side, load in enumerate(factors)
    ]
    for loop in reversed(reductions):
        whole = loop.extent.constant is not None and loop.extent % terms == 0
        as_rows = [
            packable[1 - side]
            and (lane_stride(load, loop, terms) == 1 or _may_have_words(load, loop, terms))
            and len(indexed_dims(factors[1 - side], loop)) == 1
            for side, load in enumerate(factors)
        ]
        if whole and any(as_rows):
            for side, load in enumerate(factors):
                if as_rows[side] and lane_stride(load, loop, terms) != 1:
                    _store_words(load, loop, terms)
            tiles = tile(loop, terms)
            around = [tiles.outer if each is loop else each for each in reductions]
            return Words(list(reorder(*around, tiles.inner)), (as_rows[0], as_rows[1]))
    return None


def _pays_to_pack(load: LoadOp, other: LoadOp, outer: Sequence[ForOp]) -> bool:
    """Whether a factor that each call gives may be packed in front of the product: one that all of
    a kernel's loops index by themselves, and of which so many rows read each panel.
    """
    rows = [loop for loop in outer if indexed_dims(other, loop) and not indexed_dims(load, loop)]
    uses = prod(loop.extent.constant or FEWEST_USES for loop in rows)
    alone = all(len(set(expr.atoms())) <= 1 for expr in subscripts(load))
    row_major = isinstance(load.buffer_type.layout, NoneAttr)
    return alone and row_major and load.buffer is not other.buffer and uses >= FEWEST_USES


def _may_have_words(load: LoadOp, loop: ForOp, terms: int) -> bool:
    """Whether a factor is a copy of the kernel's own, such as an image within its padding, which
    may be stored in words along the dim that a loop indexes.
    """
    buffer_type, owner = load.buffer_type, load.buffer.owner
    own = isinstance(owner, AllocOp) and isinstance(buffer_type.layout, NoneAttr)
    dims = indexed_dims(load, loop)
    start = subscripts(load)[dims[0]] - Expr.atom(loop.index) if len(dims) == 1 else Expr.of(1)
    return own and divisor_of(start) % terms == 0


def _store_words(load: LoadOp, loop: ForOp, terms: int) -> None:
    (dim,) = indexed_dims(load, loop)
    buffer_type = load.buffer_type
    pack(load.buffer, interleave(dim_innermost(buffer_type, buffer_type.rank - 1), dim, terms))


def _has_whole_panels(load: LoadOp, other: LoadOp, outer: Sequence[ForOp]) -> bool:
    """Whether panels of any width start where tiles of columns do, whichever loop these are of."""
    for loop in outer:
        dims = indexed_dims(load, loop)
        if dims and not indexed_dims(other, loop):
            start = subscripts(load)[dims[0]] - Expr.atom(loop.index)
            if len(dims) != 1 or divisor_of(start) % WIDEST_PANEL:
                return False
    return True
