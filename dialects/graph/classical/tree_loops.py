"""The loops of `graph.tree_ensemble`: rows of one tree go down together, or trees of one row."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.accumulate import highest, lowest
from weft.dialects.graph.core.types import I32, UI32, TensorType
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, width
from weft.dialects.loop.types import buffer_type_of

BLOCK = 64
"""Rows, or trees, that go down together: what one of them waits for, others hide."""

VECTOR = 16
"""Lanes of the widest vectors."""

FEW_ROWS = 28
"""Up to which trees go down together and not rows."""

FEW_MASKED = 8
"""The same where rows have masks."""

TOTAL_BYTES = 128 * 1024
"""Of the totals of a block that a thread keeps on its stack."""

NODE_BYTES = 12
CACHED_BYTES = 1 << 20
"""Of trees that stay in a cache while all rows go down them."""

CHUNK = 8
"""Blocks of rows that go down a tree while it is there, where trees do not all stay."""


def start_of(combiner: str, result: TensorType) -> float:
    """What a combination of no trees is."""
    element = result.element
    return {"add": 0.0, "min": highest(element), "max": lowest(element)}[combiner]


class Ensemble(Struct, frozen=True):
    """What the loops of an operator depend on: types of its operands and of its result, how trees
    are combined, a code's bits, whether a NaN may be a yes, and whether there are masks.
    """

    rows: TensorType
    codes: TensorType
    roots: TensorType
    weights: TensorType
    result: TensorType
    combiner: str
    bits: int
    tracks_missing: bool
    has_masks: bool

    @property
    def target_count(self) -> int:
        """How many numbers a row gets."""
        return self.result.shape[1].constant or 0


ValueAt = Callable[[Scalar, Expr], Scalar]
"""The value of a code's feature in a lane."""


