"""Normalisations: over a layer, a channel, a group of channels, a batch or a neighbourhood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def

from weft.dialects.expr import Expr, product
from weft.dialects.extent import is_allowed, too_large
from weft.dialects.graph.core.accumulate import fill, start_totals, widen
from weft.dialects.graph.core.algebra import Term, size_term
from weft.dialects.graph.core.axis import from_front
from weft.dialects.graph.core.batching import again, aligned, is_batched, merged, only_first
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import sum_to
from weft.dialects.graph.core.line_moments import Lines, NormalizationOp, StandardizationOp
from weft.dialects.graph.core.op import GraphOp, OnnxName, ints
from weft.dialects.graph.core.sharding_rule import ShardingRule, broadcast_factors, whole_but
from weft.dialects.graph.core.types import FLOATS, Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.ops.reduce import normalize_axes
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.weights import Array

EPSILON = 9.999999747378752e-06
"""ONNX's default: the f32 next to 1e-5."""


def trailing_lines(op: GraphOp, operand: SSAValue, axis: int) -> Lines:
    """Lines over all dims of the operand from `axis` on; a negative one counts from the end."""
    shape = type_of(operand).shape
    return Lines(shape, tuple(range(from_front(op, axis, len(shape)), len(shape))))


class TrailingOp(StandardizationOp):
    """A normalisation over the dims from `axis` on, with a scale that broadcasts to the operand."""

    axis: IntegerAttr[Any] = prop_def(IntegerAttr)

    def lines(self) -> Lines:
        return trailing_lines(self, self.source, self.axis.value.data)

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        """The scale and the bias are applied apart where they are not the same for all samples."""
        rank = type_of(self.operands[0]).rank
        axis = from_front(self, self.axis.value.data, rank) + 1
        if only_first(self, operands):
            return again(self, operands, b, axis=axis)
        x, *parameters = operands
        zeros = [b.filled(0, each) for each in self.operands[2:]]
        bare = [x, b.filled(1, self.operands[1]), *zeros]
        moved = is_batched(x, self.operands[0])
        (found,) = again(self, bare, b, axis=axis) if moved else again(self, bare, b)
        for apply, new, old in zip((b.mul, b.add), parameters, self.operands[1:], strict=False):
            found = apply(found, aligned(b, new, rank) if is_batched(new, old) else new)
        return [found]

    def sharding_rule(self) -> ShardingRule | None:
        """The dims in front of those that are normalised."""
        shapes = [each.shape for each in self.tensor_types()]
        rank, inner = len(shapes[0]), {f"d{axis}" for axis in self.lines().axes}
        if any(len(each) > rank for each in shapes):
            return None
        operands, _ = broadcast_factors(shapes, shapes[0])
        outer = tuple(tuple(None if d in inner else d for d in each) for each in operands)
        return ShardingRule(outer, (outer[0],))


