"""The primitive that marks a product of tiles of bytes or bf16, which processors with registers for
tiles of matrices compute in one instruction.
"""

from __future__ import annotations

from typing import Final

from xdsl.dialects.builtin import UnitAttr

from weft.compiler.loop.matchers import Product, dot_of_words, product_of_words
from weft.compiler.loop.nest import (
    combiner_of,
    describe,
    element_address,
    perfect_nest,
    ranges_around,
)
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp

TILE_ROWS: Final = 16
"""Rows of a register, each of 64 bytes: 16 words of a factor, or as many sums."""

TILE_WORDS: Final = 16

TILE_LOOPS: Final = 3
"""Loops inside of the reductions: over rows, columns and words."""

REGISTERS_ACROSS: Final = 2
"""Registers of sums along each dim: as many as leave room for those of both factors."""


@primitive
def matrix_product(loop: ForOp) -> ForOp:
    """Marks the reductions of a sum of products of bytes or bf16, over words inside a tile of rows
    and columns, as one over registers that hold tiles of both factors and of the sums.

        for k reduction(add):  for i < 32:  for j < 32:  for w < 16:  for q < 4:
          acc[i, j] += x[i, 64*k + 4*w + q] * y[k, w, j, q]
        ->  for k matrix reduction(add):  ...

    Elements that are words themselves, as `loop.dot_bf16` multiplies, need no loop over terms.
    Raises IllegalSchedule where the loops inside are others, or longer than registers have room
    for, where terms of a word and columns are not neighbours, and where rows or words are not
    evenly spaced.
    """
    nest = perfect_nest(loop)
    product = product_of_words(nest[-1]) or dot_of_words(nest[-1])
    if product is None or len(nest) <= TILE_LOOPS + (product.terms > 1):
        rule = "reductions around rows, columns and words of a sum of products of words"
        raise IllegalSchedule(f"matrix_product requires {rule}, got {describe(loop)}")
    terms = nest[-1:] if product.terms > 1 else []
    *around, rows, columns, words = nest[: len(nest) - len(terms)]
    sums = [*around, words, *terms]
    if any(combiner_of(each) != "add" for each in sums):
        rule = "reductions that add"
        raise IllegalSchedule(f"matrix_product requires {rule}, got {describe(loop)}")
    across = TILE_ROWS * REGISTERS_ACROSS
    for each, most in ((rows, across), (columns, across), (words, TILE_WORDS)):
        extent = each.extent.constant
        if extent is None or not 1 <= extent <= most or each.lower != 0 or each.step.data != 1:
            rule = f"tiles of at most {most}"
            raise IllegalSchedule(f"matrix_product requires {rule}, got {describe(each)}")
    for each in terms:
        if each.extent != product.terms:
            rule = f"words of {product.terms} terms"
            raise IllegalSchedule(f"matrix_product requires {rule}, got {describe(each)}")
    _require_spacing(product, (rows, columns, words), terms, sums)
    loop.properties["matrix"] = UnitAttr()
    return loop


def _require_spacing(
    product: Product, inner: tuple[ForOp, ForOp, ForOp], terms: list[ForOp], sums: list[ForOp]
) -> None:
    """Each factor in words, which one loop alone indexes beside that over words, and the sums in
    rows of neighbours.
    """
    rows, columns, words = inner
    by_columns = _step(product.lhs, columns) != 0
    panel, other = (product.lhs, product.rhs) if by_columns else (product.rhs, product.lhs)
    fixed: list[tuple[AccessOp, ForOp, int]] = [
        *((factor, each, 1) for factor in (panel, other) for each in terms),
        (panel, columns, product.terms),
        (panel, rows, 0),
        (other, words, product.terms),
        (other, columns, 0),
        (product.store, columns, 1),
        *((product.store, each, 0) for each in sums),
    ]
    even = [(panel, words), (other, rows), (product.store, rows)]
    wrong = [access for access, loop, step in fixed if _step(access, loop) != step]
    wrong += [access for access, loop in even if _step(access, loop) is None]
    if wrong:
        rule = "evenly spaced rows of neighbouring words"
        raise IllegalSchedule(f"matrix_product requires {rule}, got {describe(wrong[0])}")


def _step(access: AccessOp, loop: ForOp) -> Expr | None:
    """The elements from one iteration to the next; None where that varies."""
    address = element_address(access).simplify(ranges_around(access))
    return address.coefficient(loop.index) if address.is_affine_in(loop.index) else None
