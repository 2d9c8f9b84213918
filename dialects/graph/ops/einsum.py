"""Sums of products over named indices: the contraction of any number of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, result_def, var_operand_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import round_totals, start_totals, widen
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.batching import again, is_batched
from weft.dialects.graph.core.broadcast import broadcast_assumptions, broadcast_shapes
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import sum_to
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule
from weft.dialects.graph.core.types import NUMBERS, Shape, TensorType, tensor
from weft.dialects.graph.reindexing.movement import TransposeOp
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


@irdl_op_definition
class EinsumOp(GraphOp):
    """`equation = "bij,bkj->bik"`: each element is the sum, over the letters that the result lacks,
    of the product of the operands' elements.

    Letters name the dims of the operands; dims of one letter are equal or 1. A letter that is
    twice in an operand means its diagonal. With a `block`, sums over one letter are sums of the
    sums of equal blocks of at most so many terms, where there are such, so that they lose less.
    """

    name = "graph.einsum"
    REUSES_OPERANDS: ClassVar = True
    inputs: Sequence[SSAValue] = var_operand_def(TensorType)
    equation: StringAttr = prop_def(StringAttr)
    block: IntegerAttr[Any] | None = opt_prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def terms(self) -> tuple[list[str], str]:
        """The letters of each operand, and those of the result."""
        left, _, right = self.equation.data.partition("->")
        return left.split(","), right

    def infer(self) -> Sequence[TensorType]:
        tensor_types = self.tensor_types()
        terms, result = self.terms
        equation = self.equation.data
        self.require(len(terms) == len(tensor_types), f"{len(terms)} operands", len(tensor_types))
        self.require_one_element(NUMBERS, "numeric operands")
        known = set("".join(terms))
        self.require(all(c.isalpha() for c in known), "letters for indices", equation)
        fits = len(set(result)) == len(result) and known.issuperset(result)
        self.require(fits, "a result of the operands' letters, each once", equation)
        block = None if self.block is None else self.block.value.data
        self.require(block is None or block > 0, "blocks of one term or more", block)
        if not all(each.has_rank for each in tensor_types):
            return [tensor(None, tensor_types[0].element)]
        for letters, tensor_type in zip(terms, tensor_types, strict=True):
            self.require(
                len(letters) == tensor_type.rank, f"an operand of dims {letters}", tensor_type
            )
        extents = self.extents()
        return [tensor([extents[letter] for letter in result], tensor_types[0].element)]

    def extents(self) -> dict[str, Expr]:
        """The size of each letter."""
        shapes: dict[str, list[Shape]] = {}
        for letters, tensor_type in zip(self.terms[0], self.tensor_types(), strict=True):
            for letter, dim in zip(letters, tensor_type.shape, strict=True):
                shapes.setdefault(letter, []).append((dim,))
        return {c: broadcast_shapes(self.name, dims)[0] for c, dims in shapes.items()}

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        extents = self.extents()
        operands = zip(self.terms[0], self.tensor_types(), strict=True)
        wanted = [(each.shape, tuple(extents[c] for c in letters)) for letters, each in operands]
        return [pair for dims, full in wanted for pair in broadcast_assumptions(dims, full)]

    def sharding_rule(self) -> ShardingRule | None:
        """The letters, but those of a diagonal, and of sums in blocks."""
        terms, result = self.terms
        whole = {c for letters in terms for c in letters if letters.count(c) > 1}
        if self.block is not None:
            whole |= set("".join(terms)) - set(result)
        operands = tuple(
            tuple(
                None if dim == 1 or c in whole else c
                for c, dim in zip(letters, each.shape, strict=True)
            )
            for letters, each in zip(terms, self.tensor_types(), strict=True)
        )
        free = tuple(None if c in whole else c for c in result)
        summed = {c: "sum" for each in operands for c in each if c is not None and c not in free}
        return ShardingRule(operands, (free,), summed)

    def reference(self, *operands: Array) -> Sequence[Array]:
        wide = [widen(operand) for operand in operands]
        extents = self.extents()
        full: list[Array] = []
        for letters, x in zip(self.terms[0], wide, strict=True):
            shape = [extents[letter].constant or 0 for letter in letters]
            full.append(np.broadcast_to(x, shape))
        total = np.einsum(self.equation.data, *full)
        return [np.asarray(total).astype(operands[0].dtype)]

    def fold(self) -> GraphOp | None:
        """A permutation of one operand's dims is a transpose."""
        (letters, *others), result = self.terms
        if others or sorted(letters) != sorted(result) or not self.result_type.has_rank:
            return None
        order = [letters.index(letter) for letter in result]
        return TransposeOp.of(self.inputs[0], permutation=order, location=self.location)

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        terms, result = self.terms
        letter = next(c for c in ascii_letters if c not in self.equation.data)
        pairs = zip(terms, operands, self.operands, strict=True)
        given = ",".join(letter * is_batched(new, old) + term for term, new, old in pairs)
        return again(self, operands, b, equation=f"{given}->{letter}{result}")

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        terms, result = self.terms
        extents, shape = self.extents(), self.result_type.shape
        summed = "".join(letter for letter in extents if letter not in result)
        total = start_totals(b, shape, self.result_type.element, 0, results[0])
        inner = [extents[letter] for letter in summed]
        block = self._block_of(inner)
        if block is not None:
            inner = [inner[0] // block, Expr.of(block)]
        with b.loops(shape, result) as outer, b.reduce(inner, "add", summed * len(inner)) as found:
            reduced = found if block is None else (found[0] * block + found[1],)
            loop_indices = dict(zip(result + summed, (*outer, *reduced), strict=True))
            loads = [
                b.load(operand, _subscripts(letters, each.shape, loop_indices))
                for letters, each, operand in zip(terms, self.tensor_types(), operands, strict=True)
            ]
            product = loads[0]
            for factor in loads[1:]:
                product = product * factor
            b.store(total, outer, b.load(total, outer) + product)
        round_totals(b, shape, total, results[0])

    def _block_of(self, summed: Sequence[Expr]) -> int | None:
        """How many terms a block has; None where sums are not cut."""
        terms = summed[0].constant if len(summed) == 1 else None
        if self.block is None or terms is None or terms <= self.block.value.data:
            return None
        most = self.block.value.data
        return next((size for size in range(most, most // 2, -1) if terms % size == 0), None)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The cotangent contracted with the other operands, for each operand."""
        return [self._gradient(b, cotangents[0], at) for at in range(len(self.inputs))]

    def _gradient(self, b: GraphBuilder, cotangent: SSAValue, position: int) -> SSAValue:
        terms, result = self.terms
        extents = self.extents()
        letters = terms[position]
        others = [at for at in range(len(terms)) if at != position]
        sources = [result, *(terms[at] for at in others)]
        unique = "".join(dict.fromkeys(letters))
        kept = "".join(c for c in unique if any(c in source for source in sources))
        operands = [cotangent, *(self.inputs[at] for at in others)]
        equation = f"{','.join(sources)}->{kept}"
        total = Term(b, b.einsum(*operands, equation=equation))
        firsts = [c in kept and c not in letters[:at] for at, c in enumerate(letters)]
        dims = [extents[c] if first else 1 for first, c in zip(firsts, letters, strict=True)]
        total = total.reshape(dims)
        for at, letter in enumerate(letters):
            if letter in letters[:at]:
                mask = _diagonal(b, extents[letter], letters.index(letter), at, len(letters))
                total = total * mask.cast(total.type.element)
        total = total.expand([extents[letter] for letter in letters])
        return sum_to(b, total.value, self.inputs[position])


def _subscripts(letters: str, dims: Shape, loop_indices: dict[str, Expr]) -> list[Expr]:
    """Where an operand is read; dims of 1 are read at 0."""
    pairs = zip(letters, dims, strict=True)
    return [Expr.of(0) if dim == 1 else loop_indices[letter] for letter, dim in pairs]


def _diagonal(b: GraphBuilder, size: Expr, first: int, second: int, rank: int) -> Term:
    """Where two axes of a tensor of that rank have the same index."""
    steps = [
        counted(b, size).reshape([size if at == axis else 1 for at in range(rank)])
        for axis in (first, second)
    ]
    return steps[0].equals(steps[1])


OPS: tuple[type[EinsumOp], ...] = (EinsumOp,)
