"""Ensembles of decision trees: questions about features as tables, which rows walk down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)

from weft.dialects.expr import Expr
from weft.dialects.graph.classical.tree_loops import FEW_MASKED, FEW_ROWS, Ensemble, Walk, start_of
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.batching import merged
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F32, F64, I32, I64, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


@irdl_op_definition
class TreeEnsembleOp(GraphOp):
    """`y[n, targets[t] + k] = combine over t of weights[leaf(n, t), k]`: of each tree the leaf that
    a row comes to.

    Nodes stand in the order in which rows go down: a question, the nodes of yes, those of no. A
    question is `x[n, feature] <= thresholds[q]`. From its lowest bit upwards a code says whether a
    NaN is a yes (with `missing`), which feature, up to `bits`, and where no leads; yes leads to the
    next node. A leaf's threshold is NaN, and no leads to itself; `leaves` says which leaf it is.
    From `roots[t]` a row takes `depths[t]` steps. Trees are combined in their order, by `add`,
    `min` or `max`. Numbers of nodes, features, leaves and targets that there are not are moved to
    the last one that there is.

    Trees of 32 leaves at most, or of 64, may have `masks` of as many bits, one for each question:
    `positions` is where it stands, and `spans[t]` the first question of a tree, how many it has,
    and its first leaf. Leaves have their order's numbers then, and where the answer is no, a mask
    takes the leaves of yes out of those that are left: a row comes to the first that stays
    (QuickScorer).
    """

    name = "graph.tree_ensemble"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    COMBINERS: ClassVar = ("add", "min", "max")
    operand: SSAValue = operand_def(TensorType)
    codes: SSAValue = operand_def(TensorType)
    thresholds: SSAValue = operand_def(TensorType)
    leaves: SSAValue = operand_def(TensorType)
    roots: SSAValue = operand_def(TensorType)
    depths: SSAValue = operand_def(TensorType)
    weights: SSAValue = operand_def(TensorType)
    targets: SSAValue = operand_def(TensorType)
    masks: SSAValue | None = opt_operand_def(TensorType)
    positions: SSAValue | None = opt_operand_def(TensorType)
    spans: SSAValue | None = opt_operand_def(TensorType)
    count: IntegerAttr[Any] = prop_def(IntegerAttr)
    combiner: StringAttr = prop_def(StringAttr)
    missing: BoolAttr = prop_def(BoolAttr)
    bits: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        rows, codes, thresholds, leaves, roots, depths, weights, targets = self._first_types()
        tables = (leaves, roots, depths, targets, *self.tensor_types()[9:])
        integers = all(each.element == I32 for each in tables) and codes.element in (I32, I64)
        self.require(integers, "tables of i32", " and ".join(map(str, (codes, *tables))))
        floats = rows.element in (F32, F64) and thresholds.element == rows.element
        self.require(floats, "thresholds of the rows' f32 or f64", f"{rows} and {thresholds}")
        self.require(weights.element in (F32, F64), "weights of f32 or f64", weights)
        self.require(rows.has_rank and rows.rank == 2, "rows of features", rows)
        self._require_tables()
        combiner, bits = self.combiner.data, self.code_bits
        self.require(combiner in self.COMBINERS, f"one of {self.COMBINERS}", combiner)
        self.require(0 < bits < 32, "from 1 to 31 bits", bits)
        width = weights.shape[1].constant or 1
        self.require(width <= self.target_count, "weights of some targets", weights)
        return [tensor((rows.shape[0], self.target_count), weights.element)]

    def _require_tables(self) -> None:
        """Tables have sizes that belong together: of nodes, of trees, of questions."""
        ranks = [each.rank if each.has_rank else None for each in self.tensor_types()]
        wanted = [2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2][: len(ranks)]
        self.require(ranks == wanted, "tables of ranks 1 and 2", ranks)
        _, codes, thresholds, leaves, roots, depths, weights, targets = (
            each.shape for each in self._first_types()
        )
        fits = thresholds == codes == leaves and depths == roots == targets
        listed = " and ".join(str(each) for each in self.tensor_types()[1:])
        sizes = [each.constant for each in (codes[0], roots[0], weights[0])]
        if self.spans is not None:
            masks, positions, spans = self.tensor_types()[8:]
            fits = fits and positions.shape == masks.shape and masks.element in (I32, I64)
            fits = fits and spans.shape[:1] == roots and spans.shape[1].constant in (None, 3)
            sizes.append(masks.shape[0].constant)
        self.require(fits, "tables for as many nodes and trees", listed)
        known = [size for size in sizes if size is not None]
        self.require(all(0 < size < 1 << 30 for size in known), "nodes, leaves and trees", listed)

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """There are a feature, a tree, nodes and leaves."""
        rows, codes, _, _, roots, _, weights, _ = (each.shape for each in self._first_types())
        sizes = [rows[1], codes[0], roots[0], *weights]
        fixed: list[tuple[Expr, Expr]] = []
        if self.masks is not None and self.spans is not None:
            sizes.append(type_of(self.masks).shape[0])
            fixed.append((type_of(self.spans).shape[1], Expr.of(3)))
        some = [pair for size in sizes for pair in at_least(size, 1)]
        within = at_least(Expr.of(self.target_count), weights[1])
        return [*some, *within, *(pair for pair in fixed if pair[0].constant is None)]

    def _first_types(self) -> list[TensorType]:
        return self.tensor_types()[:8]

    @property
    def target_count(self) -> int:
        """How many numbers a row gets."""
        return self.count.value.data

    @property
    def tracks_missing(self) -> bool:
        """Whether a NaN may be a yes."""
        return bool(self.missing.value.data)

    @property
    def code_bits(self) -> int:
        """How many of a code's bits are below where no leads."""
        return self.bits.value.data

    def reference(self, *operands: Array) -> Sequence[Array]:
        rows, codes, thresholds, leaves, roots, depths, weights, targets = operands[:8]
        combine = {"add": np.add, "min": np.minimum, "max": np.maximum}[self.combiner.data]
        start = start_of(self.combiner.data, self.result_type)
        total = np.full((len(rows), self.target_count), start, weights.dtype)
        numbers, last, bits = np.arange(len(rows)), len(codes) - 1, self.code_bits
        for root, depth, target in zip(roots, depths, targets, strict=True):
            node = np.full(len(rows), root)
            for _ in range(depth):
                node = _moved(node, last)
                feature = codes[node] >> 1 & (1 << (bits - 1)) - 1
                x = rows[numbers, _moved(feature, rows.shape[1] - 1)]
                yes = x <= thresholds[node]
                if self.tracks_missing:
                    yes |= np.isnan(x) & ((codes[node] & 1) == 1)
                node = np.where(yes, node + 1, codes[node] >> bits)
            leaf = _moved(leaves[_moved(node, last)], len(weights) - 1)
            first = int(_moved(target, self.target_count - weights.shape[1]))
            columns = slice(first, first + weights.shape[1])
            total[:, columns] = combine(total[:, columns], weights[leaf])
        return [total.astype(numpy_dtype(self.result_type.element))]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        rows, codes, _, _, roots, _, weights, _ = self._first_types()
        combiner, has_masks = self.combiner.data, self.spans is not None
        shape = (rows, codes, roots, weights, self.result_type)
        ensemble = Ensemble(*shape, combiner, self.code_bits, self.tracks_missing, has_masks)
        self._lower_by_rows(Walk(b, ensemble, operands, results[0]))

    def _lower_by_rows(self, walk: Walk) -> None:
        """Rows together, or where they are few trees."""
        b, rows = walk.b, type_of(self.operand).shape[0]
        few = FEW_MASKED if walk.has_masks else FEW_ROWS
        if not walk.fits_stack() or (rows.constant or few + 1) <= few:
            walk.trees_together()
        elif rows.constant is not None:
            walk.rows_together()
        else:
            with b.when(b.index(rows) <= few):
                walk.trees_together()
            with b.when(b.index(rows) > few):
                walk.rows_together()


def _moved(number: Any, last: int) -> Any:
    """As unsigned numbers of 32 bits, and at most the last: 0 to it."""
    return np.minimum(np.asarray(number).astype(np.int32).view(np.uint32), last).astype(np.int64)


OPS = (TreeEnsembleOp,)
