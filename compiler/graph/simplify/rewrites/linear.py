"""Constants beside convolutions and products go into their weights.

    conv(x, w, b) * c + d   ->   conv(x, w * c, b * c + d)
    batch_norm(conv(x, w), scale, bias, mean, variance)   ->   conv(x, w * factor, shift)
    (x * c) @ w   ->   x @ (c * w)

with a number for each channel of the result, or of the operand in front. A sum in front stays, for
what it cancels, such as a mean, would be lost where the product is rounded. A normalisation of
anything else becomes a product and a sum, which fuse.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.graph.match import only_user
from weft.compiler.graph.simplify.evaluate_constants import constant_of
from weft.compiler.graph.simplify.rewrites.expressions import Match, Operator, Rewrite, Value, graph
from weft.dialects.expr import Expr
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import F64, FLOATS, type_of
from weft.dialects.graph.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from weft.dialects.graph.ops.conv import ConvolutionOp, ConvOp, ConvTransposeOp
from weft.dialects.graph.ops.matmul import GemmOp, MatmulOp
from weft.dialects.graph.ops.normalize import BatchNormOp
from weft.dialects.weights import Array

x, w = Value("x"), Value("w", is_constant=True)
b, c = Value("b", is_constant=True), Value("c", is_constant=True)
parameters = tuple(Value(each, is_constant=True) for each in ("scale", "bias", "mean", "variance"))

BIASED = (ConvOp, ConvTransposeOp, GemmOp)
PRODUCTS = (*BIASED, MatmulOp)


class Linear(Struct, frozen=True):
    """A convolution or product, with the weights and the bias that it is to have; the bias of
    floats is computed in f64.
    """

    product: GraphOp
    weights: Term
    bias: Term | None

    @staticmethod
    def of(m: Match) -> Linear | None:
        """The operator that the match calls `product`, if all but its first operand is constant."""
        product = m.operators["product"]
        _, weights, *bias = (Term(m.b, value) for value in product.operands)
        known = all(constant_of(each.value, m.weights) is not None for each in bias)
        if not known or len(weights.shape) < 2:
            return None
        if isinstance(product, GemmOp) and product.scales[1] != 1:
            bias = [wide(each) * product.scales[1] for each in bias]
        return Linear(product, weights, wide(bias[0]) if bias else None)

    def row(self, constant: Term) -> Term | None:
        """A constant beside it as a number for each channel; None where it varies along others."""
        return _along(constant, self.axis, self.channels)

    def input_row(self, constant: Term) -> Term | None:
        """A constant beside its operand as a number for each channel of that."""
        operand, is_last = type_of(self.product.operands[0]), not self.is_convolution
        if isinstance(self.product, GemmOp):
            is_last = not self.product.transposes[0]
        axis = -1 if is_last else 1 - operand.rank
        return _along(constant, axis, operand.shape[axis])

    @property
    def axis(self) -> int:
        """The axis of channels in the result, counted from the end."""
        return 1 - self.product.result_type.rank if self.is_convolution else -1

    @property
    def channels(self) -> Expr:
        """How many channels the result has."""
        return self.product.result_type.shape[self.axis]

    @property
    def is_convolution(self) -> bool:
        """Whether channels are dim 1 of the result, else the last."""
        return isinstance(self.product, ConvolutionOp)

    def scaled(self, row: Term, by: str = "mul") -> Linear:
        """Each channel of the result times, or over, a number."""
        factors = self._factors(row.cast(self.weights.type.element), of_inputs=False)
        bias = None if self.bias is None else _combined(by, self.bias, wide(row))
        return replace(self, weights=_combined(by, self.weights, factors), bias=bias)

    def scaled_inputs(self, row: Term, by: str) -> Linear:
        """It where the operand's channels are not multiplied, or divided, any more."""
        factors = self._factors(row.cast(self.weights.type.element), of_inputs=True)
        return replace(self, weights=_combined(by, self.weights, factors))

    def _factors(self, row: Term, *, of_inputs: bool) -> Term:
        """A row of channels, of the result or the operand, in the shape of the weights."""
        product = self.product
        if not isinstance(product, ConvolutionOp):
            is_last = of_inputs == (isinstance(product, GemmOp) and product.transposes[1])
            return row if is_last else row.insert(1)
        first, each, *window = self.weights.shape
        ones = (1,) * len(window)
        if isinstance(product, ConvOp) != of_inputs:
            return row.reshape((first, 1, *ones))
        groups = product.groups
        rows = row.reshape((groups, 1, each)).expand((groups, first // groups, each))
        return rows.reshape((first, each, *ones))

    def shifted(self, row: Term, by: str = "add") -> Linear:
        """Each channel of the result plus, or less, a number; a matmul has no bias for that."""
        row = wide(row)
        alone = row if by == "add" else -row
        return replace(self, bias=alone if self.bias is None else _combined(by, self.bias, row))

    def built(self, m: Match) -> Term | None:
        """The operator anew; None where a number would leave its type, or the bias be larger."""
        if self.bias is not None and self._has_larger_bias(self.bias):
            return None
        parts = {"filter" if self.is_convolution else "weights": self.weights}
        if self.bias is not None:
            parts["bias"] = self.bias.cast(self.weights.type.element)
        values = [each.value for each in m.constants(**parts)]
        constants = [constant_of(value, m.weights) for value in values]
        if not all(_is_finite(each.array(m.weights)) for each in constants if each is not None):
            return None
        beta = {"beta": 1.0} if isinstance(self.product, GemmOp) else {}
        return m.again(self.product, m.values["x"], *values, **beta)

    def _has_larger_bias(self, bias: Term) -> bool:
        """Whether a bias would be a matrix that was a row or a column."""
        before = [type_of(value).size for value in self.product.operands[2:]]
        limits = [size.constant or 0 for size in (self.channels, *before)]
        return (bias.type.size.constant or 0) > max(limits)


def _along(constant: Term, axis: int, size: Expr) -> Term | None:
    """A constant as a row along an axis, counted from the end, of what it is beside; None where it
    varies along others.
    """
    shape = constant.shape
    own = shape[axis] if len(shape) >= -axis else 1
    if constant.type.size != own or own not in (1, size):
        return None
    return constant.reshape((own,)).expand((size,))


def _is_larger(term: Term, *others: Term) -> bool:
    """Whether a constant has more elements than each of those that it is computed of."""
    sizes = [each.type.size.constant or 0 for each in (term, *others)]
    return sizes[0] > max(sizes[1:])


def _is_finite(array: Array) -> bool:
    """Whether the sum of squares is a number, which is quicker than to look at each element."""
    flat = widen(array).reshape(-1)
    with np.errstate(all="ignore"):
        return bool(np.isfinite(flat @ flat))


def wide(term: Term) -> Term:
    """Floats as f64."""
    return term.cast(F64) if term.type.element in FLOATS else term


def _combined(name: str, one: Term, other: Term) -> Term:
    return one.of(one.b.op(name, one.value, other.value).results[0])


def _operation(op: GraphOp) -> str:
    return op.name.removeprefix("graph.")


def _into_weights(m: Match) -> Term | None:
    """Weights that others read too would be there twice; quotients of integers are rounded."""
    is_rounded = isinstance(m.root, DivOp) and m.root.result_type.element not in FLOATS
    if is_rounded or only_user(m.values["w"]) is None:
        return None
    linear = Linear.of(m)
    row = linear and linear.row(m["c"])
    return linear.scaled(row, _operation(m.root)).built(m) if linear and row else None


def _into_bias(m: Match) -> Term | None:
    linear = Linear.of(m)
    row = linear and linear.row(m["c"])
    return linear.shifted(row, _operation(m.root)).built(m) if linear and row else None


def _in_front(m: Match) -> tuple[Linear, Term] | None:
    """A product, and the constant beside its operand as a row of that one's channels."""
    linear = Linear.of(m)
    row = linear and linear.input_row(m["c"])
    is_wider = m.operators["beside"].result_type != type_of(m.values["x"])
    return None if linear is None or row is None or is_wider else (linear, row)


def _scale_in_front(m: Match) -> Term | None:
    """Zeros around an image stay zeros, whatever they are multiplied by."""
    found = _in_front(m)
    if found is None or only_user(m.values["w"]) is None:
        return None
    linear, row = found
    return linear.scaled_inputs(row, _operation(m.operators["beside"])).built(m)


def _into_both(m: Match) -> Term | None:
    """`(x @ w + b) * c` as `x @ (w * c) + b * c`."""
    bias = _combined(_operation(m.root), m["b"], m["c"])
    product = None if _is_larger(bias, m["b"], m["c"]) else _into_weights(m)
    if product is None:
        return None
    (bias,) = m.constants(bias=bias)
    return product + bias


def _affine(m: Match) -> tuple[Term, Term]:
    """The factor and the shift of each channel by which a batch is normalised, in f64."""
    scale, bias, mean, variance = (wide(m[each.name]) for each in parameters)
    factor = scale / (variance + m.op("norm", BatchNormOp).epsilon.value.data).math("sqrt")
    return factor, bias - mean * factor


def _normalised_product(m: Match) -> Term | None:
    factor, shift = _affine(m)
    linear = Linear.of(m)
    if linear is None or (m.root.result_type.rank != 2 and not linear.is_convolution):
        return None
    if not isinstance(linear.product, MatmulOp):
        return linear.scaled(factor).shifted(shift).built(m)
    product = linear.scaled(factor).built(m)
    if product is None:
        return None
    (bias,) = m.constants(bias=shift.cast(product.type.element))
    return product + bias


def _normalised(m: Match) -> Term:
    element, ones = m.root.result_type.element, (1,) * (m.root.result_type.rank - 2)
    factor, shift = (part.reshape((*part.shape, *ones)).cast(element) for part in _affine(m))
    factor, shift = m.constants(scale=factor, shift=shift)
    return m["x"] * factor + shift


def _sum_of_constants(m: Match) -> Term | None:
    total = m["b"] + m["c"]
    if _is_larger(total, m["b"], m["c"]):
        return None
    (total,) = m.constants(sum=total)
    return m["x"] + total


product = Operator(PRODUCTS, (x, w)).named("product").alone()
biased = Operator(BIASED, (x, w)).named("product").alone()
scaled = Operator((MulOp, DivOp), (x, c)).named("beside").alone()

LINEAR = (
    Rewrite("product * c", Operator((MulOp, DivOp), (product, c)), _into_weights, exact=False),
    Rewrite("product + c", Operator((AddOp, SubOp), (biased, c)), _into_bias, exact=False),
    Rewrite(
        "(product + b) * c",
        Operator((MulOp, DivOp), (graph.add(product, b).alone(), c)),
        _into_both,
        exact=False,
    ),
    Rewrite(
        "product of x * c",
        Operator(PRODUCTS, (scaled, w)).named("product"),
        _scale_in_front,
        exact=False,
        elements=FLOATS,
    ),
    Rewrite(
        "batch norm of product",
        graph.batch_norm(product, *parameters).named("norm"),
        _normalised_product,
        exact=False,
    ),
    Rewrite("batch norm", graph.batch_norm(x, *parameters).named("norm"), _normalised, exact=False),
    Rewrite("x + b + c", graph.add(graph.add(x, b).alone(), c), _sum_of_constants, exact=False),
)
