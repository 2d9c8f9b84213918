"""Probabilities of classes from those of each against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F32, F64, I32, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array


@irdl_op_definition
class CoupleProbabilitiesOp(GraphOp):
    """`p[n]`: the probabilities that agree best with `x[n, i, j]`, that of class i against class j:
    the least of the sum of `(x[j, i] * p[i] - x[i, j] * p[j]) ** 2`, whose diagonal is 0.

    Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling"
    (2004), algorithm 2: one class after the other, until nothing is off by more than 0.005 divided
    by the number of `classes`.
    """

    name = "graph.couple_probabilities"
    ITERATIONS: ClassVar = 100
    TOLERANCE: ClassVar = 0.005
    operand: SSAValue = operand_def(TensorType)
    classes: ShapeAttr = prop_def(ShapeAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        pairs = type_of(self.operand)
        classes = self.classes.data or ()
        fits = pairs.has_rank and pairs.shape[1:] == (*classes, *classes) and len(classes) == 1
        is_float = pairs.element in (F32, F64)
        self.require(is_float and fits, "a square of f32 or f64 for each row", pairs)
        self.require(self.count > 1, "two classes at least", pairs)
        return [tensor((pairs.shape[0], *classes), pairs.element)]

    @property
    def count(self) -> int:
        """How many classes there are."""
        return (self.classes.data or (Expr.of(0),))[0].constant or 0

    def reference(self, *operands: Array) -> Sequence[Array]:
        pairs = operands[0]
        rows = [_coupled(each, self.ITERATIONS, self.TOLERANCE / self.count) for each in pairs]
        return [np.array(rows, pairs.dtype).reshape(pairs.shape[:2])]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        with b.loops(type_of(self.operand).shape[:1]) as (row,):
            descent = Descent.started(b, operands[0], row, self.count)
            with b.loops([self.ITERATIONS], "r"):
                with b.when(descent.is_off):
                    descent.measure(self.TOLERANCE / self.count)
                with b.when(descent.is_off):
                    descent.step()
            with b.loops([self.count], "k") as (k,):
                b.store(results[0], [row, k], b.load(descent.p, [k]))


def _coupled(pairs: Array, iterations: int, tolerance: float) -> Array:
    """One row in NumPy."""
    matrix = -pairs * pairs.T
    np.fill_diagonal(matrix, (pairs * pairs).sum(0))
    p = np.full(len(pairs), 1 / len(pairs), pairs.dtype)
    for _ in range(iterations):
        product = matrix @ p
        total = p @ product
        if np.abs(product - total).max() < tolerance:
            break
        for k in range(len(p)):
            change = (total - product[k]) / matrix[k, k]
            p[k] += change
            rest = 1 + change
            total = (total + change * (change * matrix[k, k] + 2 * product[k])) / rest / rest
            product, p = (product + change * matrix[k]) / rest, p / rest
    return p


class Descent(Struct, frozen=True):
    """The state of one row: the matrix, the probabilities, their product with the matrix, the sum
    of that weighted by them, and whether it is off.
    """

    b: LoopBuilder
    classes: int
    element: Attribute
    matrix: SSAValue
    p: SSAValue
    product: SSAValue
    total: SSAValue
    off: SSAValue

    @staticmethod
    def started(b: LoopBuilder, pairs: SSAValue, row: Expr, classes: int) -> Descent:
        """All classes equally probable."""
        element = buffer_type_of(pairs).element
        descent = Descent(
            b,
            classes,
            element,
            matrix=b.scratch([classes, classes], element, "matrix"),
            p=b.scratch([classes], element, "p"),
            product=b.scratch([classes], element, "product"),
            total=b.scratch([1], element, "total"),
            off=b.scratch([1], I32, "off"),
        )
        b.store(descent.off, [0], b.constant(1, I32))
        with b.loops([classes], "i") as (i,):
            b.store(descent.p, [i], b.constant(1 / classes, element))
            with b.loops([classes], "j") as (j,):
                against = b.load(pairs, [row, j, i]) * b.load(pairs, [row, i, j])
                b.store(descent.matrix, [i, j], -against)
            b.store(descent.matrix, [i, i], b.constant(0, element))
            with b.loops([classes], "j") as (j,):
                against = b.load(pairs, [row, j, i])
                diagonal = b.load(descent.matrix, [i, i])
                b.store(descent.matrix, [i, i], diagonal + against * against)
        return descent

    @property
    def is_off(self) -> Scalar:
        """Whether another iteration is needed."""
        return self.b.load(self.off, [0]).compare("ne", 0)

    def measure(self, tolerance: float) -> None:
        """The product and its sum anew, and how far they are apart."""
        b = self.b
        b.store(self.total, [0], b.constant(0, self.element))
        b.store(self.off, [0], b.constant(0, I32))
        with b.loops([self.classes], "i") as (i,):
            b.store(self.product, [i], b.constant(0, self.element))
            with b.loops([self.classes], "j") as (j,):
                more = b.load(self.matrix, [i, j]) * b.load(self.p, [j])
                b.store(self.product, [i], b.load(self.product, [i]) + more)
            more = b.load(self.p, [i]) * b.load(self.product, [i])
            b.store(self.total, [0], b.load(self.total, [0]) + more)
        with b.loops([self.classes], "i") as (i,):
            error = (b.load(self.product, [i]) - b.load(self.total, [0])).math("absf")
            off = (error >= tolerance).cast(I32)
            b.store(self.off, [0], b.load(self.off, [0]) | off)

    def step(self) -> None:
        """Each class in turn moves to where it is best, and all are made to add up to 1."""
        b = self.b
        with b.loops([self.classes], "k") as (k,):
            own, product = b.load(self.matrix, [k, k]), b.load(self.product, [k])
            total = b.load(self.total, [0])
            change = (total - product) / own
            rest = change + 1.0
            b.store(self.p, [k], b.load(self.p, [k]) + change)
            more = change * (change * own + product * 2.0)
            b.store(self.total, [0], (total + more) / rest / rest)
            with b.loops([self.classes], "j") as (j,):
                moved = b.load(self.product, [j]) + change * b.load(self.matrix, [k, j])
                b.store(self.product, [j], moved / rest)
                b.store(self.p, [j], b.load(self.p, [j]) / rest)


OPS = (CoupleProbabilitiesOp,)