class Walk(Struct, frozen=True):
    """The loops of one operator. Blocks have a constant number of lanes; those behind the end
    repeat what is at the end.
    """

    b: LoopBuilder
    op: Ensemble
    operands: Buffers
    result: SSAValue

    def fits_stack(self, blocks: int = 1) -> bool:
        """Whether there is room for the totals of so many blocks of rows."""
        total_bytes = self.op.target_count * width(self.op.result.element) // 8
        return total_bytes * BLOCK * blocks <= TOTAL_BYTES

    # Rows together

    def rows_together(self) -> None:
        """for chunks of rows: for trees: for blocks of a chunk: for levels: for rows: a step"""
        b, (count, targets) = self.b, self.op.result.shape
        blocks = self._blocks_of_chunk
        chunk = BLOCK * blocks
        with b.loops([count.ceildiv(chunk)]) as (number,):
            rows = minimum([count - number * chunk, chunk])
            totals = b.scratch([self.op.target_count, chunk], self.op.result.element, "total")
            with b.loops([targets, chunk], "kl") as index:
                b.store(totals, index, self._nothing())
            columns = self._columns(number * BLOCK) if self.has_masks else None
            used = rows.ceildiv(BLOCK) if blocks > 1 else 1
            with b.loops([self._trees, used], "tb") as (tree, block):
                leaves = b.scratch([BLOCK], I32, "leaf")
                if columns is not None:
                    self._mask(leaves, columns, tree)
                else:
                    first = number * chunk + block * BLOCK
                    self._walk_rows(leaves, tree, self._of_block(first, count - 1 - first))
                self._combine_rows(totals, leaves, tree, block)
            with b.loops([rows, targets], "lk") as (lane, k):
                b.store(self.result, [number * chunk + lane, k], b.load(totals, [k, lane]))

    @property
    def _blocks_of_chunk(self) -> int:
        """How many blocks go down a tree one after the other: several where no cache near by holds
        all trees.
        """
        nodes = self.op.codes.shape[0].constant or 0
        if self.has_masks:
            return 1
        return CHUNK if nodes * NODE_BYTES > CACHED_BYTES and self.fits_stack(CHUNK) else 1

    def _walk_rows(self, leaves: SSAValue, tree: Expr, value_at: ValueAt) -> None:
        """The leaves of one tree that rows walk to."""
        b = self.b
        root = b.load(self.operands[4], [tree])
        with b.loops([BLOCK], "l") as (lane,):
            b.store(leaves, [lane], root)
        depth = b.subscript(b.load(self.operands[5], [tree]))
        self._descend(leaves, BLOCK, depth, value_at)

    @property
    def has_masks(self) -> bool:
        """Whether leaves are found by masks: rows are read along columns then, of which the stack
        has to have room for a copy.
        """
        rows = self.op.rows
        row_bytes = (rows.shape[1].constant or TOTAL_BYTES) * width(rows.element) // 8
        return self.op.has_masks and row_bytes * BLOCK <= TOTAL_BYTES

    def _columns(self, first: Expr) -> SSAValue:
        """A transposed copy of a block of rows; those behind the end repeat the last."""
        b, (count, features) = self.b, self.op.rows.shape
        columns = b.scratch([features.constant or 0, BLOCK], self.op.rows.element, "columns")
        with b.loops([BLOCK, features], "lf") as (lane, feature):
            row = first + minimum([lane, count - 1 - first])
            b.store(columns, [feature, lane], b.load(self.operands[0], [row, feature]))
        return columns

    def _mask(self, leaves: SSAValue, columns: SSAValue, tree: Expr) -> None:
        """The leaves of one tree that no answer takes out."""
        b, (masks, places, spans) = self.b, self.operands[8:]
        first, count, leaf = (b.load(spans, [tree, part]) for part in range(3))
        bits, last = buffer_type_of(masks).element, buffer_type_of(masks).shape[0] - 1
        left, all_bits = b.scratch([BLOCK], bits, "left"), b.constant(-1, bits)
        with b.loops([BLOCK], "l") as (lane,):
            b.store(left, [lane], all_bits)
        with b.loops([b.subscript(count)], "q") as (q,):
            question = b.subscript(self._bounded(first + b.index(q, I32), last))
            position = b.subscript(self._node(b.load(places, [question])))
            code, threshold = (b.load(each, [position]) for each in self.operands[1:3])
            mask = b.load(masks, [question])
            column = self._feature(code)
            with b.loops([BLOCK], "l") as (lane,):
                yes = self._answer(b.load(columns, [column, lane]), threshold, code)
                stays = yes.select(all_bits, mask)
                b.store(left, [lane], b.load(left, [lane]) & stays)
        with b.loops([BLOCK], "l") as (lane,):
            b.store(leaves, [lane], b.load(left, [lane]).math("cttz").cast(I32) + leaf)

    def _combine_rows(self, totals: SSAValue, leaves: SSAValue, tree: Expr, block: Expr) -> None:
        """What a tree has for each row of a block."""
        b = self.b
        with b.loops([self._width], "k") as (k,):
            target = self._target(tree, k)
            with b.loops([BLOCK], "l") as (lane,):
                weight = self._weight(b.load(leaves, [lane]), k)
                place = [target, block * BLOCK + lane]
                b.store(totals, place, self._combined(b.load(totals, place), weight))

    def _of_block(self, first: Expr, last_lane: Expr) -> ValueAt:
        def value_at(code: Scalar, lane: Expr) -> Scalar:
            row = first + minimum([lane, last_lane])
            return self.b.load(self.operands[0], [row, self._feature(code)])

        return value_at

    # Trees together

    def trees_together(self) -> None:
        """for rows: for blocks of trees: for levels: for trees of the block: a step"""
        b, rows, lanes = self.b, self.op.rows.shape[0], self._trees_of_block
        with b.loops([rows]) as (row,):
            with b.loops([self.op.target_count], "k") as (k,):
                b.store(self.result, [row, k], self._nothing())
            with b.loops([self._trees.ceildiv(lanes)], "t") as (block,):
                leaves = b.scratch([lanes], I32, "leaf")
                last = self._trees - 1 - block * lanes
                with b.loops([lanes], "l") as (lane,):
                    tree = block * lanes + minimum([lane, last])
                    b.store(leaves, [lane], b.load(self.operands[4], [tree]))
                self._descend(leaves, lanes, self._deepest(block, last), self._of_row(row))
                self._combine_trees(row, leaves, block, last)

    @property
    def _trees_of_block(self) -> int:
        """As many lanes as there are trees, in whole vectors where those are several."""
        trees = min(self._trees.constant or BLOCK, BLOCK)
        return trees if trees < VECTOR else -(-trees // VECTOR) * VECTOR

    def _deepest(self, block: Expr, last_lane: Expr) -> Expr:
        """The depth of the deepest of a block's trees."""
        b, lanes = self.b, self._trees_of_block
        deepest = b.scratch([1], I32, "depth")
        b.store(deepest, [0], b.constant(0, I32))
        with b.reduce([lanes], "max", "l") as (lane,):
            depth = b.load(self.operands[5], [block * lanes + minimum([lane, last_lane])])
            b.store(deepest, [0], b.load(deepest, [0]).maximum(depth))
        return b.subscript(b.load(deepest, [0]))

    def _of_row(self, row: Expr) -> ValueAt:
        def value_at(code: Scalar, lane: Expr) -> Scalar:
            return self.b.load(self.operands[0], [row, self._feature(code)])

        return value_at

    def _combine_trees(self, row: Expr, leaves: SSAValue, block: Expr, last_lane: Expr) -> None:
        """What each tree of a block has for a row, one after the other."""
        b, element, lanes = self.b, self.op.result.element, self._trees_of_block
        with b.loops([self._width], "k") as (k,):
            weights = b.scratch([lanes], element, "weight")
            with b.loops([lanes], "l") as (lane,):
                b.store(weights, [lane], self._weight(b.load(leaves, [lane]), k))
            with b.loops([minimum([last_lane + 1, lanes])], "l") as (lane,):
                target = self._target(block * lanes + lane, k)
                total, weight = b.load(self.result, [row, target]), b.load(weights, [lane])
                b.store(self.result, [row, target], self._combined(total, weight))

    # Parts of both

    @property
    def _trees(self) -> Expr:
        return self.op.roots.shape[0]

    @property
    def _width(self) -> Expr:
        """How many targets a leaf has numbers for."""
        return self.op.weights.shape[1]

    def _nothing(self) -> Scalar:
        """What a combination of no trees is."""
        start = start_of(self.op.combiner, self.op.result)
        return self.b.constant(start, self.op.result.element)

    def _descend(self, nodes: SSAValue, lanes: int, depth: Expr, value_at: ValueAt) -> None:
        """All lanes' steps from one level to the next, down to the leaves, and which these are."""
        b = self.b
        with b.loops([depth], "d"), b.loops([lanes], "l") as (lane,):
            node = b.load(nodes, [lane])
            b.store(nodes, [lane], self._step(node, value_at, lane))
        with b.loops([lanes], "l") as (lane,):
            node = b.subscript(self._node(b.load(nodes, [lane])))
            b.store(nodes, [lane], b.load(self.operands[3], [node]))

    def _step(self, node: Scalar, value_at: ValueAt, lane: Expr) -> Scalar:
        """Where a lane stands one level further down."""
        b, node = self.b, self._node(node)
        position = b.subscript(node)
        code = b.load(self.operands[1], [position])
        yes = self._answer(value_at(code, lane), b.load(self.operands[2], [position]), code)
        return yes.select(node + 1, code.shift_right(self.op.bits).cast(I32))

    def _answer(self, value: Scalar, threshold: Scalar, code: Scalar) -> Scalar:
        """Whether the answer to a question is yes."""
        yes = value <= threshold
        if not self.op.tracks_missing:
            return yes
        return yes | (value.is_nan() & (code & 1).compare("ne", 0))

    def _target(self, tree: Expr, k: Expr) -> Expr:
        """The target of a tree's numbers k."""
        last = self.op.target_count - self._width
        if last == 0:
            return k
        first = self.b.load(self.operands[7], [tree])
        return self.b.subscript(self._bounded(first, last)) + k

    def _weight(self, leaf: Scalar, k: Expr) -> Scalar:
        """The number k of a leaf."""
        bounded = self._bounded(leaf, self.op.weights.shape[0] - 1)
        return self.b.load(self.operands[6], [self.b.subscript(bounded), k])

    def _combined(self, total: Scalar, weight: Scalar) -> Scalar:
        if self.op.combiner == "add":
            return total + weight
        return total.minimum(weight) if self.op.combiner == "min" else total.maximum(weight)

    def _node(self, node: Scalar) -> Scalar:
        return self._bounded(node, self.op.codes.shape[0] - 1)

    def _feature(self, code: Scalar) -> Expr:
        """The column of a code's feature."""
        feature = code.shift_right(1) & (1 << (self.op.bits - 1)) - 1
        return self.b.subscript(self._bounded(feature.cast(I32), self.op.rows.shape[1] - 1))

    def _bounded(self, number: Scalar, last: Expr) -> Scalar:
        """A number of 32 bits from 0 to the last."""
        limit = self.b.index(last, I32).bitcast(UI32)
        return number.bitcast(UI32).minimum(limit).bitcast(I32)
