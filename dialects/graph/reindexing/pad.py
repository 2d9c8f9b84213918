"""The operator that puts something around a tensor, or crops it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.batching import again, only_first
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.movement import IndexMapOp
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array

MODES = ("constant", "edge", "reflect", "wrap")


@irdl_op_definition
class PadOp(IndexMapOp):
    """Elements before and behind each axis; negative numbers crop.

    `pads` lists those before each axis, then those behind. Modes: `constant` (the scalar `value`,
    0 without one), `edge`, `reflect` (about the outermost element), `wrap`.
    """

    name = "graph.pad"
    operand: SSAValue = operand_def(TensorType)  # again, for it comes first
    value: SSAValue | None = opt_operand_def(TensorType)
    pads: ShapeAttr = prop_def(ShapeAttr)
    mode: StringAttr = prop_def(StringAttr)

    @property
    def before(self) -> tuple[Expr, ...]:
        """How many elements come before each axis."""
        return exprs(self.pads)[: len(exprs(self.pads)) // 2]

    @property
    def behind(self) -> tuple[Expr, ...]:
        """How many elements come behind each axis."""
        return exprs(self.pads)[len(exprs(self.pads)) // 2 :]

    def infer(self) -> Sequence[TensorType]:
        source, *value = self.tensor_types()
        mode = self.mode.data
        self.require(mode in MODES, f"a mode out of {', '.join(MODES)}", mode)
        self.require(value in ([], [tensor([], source.element)]), "a scalar value", value)
        if not source.has_rank:
            return [source]
        count = len(exprs(self.pads))
        self.require(count == 2 * source.rank, f"{2 * source.rank} pads", count)
        sides = zip(source.shape, self.before, self.behind, strict=True)
        dims = [dim + before + behind for dim, before, behind in sides]
        self.require(not any(map(below_zero, dims)), "dims of 0 or more", self.pads)
        empty = [dim for dim, new in zip(source.shape, dims, strict=True) if dim == 0 != new]
        self.require(mode == "constant" or not empty, "elements to pad with", source)
        return [tensor(dims, source.element)]

    def sharding_rule(self) -> ShardingRule | None:
        sides = enumerate(zip(self.before, self.behind, strict=True))
        factors = whole_but(self.result_type.rank, [at for at, pads in sides if pads != (0, 0)])
        return ShardingRule((factors, ()) if self.value else (factors,), (factors,))

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """No axis is cropped by more than it has; one that is padded has what to pad with."""
        pairs = zip(type_of(self.operand).shape, self.result_type.shape, strict=True)
        return [
            pair
            for dim, new in pairs
            for pair in (
                *at_least(new, 0),
                *([] if self.mode.data == "constant" else at_least(dim, minimum([new, 1]))),
            )
        ]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, *value = operands
        before, shape = numbers(self, self.pads)[: x.ndim], self.result_type.static_shape or ()
        indices = [np.arange(size) - start for size, start in zip(shape, before, strict=True)]
        kept = [(i >= 0) & (i < dim) for i, dim in zip(indices, x.shape, strict=True)]
        if self.mode.data == "constant":
            result = np.full(shape, value[0] if value else 0, x.dtype)
            targets = [np.flatnonzero(k) for k in kept]
            result[np.ix_(*targets)] = x[
                np.ix_(*(i[k] for i, k in zip(indices, kept, strict=True)))
            ]
            return [result]
        sources = [self._source(i, dim) for i, dim in zip(indices, x.shape, strict=True)]
        return [x[np.ix_(*sources)]]

    def _source(self, index: Array, dim: int) -> Array:
        if self.mode.data == "edge":
            return np.clip(index, 0, dim - 1)
        if self.mode.data == "wrap":
            return index % dim
        turned = index % max(2 * (dim - 1), 1)
        return np.minimum(turned, 2 * (dim - 1) - turned)

    def fold(self) -> Sequence[SSAValue] | None:
        """Nothing to add."""
        return [self.operand] if all(pad == 0 for pad in exprs(self.pads)) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        if self.mode.data != "constant":
            return [self._with_borders(cotangents[0], b)]
        cropped = ShapeAttr(tuple(-pad for pad in exprs(self.pads)))
        kept = b.pad(cotangents[0], pads=cropped, mode="constant")
        if self.value is None:
            return [kept]
        axes = list(range(self.result_type.rank))
        total, inside = (
            b.reduce_sum(part, axes=axes, keepdims=False) for part in (cotangents[0], kept)
        )
        return [kept, b.sub(total, inside)]

    def _with_borders(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The cotangents of elements, those of their copies on the borders added."""
        for axis, (before, behind) in enumerate(zip(self.before, self.behind, strict=True)):
            dim = type_of(self.operand).shape[axis]
            self._require_single(before, behind, dim)
            total = _part(b, cotangent, axis, before, dim)
            for start, size, front in ((Expr.of(0), before, True), (before + dim, behind, False)):
                if size == 0:
                    continue
                border = _part(b, cotangent, axis, start, size)
                if self.mode.data == "edge":
                    border = b.reduce_sum(border, axes=[axis], keepdims=True)
                index, step = self._origin(before if front else None, dim)
                total = b.add(total, _placed(b, border, axis, dim, index, step))
            cotangent = total
        return cotangent

    def _origin(self, before: Expr | None, dim: Expr) -> tuple[Expr, int]:
        """The index that a border's first element is a copy of, and the step to the next one's; the
        border in front has `before` elements.
        """
        match self.mode.data:
            case "edge":
                return (Expr.of(0) if before is not None else dim - 1), 1
            case "wrap":
                return (dim - before if before is not None else Expr.of(0)), 1
            case _:
                return (before if before is not None else dim - 2), -1

    def _require_single(self, before: Expr, behind: Expr, dim: Expr) -> None:
        """Refuses borders that copy an element twice, or crop."""
        most = {"wrap": dim, "reflect": dim - 1}.get(self.mode.data)
        rests = [before, behind] + ([] if most is None else [most - before, most - behind])
        if any((each.range({})[0] or 0) < 0 or each.range({})[0] is None for each in rests):
            rule = f"borders within 0 and {most or 'any size'}, in mode {self.mode.data}"
            raise WeftError(f"{self.name} requires {rule}, to be differentiated, got {self.pads}")

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        dims = type_of(self.operand).shape
        axes = zip(index, self.before, dims, strict=True)
        return [self._source_expr(position - before, dim) for position, before, dim in axes]

    def _source_expr(self, index: Expr, dim: Expr) -> Expr:
        if self.mode.data == "edge":
            return maximum([minimum([index, dim - 1]), 0])
        if self.mode.data == "wrap":
            return index % dim
        last = 2 * (dim - 1)
        turned = index % maximum([last, 1])
        return minimum([turned, last - turned])

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        if not only_first(self, operands):
            return None
        zero = Expr.of(0)
        return again(self, operands, b, pads=ShapeAttr((zero, *self.before, zero, *self.behind)))

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        if self.mode.data != "constant":
            super().lower(b, operands, results)
            return
        tensor_type = self.result_type
        with b.loops(tensor_type.shape) as index:
            around = (
                b.load(operands[1], []) if len(operands) > 1 else b.constant(0, tensor_type.element)
            )
            b.store(results[0], index, around)
        self._lower_inside(b, operands[0], results[0])

    def _lower_inside(self, b: LoopBuilder, operand: SSAValue, result: SSAValue) -> None:
        """Copies what is not cropped."""
        skipped = [maximum([-before, 0]) for before in self.before]
        dropped = [maximum([-behind, 0]) for behind in self.behind]
        dims = type_of(self.operand).shape
        kept = [d - first - last for d, first, last in zip(dims, skipped, dropped, strict=True)]
        with b.loops(kept) as index:
            source = [i + first for i, first in zip(index, skipped, strict=True)]
            target = [
                i + maximum([before, 0]) for i, before in zip(index, self.before, strict=True)
            ]
            b.store(result, target, b.load(operand, source))


def _part(b: GraphBuilder, x: SSAValue, axis: int, start: Expr, size: Expr) -> SSAValue:
    """The elements along one axis from `start` on."""
    dims = list(type_of(x).shape)
    starts = [Expr.of(0)] * len(dims)
    dims[axis], starts[axis] = size, start
    sizes = ShapeAttr(tuple(dims))
    return b.slice(x, starts=ShapeAttr(tuple(starts)), sizes=sizes, steps=[1] * len(dims))


def _placed(b: GraphBuilder, x: SSAValue, axis: int, dim: Expr, start: Expr, step: int) -> SSAValue:
    """Zeros, `dim` along one axis, but the elements there from `start` on."""
    dims = list(type_of(x).shape)
    starts, steps = [Expr.of(0)] * len(dims), [1] * len(dims)
    dims[axis], starts[axis], steps[axis] = dim, start, step
    shape, begins = ShapeAttr(tuple(dims)), ShapeAttr(tuple(starts))
    return b.scatter_slice(x, shape=shape, starts=begins, steps=steps)


OPS: tuple[type[GraphOp], ...] = (PadOp,)
