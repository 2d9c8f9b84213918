"""Products of rows with the matrices of their experts, as mixtures of experts have them: rows are
sorted by expert, and a vector says where the rows of each end.

Rows are taken in blocks of one expert each, one after the other: what a block computes for rows
behind its expert's is replaced by the blocks that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from weft.compiler.frontend.matrices import Step, repeated
from weft.compiler.frontend.torch.operands import AtenTable
from weft.compiler.frontend.torch.ops.indexing import index_put
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, minimum
from weft.dialects.graph import BindSizesOp
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64

ROWS: Final = 16
"""Of a block, where only a call knows how many rows there are."""
MOST_ROWS: Final = 64
"""Of a block, whose matrix is read once."""


class Blocks(Struct, frozen=True):
    """How many rows blocks have, how many blocks there are, and of each the expert, the first row,
    and where the expert's rows end.
    """

    size: int
    count: Term
    experts: Term
    starts: Term
    ends: Term

    def rows(self, number: Term) -> tuple[Term, Term, Term]:
        """The expert of a block, its rows, and whether these are the expert's."""
        b = number.b
        expert, start, end = (
            Term(b, each.value).take(number, 0) for each in (self.experts, self.starts, self.ends)
        )
        rows = start + counted(b, self.size)
        return expert, rows, rows < end


def _blocks(b: GraphBuilder, rows: Expr, ends: Term) -> Blocks:
    ends = ends.cast(I64)
    (experts,) = ends.shape
    size = _size(rows, experts)
    begins = joined(
        [ends.of(b.filled(0, ends.part(0, 0, 1).value)), ends.part(0, 0, experts - 1)], 0
    )
    upwards = ends - begins + (size - 1)
    numbers = (upwards - upwards.modulo(size)) / size
    each = counted(b, experts)
    earlier = (each.insert(0) <= each.insert(1)).cast(I64)
    through = (earlier * numbers.insert(0)).sum([1])
    most = minimum([rows, rows.ceildiv(size) + experts])
    block = counted(b, most)
    expert = (through.insert(0) <= block.insert(1)).cast(I64).sum([1])
    expert = expert.minimum(size_term(b, experts - 1, I64))
    first = block - (through - numbers).take(expert, 0)
    start = begins.take(expert, 0) + first * size
    count = numbers.sum([0])
    return Blocks(size, count, expert, start, ends.take(expert, 0))


def _size(rows: Expr, experts: Expr) -> int:
    """Rows of a block: a power of 2, half of those that an expert has or more."""
    each = (rows // experts).constant
    return ROWS if each is None else min(MOST_ROWS, 1 << max(0, each.bit_length() - 1))


def _over_blocks(b: GraphBuilder, blocks: Blocks, state: Term, step: Step) -> Term:
    """The state after all blocks; the names of sizes are those of no other loop here."""
    number = len(b.builder.insertion_point.block.ops)
    index, count = f"block_{number}", f"blocks_{number}"
    b.builder.insert(BindSizesOp.of(blocks.count.value, [count], b.location))
    (found,) = repeated(b, index, Expr.of(count), [state], step)
    return found


def grouped_mm(b: GraphBuilder, x: Term, weight: Term, offs: Term) -> Term:
    """`x[r] @ weight[e]` for the rows `r` of each expert `e`, zeros for rows behind the last."""
    if len(x.shape) != 2 or len(weight.shape) != 3:
        ranks = f"{len(x.shape)} and {len(weight.shape)}"
        raise UnsupportedError(
            f"grouped products require rows and a stack of matrices, got {ranks} axes"
        )
    count, blocks = x.shape[0], _blocks(b, x.shape[0], offs)
    zero = Term(b, b.constant_of(0, x.type.element))
    start = zero.expand([count + blocks.size, weight.shape[2]])

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        inner = number.b
        expert, rows, _ = blocks.rows(number)
        inside = rows.minimum(size_term(inner, count - 1, I64))
        product = (
            Term(inner, x.value).take(inside, 0).matmul(Term(inner, weight.value).take(expert, 0))
        )
        return [index_put(inner, state[0], [rows], product)]

    found = _over_blocks(b, blocks, start, step).part(0, 0, count)
    last = offs.cast(I64).part(0, offs.shape[0] - 1, 1)
    return (counted(b, count) < last).insert(1).where(found, zero)


def grouped_mm_backward(
    b: GraphBuilder, x: Term, weight: Term, offs: Term, grad: Term
) -> tuple[Term, Term]:
    """The derivatives by rows and by matrices."""
    blocks = _blocks(b, x.shape[0], offs)
    zero = Term(b, b.constant_of(0, x.type.element))

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        inner = number.b
        expert, rows, own = blocks.rows(number)
        inside = rows.minimum(size_term(inner, x.shape[0] - 1, I64))
        given, slopes = (Term(inner, each.value).take(inside, 0) for each in (x, grad))
        given = own.insert(1).where(given, Term(inner, inner.constant_of(0, x.type.element)))
        product = given.transpose([1, 0]).matmul(slopes)
        return [index_put(inner, state[0], [expert.insert(0)], product.insert(0), True)]

    by_weight = _over_blocks(b, blocks, zero.expand(weight.shape), step)
    return grouped_mm(b, grad, weight.transpose([0, 2, 1]), offs), by_weight


TABLE: Final[AtenTable] = {
    "transformers.grouped_mm_fallback.default": grouped_mm,
    "transformers.grouped_mm_fallback_backward.default": grouped_mm_backward,
}
"""What transformers calls where torch has no such product of the type."""
