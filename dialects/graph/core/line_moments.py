"""What normalisations share: elements less the mean of their line, over its standard deviation.

Mean and variance are taken in two passes, in f32 for f16 and bf16.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.accumulate import start_totals, widen
from weft.dialects.graph.core.broadcast import (
    broadcast_assumptions,
    broadcast_index,
    broadcast_shapes,
)
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import sum_to
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import FLOATS, Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.ops.reduce import mean_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.weights import Array


class Lines(Struct, frozen=True):
    """A tensor's elements in lines along `axes`, each normalised apart.

    The tensor is seen under the dims `view`, which are its own but that its channels, dim 1, may be
    split into groups and channels of a group (`grouped`).
    """

    view: Shape
    axes: tuple[int, ...]
    grouped: bool = False

    @property
    def outer(self) -> Shape:
        """A dim for each that is no axis: one element for each line."""
        return tuple(dim for axis, dim in enumerate(self.view) if axis not in self.axes)

    @property
    def inner(self) -> Shape:
        """The dims of a line."""
        return tuple(self.view[axis] for axis in self.axes)

    def index(self, line: Sequence[Expr], within: Sequence[Expr]) -> list[Expr]:
        """The index under the view of an element of a line."""
        outer, inner = iter(line), iter(within)
        return [next(inner if axis in self.axes else outer) for axis in range(len(self.view))]

    def line(self, index: Sequence[Expr]) -> list[Expr]:
        """The line of the element at an index under the view."""
        return [i for axis, i in enumerate(index) if axis not in self.axes]

    def index_at(self, index: Sequence[Expr]) -> list[Expr]:
        """The index in the tensor of an index under the view."""
        if not self.grouped:
            return list(index)
        return [index[0], index[1] * self.view[2] + index[2], *index[3:]]

    def mean(self, b: LoopBuilder, source: SSAValue, element: Attribute) -> SSAValue:
        """A temporary with the mean of each line."""
        total = start_totals(b, self.outer, element, 0)
        with b.loops(self.outer) as line, b.reduce(self.inner, "add") as within:
            x = b.load(source, self.index_at(self.index(line, within)))
            b.store(total, line, b.load(total, line) + x)
        return self._over_count(b, total, element, "mean")

    def variance(
        self, b: LoopBuilder, source: SSAValue, element: Attribute, mean: SSAValue | None
    ) -> SSAValue:
        """A temporary with the mean square of each line, taken less its mean if that is given."""
        total = start_totals(b, self.outer, element, 0)
        with b.loops(self.outer) as line, b.reduce(self.inner, "add") as within:
            x = b.load(source, self.index_at(self.index(line, within)))
            centred = x if mean is None else x - b.load(mean, line)
            b.store(total, line, b.load(total, line) + centred * centred)
        return self._over_count(b, total, element, "variance")

    def _over_count(
        self, b: LoopBuilder, total: SSAValue, element: Attribute, name: str
    ) -> SSAValue:
        mean = b.temporary(self.outer, compute_type(element), name)
        with b.loops(self.outer) as line:
            b.store(mean, line, mean_of(b, b.load(total, line), product(self.inner)))
        return mean


class NormalizationOp(GraphOp):
    """A result of the type of `operand`, whose lines are brought to mean 0 and deviation 1."""

    CENTRES: ClassVar[bool] = True
    """Whether the mean is subtracted."""

    @property
    def source(self) -> SSAValue:
        """What is normalised: the first operand."""
        return self.operands[0]

    @abstractmethod
    def lines(self) -> Lines:
        """Which elements are normalised together; the operand's rank is known."""

    @abstractmethod
    def deviation(self, b: LoopBuilder, variance: Scalar) -> Scalar:
        """What elements are divided by."""

    @abstractmethod
    def evaluate_deviation(self, variance: Array) -> Array:
        """What elements are divided by, in NumPy."""

    def shape_of_parameter(self, parameter: SSAValue) -> Shape:
        """The dims under which a scale or bias is broadcast against the operand."""
        return type_of(parameter).shape

    @property
    def parameters(self) -> list[SSAValue]:
        """The scale and the bias, as far as there are."""
        return list(self.operands)[1:]

    def check_elements(self) -> bool:
        """Raises unless operands have one floating-point type; whether their ranks are known."""
        self.require_one_element(FLOATS, "floating-point elements")
        return all(each.has_rank for each in self.tensor_types())

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.source)
        if self.check_elements():
            self.lines()
            for parameter in self.parameters:
                shape = self.shape_of_parameter(parameter)
                fits = broadcast_shapes(self.name, [source.shape, shape]) == source.shape
                got = f"{type_of(parameter)} for {source}"
                self.require(fits, "a scale and a bias that broadcast to the operand", got)
        return [source]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """Scale and bias broadcast to the operand."""
        shapes = map(self.shape_of_parameter, self.parameters)
        source = type_of(self.source).shape
        return [pair for shape in shapes for pair in broadcast_assumptions(shape, source)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, *parameters = (widen(operand) for operand in operands)
        lines = self.lines()
        view = tensor(lines.view, type_of(self.source).element).static_shape or ()
        y = x.reshape(view)
        with np.errstate(all="ignore"):
            if self.CENTRES:
                y = y - np.mean(y, axis=lines.axes, keepdims=True)
            variance = np.mean(y * y, axis=lines.axes, keepdims=True)
            y = (y / self.evaluate_deviation(variance)).reshape(x.shape)
        shapes = [self.shape_of_parameter(parameter) for parameter in self.parameters]
        aligned = [
            parameter.reshape([int(dim.constant or 0) for dim in shape])
            for parameter, shape in zip(parameters, shapes, strict=True)
        ]
        y = y * aligned[0] if aligned else y
        return [(y + aligned[1] if len(aligned) > 1 else y).astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        lines, element = self.lines(), type_of(self.source).element
        mean = lines.mean(b, operands[0], element) if self.CENTRES else None
        variance = lines.variance(b, operands[0], element, mean)
        inverse = b.temporary(lines.outer, compute_type(element), "inverse")
        with b.loops(lines.outer) as line:
            deviation = self.deviation(b, b.load(variance, line))
            b.store(inverse, line, deviation.constant(1) / deviation)
        with b.loops(lines.view) as index:
            position, line = lines.index_at(index), lines.line(index)
            x = b.load(operands[0], position)
            centred = x if mean is None else x - b.load(mean, line)
            value = self._scaled(b, centred * b.load(inverse, line), position, operands)
            b.store(results[0], position, value)

    def _scaled(
        self, b: LoopBuilder, y: Scalar, index: Sequence[Expr], operands: Sequence[SSAValue]
    ) -> Scalar:
        """The value times the scale plus the bias, as far as there are."""
        for position, buffer in enumerate(operands[1:]):
            parameter = b.load(buffer, self.parameter_index(index, self.parameters[position]))
            y = y * parameter if position == 0 else y + parameter
        return y

    def parameter_index(self, index: Sequence[Expr], parameter: SSAValue) -> Sequence[Expr]:
        """Where in a scale or bias what belongs to an element stands."""
        return broadcast_index(index, type_of(parameter).shape)

    # The derivative ---------------------------------------------------------------------------

    @abstractmethod
    def graph_deviation(self, b: GraphBuilder, variance: SSAValue) -> SSAValue:
        """What elements are divided by, in graph operators."""

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dx = (g - mean(g) - n * mean(g * n)) / s` with the normalised `n`, `g = dy * scale`."""
        lines, source = self.lines(), type_of(self.source)
        view = ShapeAttr(lines.view)
        aligned = [
            b.reshape(parameter, shape=ShapeAttr(self.shape_of_parameter(parameter)))
            for parameter in self.parameters
        ]
        weighted = b.mul(cotangents[0], aligned[0]) if aligned else cotangents[0]
        normal, gradient = self._pull_back(
            b, b.reshape(self.source, shape=view), b.reshape(weighted, shape=view), lines
        )
        gradients = [b.reshape(gradient, shape=source.dims)]
        flat = b.reshape(normal, shape=source.dims)
        for parameter, shaped, share in zip(
            self.parameters, aligned, (b.mul(cotangents[0], flat), cotangents[0]), strict=False
        ):
            total = sum_to(b, share, shaped)
            gradients.append(b.reshape(total, shape=type_of(parameter).dims))
        return gradients

    def _pull_back(
        self, b: GraphBuilder, x: SSAValue, weighted: SSAValue, lines: Lines
    ) -> tuple[SSAValue, SSAValue]:
        """The normalised elements, and the cotangent of the elements from that of those."""

        def mean(value: SSAValue) -> SSAValue:
            return b.reduce_mean(value, axes=list(lines.axes), keepdims=True)

        centred = b.sub(x, mean(x)) if self.CENTRES else x
        variance = mean(b.mul(centred, centred))
        deviation = self.graph_deviation(b, variance)
        normal = b.div(centred, deviation)
        along = b.mul(self.graph_direction(b, centred, variance), mean(b.mul(weighted, normal)))
        gradient = b.sub(weighted, along)
        gradient = b.sub(gradient, mean(weighted)) if self.CENTRES else gradient
        return normal, b.div(gradient, deviation)

    def graph_direction(self, b: GraphBuilder, centred: SSAValue, variance: SSAValue) -> SSAValue:
        """The derivative of the deviation by each element, times the count."""
        return b.div(centred, self.graph_deviation(b, variance))


class StandardizationOp(NormalizationOp):
    """A normalisation that divides by `sqrt(variance + epsilon)`."""

    epsilon: FloatAttr[Any] = prop_def(FloatAttr)

    def deviation(self, b: LoopBuilder, variance: Scalar) -> Scalar:
        return (variance + self.epsilon.value.data).math("sqrt")

    def evaluate_deviation(self, variance: Array) -> Array:
        return np.sqrt(variance + variance.dtype.type(self.epsilon.value.data))

    def graph_deviation(self, b: GraphBuilder, variance: SSAValue) -> SSAValue:
        epsilon = b.constant_of(self.epsilon.value.data, type_of(variance).element)
        return b.sqrt(b.add(variance, epsilon))
