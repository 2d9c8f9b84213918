"""ATen's activations and their derivatives, which are those of weft's own operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from xdsl.ir import Operation

from weft.compiler.frontend.onnx.ops.gradient import cotangents
from weft.compiler.frontend.torch.operands import AtenTable, Operand, computed, entry, term
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import FLOATS


def pull_back(
    b: GraphBuilder, name: str, dy: Term, *operands: Term, **attributes: AttributeValue
) -> list[Term | None]:
    """The cotangents of a graph operator's operands from that of its one result."""
    op = b.op(name, *(each.value for each in operands), **attributes)
    return [None if each is None else dy.of(each) for each in op.vjp([dy.value], b)]


def derivatives(
    b: GraphBuilder, function: Callable[..., Term], dy: Term, *operands: Term
) -> list[Term]:
    """The cotangents of operands from that of what a function computes of them."""
    block = b.builder.insertion_point.block
    last = block.last_op
    found = function(*operands)
    total = (found * dy.cast(found.type.element)).sum(list(range(len(found.shape))))
    ops: list[Operation] = []
    op = block.first_op if last is None else last.next_op
    while op is not None:
        ops.append(op)
        op = op.next_op
    inputs = [each.value for each in operands]
    return [dy.of(each) for each in cotangents(b, ops, total.value, inputs)]


def activation(name: str, b: GraphBuilder, x: Term, **attributes: AttributeValue) -> Term:
    """A graph operator on floats."""
    return x.of(b.op(name, x.value, **attributes).results[0])


def slope(name: str, b: GraphBuilder, dy: Term, x: Term, **attributes: AttributeValue) -> Term:
    """The derivative of a graph operator on floats times a cotangent."""
    (found,) = pull_back(b, name, dy, x, **attributes)
    assert found is not None, "an activation has a derivative"
    return found


def _relu(b: GraphBuilder, x: Term) -> Term:
    return x.maximum(0) if x.type.element not in FLOATS else x.math("relu")


def threshold_backward(b: GraphBuilder, dy: Term, x: Term, threshold: float) -> Term:
    """The cotangent where `x` is above the threshold; NaN counts as above."""
    return (x <= threshold).where(0, dy)


def _gelu(b: GraphBuilder, x: Term, approximate: str = "none") -> Term:
    return activation("gelu", b, x, approximate=approximate)


def _gelu_backward(b: GraphBuilder, dy: Term, x: Term, approximate: str = "none") -> Term:
    return slope("gelu", b, dy, x, approximate=approximate)