@irdl_op_definition
class LayerNormOp(TrailingOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias` over the dims from `axis` on."""

    name = "graph.layer_norm"
    ONNX: ClassVar = OnnxName(
        "LayerNormalization", {"axis": ("axis", -1), "epsilon": ("epsilon", EPSILON)}
    )
    operand: SSAValue = operand_def(TensorType)
    scale: SSAValue = operand_def(TensorType)
    bias: SSAValue | None = opt_operand_def(TensorType)
    result: SSAValue = result_def(TensorType)


@irdl_op_definition
class RmsNormOp(TrailingOp):
    """`x / sqrt(mean(x^2) + epsilon) * scale` over the dims from `axis` on."""

    name = "graph.rms_norm"
    ONNX: ClassVar = OnnxName(
        "RMSNormalization", {"axis": ("axis", -1), "epsilon": ("epsilon", EPSILON)}
    )
    CENTRES: ClassVar = False
    operand: SSAValue = operand_def(TensorType)
    scale: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)


@irdl_op_definition
class LayerNormStatisticsOp(GraphOp):
    """What `layer_norm` computes first: the mean and `1 / sqrt(variance + epsilon)` of each line.

    Both keep the dims from `axis` on as dims of 1; of f16 and bf16 they are f32.
    """

    name = "graph.layer_norm_statistics"
    operand: SSAValue = operand_def(TensorType)
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    epsilon: FloatAttr[Any] = prop_def(FloatAttr)
    mean: SSAValue = result_def(TensorType)
    inverse_deviation: SSAValue = result_def(TensorType)

    def lines(self) -> Lines:
        """Which elements are normalised together."""
        return trailing_lines(self, self.operand, self.axis.value.data)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in FLOATS, "floating-point elements", source)
        element = compute_type(source.element)
        if not source.has_rank:
            return [tensor(None, element)] * 2
        lines = self.lines()
        ones = [Expr.of(1)] * len(lines.inner)
        return [tensor((*lines.outer, *ones), element)] * 2

    def sharding_rule(self) -> ShardingRule | None:
        factors = whole_but(type_of(self.operand).rank, self.lines().axes)
        return ShardingRule((factors,), (factors, factors))

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axes = widen(operands[0]), self.lines().axes
        mean = np.mean(x, axis=axes, keepdims=True)
        variance = np.mean((x - mean) ** 2, axis=axes, keepdims=True)
        return [mean, 1 / np.sqrt(variance + x.dtype.type(self.epsilon.value.data))]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        axis = from_front(self, self.axis.value.data, type_of(self.operand).rank)
        return again(self, operands, b, axis=axis + 1)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        lines, element = self.lines(), type_of(self.operand).element
        mean = lines.mean(b, operands[0], element)
        variance = lines.variance(b, operands[0], element, mean)
        zeros = [0] * len(lines.inner)
        with b.loops(lines.outer) as line:
            b.store(results[0], (*line, *zeros), b.load(mean, line))
            deviation = (b.load(variance, line) + self.epsilon.value.data).math("sqrt")
            b.store(results[1], (*line, *zeros), deviation.constant(1) / deviation)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`(dm - di * i^3 * (x - m)) / n` for lines of `n` elements, `m` and `i` the results."""
        mean, inverse = (Term(b, result) for result in self.results)
        x = Term(b, self.operand).cast(mean.type.element)
        slopes = Term(b, cotangents[1]) * inverse * inverse * inverse
        count = size_term(b, product(self.lines().inner), mean.type.element)
        gradient = (Term(b, cotangents[0]) - slopes * (x - mean)) / count
        return [gradient.cast(type_of(self.operand).element).value]


class ChannelOp(StandardizationOp):
    """A normalisation with a scale and a bias for each channel, dim 1."""

    operand: SSAValue = operand_def(TensorType)
    scale: SSAValue = operand_def(TensorType)
    bias: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def shape_of_parameter(self, parameter: SSAValue) -> Shape:
        return channel_shape(self, type_of(self.operand), type_of(parameter))

    def parameter_index(self, index: Sequence[Expr], parameter: SSAValue) -> Sequence[Expr]:
        return [index[1]]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)

    def sharding_rule(self) -> ShardingRule | None:
        factors = ("n", *[None] * (self.result_type.rank - 1))
        return ShardingRule((factors, (None,), (None,)), (factors,))


def channel_shape(op: GraphOp, tensor_type: TensorType, parameter: TensorType) -> Shape:
    """The dims under which a vector of an element per channel broadcasts to a tensor."""
    op.require(tensor_type.rank > 1, "an operand of rank 2 or more", tensor_type)
    fits = parameter.rank == 1 and parameter.shape[0] == tensor_type.shape[1]
    op.require(fits, "an element of each parameter per channel", f"{parameter} for {tensor_type}")
    return (tensor_type.shape[1], *[Expr.of(1)] * (tensor_type.rank - 2))


@irdl_op_definition
class InstanceNormOp(ChannelOp):
    """Each channel of each example brought to mean 0 and variance 1, then scaled and shifted."""

    name = "graph.instance_norm"
    ONNX: ClassVar = OnnxName("InstanceNormalization", {"epsilon": ("epsilon", EPSILON)})

    def lines(self) -> Lines:
        shape = type_of(self.operand).shape
        self.require(len(shape) > 2, "an operand of rank 3 or more", type_of(self.operand))
        return Lines(shape, tuple(range(2, len(shape))))


@irdl_op_definition
class GroupNormOp(ChannelOp):
    """`groups` groups of channels of each example brought to mean 0 and variance 1.

    Then each channel is scaled and shifted.
    """

    name = "graph.group_norm"
    ONNX: ClassVar = OnnxName(
        "GroupNormalization", {"num_groups": ("groups", None), "epsilon": ("epsilon", EPSILON)}
    )
    groups: IntegerAttr[Any] = prop_def(IntegerAttr)

    def lines(self) -> Lines:
        tensor_type, groups = type_of(self.operand), self.groups.value.data
        self.require(tensor_type.rank > 1, "an operand of rank 2 or more", tensor_type)
        fits = groups > 0 and tensor_type.shape[1] % groups == 0
        self.require(fits, "groups of equally many channels", f"{groups} for {tensor_type}")
        batch, channels, *spatial = tensor_type.shape
        view = (batch, Expr.of(groups), channels // groups, *spatial)
        return Lines(view, tuple(range(2, len(view))), grouped=True)


@irdl_op_definition
class MeanVarianceNormOp(NormalizationOp):
    """`(x - mean) / (sqrt(variance) + 1e-9)` over the attribute `axes`.

    Where the variance is 0, so is the derivative of its root.
    """

    name = "graph.mean_variance_norm"
    ONNX: ClassVar = OnnxName("MeanVarianceNormalization", {"axes": ("axes", [0, 2, 3])})
    MARGIN: ClassVar = 1e-9
    operand: SSAValue = operand_def(TensorType)
    axes: DenseArrayBase = prop_def(DenseArrayBase)
    result: SSAValue = result_def(TensorType)

    def lines(self) -> Lines:
        shape = type_of(self.operand).shape
        return Lines(shape, normalize_axes(self, ints(self.axes), len(shape)))

    def deviation(self, b: LoopBuilder, variance: Scalar) -> Scalar:
        return variance.math("sqrt") + self.MARGIN

    def evaluate_deviation(self, variance: Array) -> Array:
        return np.sqrt(variance) + variance.dtype.type(self.MARGIN)

    def graph_deviation(self, b: GraphBuilder, variance: SSAValue) -> SSAValue:
        margin = b.constant_of(self.MARGIN, type_of(variance).element)
        return b.add(b.sqrt(variance), margin)

    def graph_direction(self, b: GraphBuilder, centred: SSAValue, variance: SSAValue) -> SSAValue:
        zero, one = b.filled(0, variance), b.filled(1, variance)
        return b.div(centred, b.where(b.equal(variance, zero), one, b.sqrt(variance)))

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        axes = normalize_axes(self, ints(self.axes), type_of(self.operand).rank)
        return again(self, operands, b, axes=[axis + 1 for axis in axes])


@irdl_op_definition
class BatchNormOp(GraphOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, all given for each channel, dim 1."""

    name = "graph.batch_norm"
    operand: SSAValue = operand_def(TensorType)
    scale: SSAValue = operand_def(TensorType)
    bias: SSAValue = operand_def(TensorType)
    mean: SSAValue = operand_def(TensorType)
    variance: SSAValue = operand_def(TensorType)
    epsilon: FloatAttr[Any] = prop_def(FloatAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        tensor_types = self.tensor_types()
        listed = " and ".join(str(each) for each in tensor_types)
        self.require(
            all(each.element in FLOATS for each in tensor_types), "floating-point elements", listed
        )
        if all(each.has_rank for each in tensor_types):
            for parameter in tensor_types[1:]:
                channel_shape(self, tensor_types[0], parameter)
        return [tensor_types[0]]

    def sharding_rule(self) -> ShardingRule | None:
        factors = ("n", "c", *[None] * (self.result_type.rank - 2))
        return ShardingRule((factors, *[("c",)] * 4), (factors,))

    def reference(self, *operands: Array) -> Sequence[Array]:
        x = widen(operands[0])
        spatial = (1,) * (x.ndim - 2)
        scale, bias, mean, variance = (
            operand.astype(x.dtype).reshape(-1, *spatial) for operand in operands[1:]
        )
        factor = scale / np.sqrt(variance + x.dtype.type(self.epsilon.value.data))
        return [((x - mean) * factor + bias).astype(operands[0].dtype)]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """The factor of each channel first."""
        tensor_type = self.result_type
        wide = compute_type(tensor_type.element)
        factor = b.temporary((tensor_type.shape[1],), wide, "factor")
        with b.loops((tensor_type.shape[1],), "c") as channel:
            scale, variance = (b.load(operands[i], channel).cast(wide) for i in (1, 4))
            deviation = (variance + self.epsilon.value.data).math("sqrt")
            b.store(factor, channel, scale / deviation)
        with b.loops(tensor_type.shape) as index:
            channel = (index[1],)
            bias, mean = (b.load(operands[i], channel).cast(wide) for i in (2, 3))
            centred = b.load(operands[0], index) - mean
            b.store(results[0], index, centred * b.load(factor, channel) + bias)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        tensor_types = self.tensor_types()
        same = all(each.element == tensor_types[0].element for each in tensor_types)
        self.require(same, "one element type to be differentiated", tensor_types[0].element)
        shape = ShapeAttr(channel_shape(self, tensor_types[0], tensor_types[1]))
        scale, mean, variance = (
            b.reshape(value, shape=shape) for value in (self.scale, self.mean, self.variance)
        )
        epsilon = b.constant_of(self.epsilon.value.data, tensor_types[0].element)
        shifted = b.add(variance, epsilon)
        deviation = b.sqrt(shifted)
        normal = b.div(b.sub(self.operand, mean), deviation)
        gradient = b.mul(cotangents[0], b.div(scale, deviation))
        by_scale = sum_to(b, b.mul(cotangents[0], normal), scale)
        twice = b.add(shifted, shifted)
        by_variance = b.neg(b.div(b.mul(by_scale, scale), twice))
        by_bias, by_mean = sum_to(b, cotangents[0], scale), b.neg(sum_to(b, gradient, scale))
        parameters = (by_scale, by_bias, by_mean, by_variance)
        return [gradient, *(b.reshape(value, shape=tensor_types[1].dims) for value in parameters)]


@irdl_op_definition
class LrnOp(GraphOp):
    """`x / (bias + alpha / size * sum x^2)^beta`, summed over `size` neighbouring channels."""

    name = "graph.lrn"
    ONNX: ClassVar = OnnxName(
        "LRN",
        {
            "alpha": ("alpha", 9.999999747378752e-05),
            "beta": ("beta", 0.75),
            "bias": ("bias", 1.0),
            "size": ("size", None),
        },
    )
    REUSES_OPERANDS: ClassVar = True
    operand: SSAValue = operand_def(TensorType)
    alpha: FloatAttr[Any] = prop_def(FloatAttr)
    beta: FloatAttr[Any] = prop_def(FloatAttr)
    bias: FloatAttr[Any] = prop_def(FloatAttr)
    size: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def front(self) -> int:
        """How many of the neighbours come before the channel."""
        return (self.size.value.data - 1) // 2

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in FLOATS, "floating-point elements", source)
        self.require(self.size.value.data > 0, "a positive size", self.size.value.data)
        if source.has_rank:
            self.require(source.rank > 1, "an operand of rank 2 or more", source)
            batch, channels, *spatial = source.shape
            padded = (batch, channels + (self.size.value.data - 1), *spatial)
            constant_dims = [dim.constant for dim in padded if dim.constant is not None]
            if not is_allowed(constant_dims, 1):
                raise too_large(self.name, list(map(str, padded)))
        return [source]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, size = widen(operands[0]), self.size.value.data
        channels = x.shape[1]
        widths = [(0, 0), (self.front, size - 1 - self.front), *[(0, 0)] * (x.ndim - 2)]
        squares = np.pad(x * x, widths)
        total = sum(squares[:, start : start + channels] for start in range(size))
        alpha, beta, bias = (
            x.dtype.type(value.value.data) for value in (self.alpha, self.beta, self.bias)
        )
        base = bias + alpha / x.dtype.type(size) * total
        return [(x / base**beta).astype(operands[0].dtype)]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Squares go to a temporary with zero channels around them."""
        tensor_type, size = self.result_type, self.size.value.data
        batch, channels, *spatial = tensor_type.shape
        padded = (batch, channels + (size - 1), *spatial)
        squares = b.temporary(padded, compute_type(tensor_type.element), "squares")
        fill(b, squares, padded, 0, tensor_type.element)
        with b.loops(tensor_type.shape) as index:
            x = b.load(operands[0], index)
            b.store(squares, (index[0], index[1] + self.front, *index[2:]), x * x)
        total = start_totals(b, tensor_type.shape, tensor_type.element, 0)
        with b.loops(tensor_type.shape) as index, b.reduce([size], "add") as (k,):
            square = b.load(squares, (index[0], index[1] + k, *index[2:]))
            b.store(total, index, b.load(total, index) + square)
        factor = self.alpha.value.data / size
        with b.loops(tensor_type.shape) as index:
            x = b.load(operands[0], index)
            base = b.load(total, index) * factor + self.bias.value.data
            power = base.math("powf", base.constant(self.beta.value.data))
            b.store(results[0], index, x / power)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The slopes of the sums that an element is part of come back mirrored."""
        x, dy, size = Term(b, self.operand), Term(b, cotangents[0]), self.size.value.data
        alpha, beta, bias = (value.value.data for value in (self.alpha, self.beta, self.bias))
        behind = size - 1 - self.front
        base = self._neighbours(b, x * x, self.front, behind) * (alpha / size) + bias
        power = x.of(b.pow(base.value, base.number(-beta).value))
        total = self._neighbours(b, dy * x * power / base, behind, self.front)
        return [(dy * power - total * x * (2 * alpha * beta / size)).value]

    @staticmethod
    def _neighbours(b: GraphBuilder, x: Term, front: int, behind: int) -> Term:
        """The sum of each channel and those `front` before and `behind` after it."""
        pads = [Expr.of(0)] * (2 * len(x.shape))
        pads[1], pads[len(x.shape) + 1] = Expr.of(front), Expr.of(behind)
        padded = x.of(b.pad(x.value, pads=ShapeAttr(tuple(pads)), mode="constant"))
        total = padded.part(1, 0, x.shape[1])
        for start in range(1, front + behind + 1):
            total = total + padded.part(1, start, x.shape[1])
        return total


OPS = (
    LayerNormOp, LayerNormStatisticsOp, RmsNormOp, InstanceNormOp, GroupNormOp, BatchNormOp,
    MeanVarianceNormOp, LrnOp,
)  # fmt: skip