def _elu(
    b: GraphBuilder, x: Term, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Term:
    def of(y: Term) -> Term:
        low = (y * float(input_scale)).math("exp") - 1.0
        return (y > 0).where(y * float(scale), low * float(alpha * scale))

    if scale == input_scale == 1:
        return activation("elu", b, x, alpha=float(alpha))
    return computed(b, of, x)


def _elu_backward(
    b: GraphBuilder,
    dy: Term,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    x: Term,
) -> Term:
    def of(p: Term, y: Term) -> Term:
        if is_result:
            low = (y + float(alpha * scale)) * float(input_scale)
        else:
            low = (y * float(input_scale)).math("exp") * float(alpha * scale * input_scale)
        return (y > 0).where(p * float(scale), p * low)

    return computed(b, of, dy, x)


def _leaky_relu(b: GraphBuilder, x: Term, negative_slope: float = 0.01) -> Term:
    return activation("leaky_relu", b, x, alpha=float(negative_slope))


def _leaky_relu_backward(
    b: GraphBuilder, dy: Term, x: Term, negative_slope: float, self_is_result: bool
) -> Term:
    return (x > 0).where(dy, dy * float(negative_slope))


def hardtanh(b: GraphBuilder, x: Term, min_val: Operand = -1, max_val: Operand = 1) -> Term:
    """The elements brought between two numbers."""
    low, high = (term(b, each, x.type.element) for each in (min_val, max_val))
    return x.maximum(low).minimum(high)


def _hardtanh_backward(b: GraphBuilder, dy: Term, x: Term, min_val: float, max_val: float) -> Term:
    return ((x > float(min_val)) & (x < float(max_val))).where(dy, 0.0)


def _hardsigmoid(b: GraphBuilder, x: Term) -> Term:
    return activation("hard_sigmoid", b, x, alpha=1 / 6, beta=0.5)


def _hardsigmoid_backward(b: GraphBuilder, dy: Term, x: Term) -> Term:
    return ((x > -3.0) & (x < 3.0)).where(dy * (1 / 6), 0.0)


def _hardswish_backward(b: GraphBuilder, dy: Term, x: Term) -> Term:
    between = dy * (x / 3.0 + 0.5)
    return (x <= -3.0).where(0.0, (x < 3.0).where(between, dy))


def _softplus(b: GraphBuilder, x: Term, beta: float = 1, threshold: float = 20) -> Term:
    def of(y: Term) -> Term:
        scaled = y * float(beta)
        return (scaled > float(threshold)).where(y, scaled.math("softplus") / float(beta))

    return computed(b, of, x)


def _softplus_backward(b: GraphBuilder, dy: Term, x: Term, beta: float, threshold: float) -> Term:
    def of(p: Term, y: Term) -> Term:
        scaled = y * float(beta)
        return (scaled > float(threshold)).where(p, p * scaled.math("sigmoid"))

    return computed(b, of, dy, x)


def _sigmoid_backward(b: GraphBuilder, dy: Term, y: Term) -> Term:
    return computed(b, lambda p, q: p * (1.0 - q) * q, dy, y)


def _tanh_backward(b: GraphBuilder, dy: Term, y: Term) -> Term:
    return computed(b, lambda p, q: p * (1.0 - q * q), dy, y)


def _silu(b: GraphBuilder, x: Term) -> Term:
    return activation("swish", b, x, alpha=1.0)


def _silu_backward(b: GraphBuilder, dy: Term, x: Term) -> Term:
    return slope("swish", b, dy, x, alpha=1.0)


def _prelu(b: GraphBuilder, x: Term, weight: Term) -> Term:
    return (x > 0).where(x, x * weight)


def _softshrink(b: GraphBuilder, x: Term, lambd: float = 0.5) -> Term:
    return (x > lambd).where(x - lambd, (x < -lambd).where(x + lambd, x * 0.0))


def _hardshrink(b: GraphBuilder, x: Term, lambd: float = 0.5) -> Term:
    return ((x >= -lambd) & (x <= lambd)).where(0.0, x)


def softmax(name: str, b: GraphBuilder, x: Term, dim: int, half_to_float: bool = False) -> Term:
    """The softmax along an axis, or its logarithm."""
    if not x.shape:
        return (
            x.of(b.softmax(x.reshape([1]).value, axis=0)).reshape([])
            if name == "softmax"
            else x - x
        )
    return x.of(b.op(name, x.value, axis=dim).results[0])


def _softmax_backward(b: GraphBuilder, dy: Term, y: Term, dim: int, input_dtype: object) -> Term:
    def of(p: Term, q: Term) -> Term:
        weighted = p * q
        axes = [dim % len(q.shape)] if q.shape else []
        return weighted - q * weighted.sum(axes, keepdims=True)

    return computed(b, of, dy, y)


def _log_softmax_backward(
    b: GraphBuilder, dy: Term, y: Term, dim: int, input_dtype: object
) -> Term:
    def of(p: Term, q: Term) -> Term:
        axes = [dim % len(q.shape)] if q.shape else []
        return p - q.math("exp") * p.sum(axes, keepdims=True)

    return computed(b, of, dy, y)


def _dropout_backward(b: GraphBuilder, dy: Term, mask: Term, scale: float) -> Term:
    return computed(b, lambda p: mask.where(p * float(scale), 0.0), dy)


def _glu(b: GraphBuilder, x: Term, dim: int = -1) -> Term:
    axis = dim % len(x.shape)
    half = x.shape[axis] // 2
    return x.part(axis, 0, half) * x.part(axis, half, half).math("sigmoid")


TABLE: Final[AtenTable] = {
    **entry(_relu, "relu.default"),
    **entry(threshold_backward, "threshold_backward.default"),
    **entry(_gelu, "gelu.default"),
    **entry(_gelu_backward, "gelu_backward.default"),
    **entry(_elu, "elu.default"),
    **entry(_elu_backward, "elu_backward.default"),
    **entry(_leaky_relu, "leaky_relu.default"),
    **entry(_leaky_relu_backward, "leaky_relu_backward.default"),
    **entry(hardtanh, "hardtanh.default"),
    **entry(_hardtanh_backward, "hardtanh_backward.default"),
    **entry(lambda b, x: hardtanh(b, x, 0, 6), "relu6.default"),
    **entry(_hardsigmoid, "hardsigmoid.default"),
    **entry(_hardsigmoid_backward, "hardsigmoid_backward.default"),
    **entry(partial(activation, "hard_swish"), "hardswish.default"),
    **entry(_hardswish_backward, "hardswish_backward.default"),
    **entry(_softplus, "softplus.default"),
    **entry(_softplus_backward, "softplus_backward.default"),
    **entry(_sigmoid_backward, "sigmoid_backward.default"),
    **entry(_tanh_backward, "tanh_backward.default"),
    **entry(_silu, "silu.default"),
    **entry(_silu_backward, "silu_backward.default"),
    **entry(partial(activation, "mish"), "mish.default"),
    **entry(partial(slope, "mish"), "mish_backward.default"),
    **entry(_prelu, "_prelu_kernel.default"),
    **entry(_softshrink, "softshrink.default"),
    **entry(_hardshrink, "hardshrink.default"),
    **entry(partial(softmax, "softmax"), "_softmax.default"),
    **entry(partial(softmax, "log_softmax"), "_log_softmax.default"),
    **entry(_softmax_backward, "_softmax_backward_data.default"),
    **entry(_log_softmax_backward, "_log_softmax_backward_data.default"),
    **entry(_dropout_backward, "native_dropout_backward.default"),
    **entry(_glu, "glu.default"),
}
