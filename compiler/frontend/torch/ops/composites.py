"""ATen's layers that torch.export keeps whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import AtenTable, axis_of, entry, only_static
from weft.compiler.frontend.torch.ops import activation, normalization, pooling, products, views
from weft.compiler.frontend.torch.ops.creation import convert
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder

Sizes = Sequence[int]


def _conv(
    b: GraphBuilder,
    x: Term,
    weight: Term,
    bias: Term | None = None,
    stride: Sizes = (1,),
    padding: Sequence[ExprLike] = (0,),
    dilation: Sizes = (1,),
    groups: int = 1,
) -> Term:
    return products.convolution(b, x, weight, bias, stride, padding, dilation, False, [0], groups)


def _conv_transpose(
    b: GraphBuilder,
    x: Term,
    weight: Term,
    bias: Term | None = None,
    stride: Sizes = (1,),
    padding: Sequence[ExprLike] = (0,),
    output_padding: Sizes = (0,),
    groups: int = 1,
    dilation: Sizes = (1,),
) -> Term:
    return products.convolution(
        b, x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


def _batch_norm(
    b: GraphBuilder,
    x: Term,
    weight: Term | None,
    bias: Term | None,
    running_mean: Term | None,
    running_var: Term | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Term:
    if training or running_mean is None or running_var is None:
        raise UnsupportedError("batch_norm requires a model in evaluation, got one in training")
    given = (x, weight, bias, running_mean, running_var, momentum, eps)
    return normalization.batch_norm_inference(b, *given)[0]


def _layer_norm(
    b: GraphBuilder,
    x: Term,
    normalized_shape: Sequence[ExprLike],
    weight: Term | None = None,
    bias: Term | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Term:
    return normalization.layer_norm(b, x, normalized_shape, weight, bias, eps)[0]


def _group_norm(
    b: GraphBuilder,
    x: Term,
    num_groups: int,
    weight: Term | None = None,
    bias: Term | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Term:
    return normalization.group_norm(b, x, weight, bias, 0, 0, 0, num_groups, eps)[0]


def _dropout(b: GraphBuilder, x: Term, p: float, train: bool) -> Term:
    if train and p:
        raise UnsupportedError("dropout requires a model in evaluation, got one in training")
    return x


def _to(b: GraphBuilder, x: Term, dtype: Attribute | None = None, *_: object, **__: object) -> Term:
    return x if dtype is None else convert(x, dtype)


def _softmax(name: str, b: GraphBuilder, x: Term, dim: int, dtype: Attribute | None = None) -> Term:
    return activation.softmax(name, b, x if dtype is None else x.cast(dtype), dim)


def _losses_of_classes(
    b: GraphBuilder,
    x: Term,
    linear_weight: Term,
    target: Term,
    linear_bias: Term | None,
    weight: Term | None,
    ignore_index: int,
    *_: object,
) -> Term:
    """The cross entropy of each row of a linear layer's results; torch takes rows in parts."""
    logits = products.linear(b, x, linear_weight, linear_bias)
    kept = target.equals(ignore_index).math("logical_not")
    classes = kept.where(target, 0)
    logs = activation.softmax("log_softmax", b, logits, 1)
    own = logs.of(b.gather_elements(logs.value, classes.insert(1).value, axis=1))
    losses = -own.reshape(target.shape)
    return kept.where(losses if weight is None else losses * weight.take(classes, 0), 0.0)


def _flatten(b: GraphBuilder, x: Term, start_dim: int = 0, end_dim: int = -1) -> Term:
    first, last = axis_of(x, start_dim), axis_of(x, end_dim)
    return x.reshape([*x.shape[:first], product(x.shape[first : last + 1]), *x.shape[last + 1 :]])


def _unflatten(b: GraphBuilder, x: Term, dim: int, sizes: Sequence[ExprLike]) -> Term:
    axis = axis_of(x, dim)
    part = [Expr.of(size) for size in sizes]
    rest = product([size for size in part if size != -1])
    part = [x.shape[axis] // rest if size == -1 else size for size in part]
    return x.reshape([*x.shape[:axis], *part, *x.shape[axis + 1 :]])


def _chunk(b: GraphBuilder, x: Term, chunks: int, dim: int = 0) -> list[Term]:
    (size,) = only_static([x.shape[axis_of(x, dim)]], "chunk")
    return views.split(b, x, -(-size // chunks), dim)


def _max_pool2d(b: GraphBuilder, x: Term, *arguments: Sizes, **named: Sizes) -> Term:
    return pooling.max_pool(2, b, x, *arguments, **named)[0]  # pyright: ignore[reportArgumentType]


def _matmul(b: GraphBuilder, x: Term, other: Term) -> Term:
    """NumPy's: vectors gain an axis, which the result has not."""
    first = x if len(x.shape) > 1 else x.insert(0)
    second = other if len(other.shape) > 1 else other.insert(1)
    found = first.matmul(second)
    dims = list(found.shape)
    if len(x.shape) == 1:
        del dims[-2]
    if len(other.shape) == 1:
        del dims[-1]
    return found.reshape(dims)


def _expand_as(b: GraphBuilder, x: Term, other: Term) -> Term:
    return x.expand(other.shape)


def _narrow(b: GraphBuilder, x: Term, dim: int, start: ExprLike, length: ExprLike) -> Term:
    axis = axis_of(x, dim)
    return x.part(axis, views.position(x.shape[axis], start), length)


def _einsum(b: GraphBuilder, equation: str, tensors: Sequence[Term], path: object = None) -> Term:
    if "." in equation:
        raise UnsupportedError(f"einsum requires named axes alone, got {equation!r}")
    plain = equation.replace(" ", "")
    return tensors[0].of(b.einsum(*(each.value for each in tensors), equation=plain))


TABLE: Final[AtenTable] = {
    **entry(_conv, "conv1d.default", "conv2d.default", "conv3d.default"),
    **entry(
        _conv_transpose,
        "conv_transpose1d.default",
        "conv_transpose2d.input",
        "conv_transpose3d.input",
    ),
    **entry(_batch_norm, "batch_norm.default"),
    **entry(_layer_norm, "layer_norm.default"),
    **entry(_group_norm, "group_norm.default"),
    **entry(_dropout, "dropout.default", "feature_dropout.default"),
    **entry(_to, "to.dtype", "to.dtype_layout"),
    **entry(lambda b, x, *_, **__: x, "to.device", "requires_grad.default"),
    **entry(lambda b, x, other: convert(x, other.type.element), "type_as.default"),
    **entry(partial(_softmax, "softmax"), "softmax.int"),
    **entry(partial(_softmax, "log_softmax"), "log_softmax.int"),
    **entry(_flatten, "flatten.using_ints"),
    **entry(_unflatten, "unflatten.int"),
    **entry(_chunk, "chunk.default"),
    **entry(_max_pool2d, "max_pool2d.default"),
    **entry(partial(pooling.adaptive_mean, 2), "adaptive_avg_pool2d.default"),
    **entry(_matmul, "matmul.default"),
    **entry(_expand_as, "expand_as.default"),
    **entry(lambda b, x, other: x.reshape(other.shape), "view_as.default", "reshape_as.default"),
    **entry(_narrow, "narrow.default"),
    **entry(_einsum, "einsum.default"),
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": _losses_of_classes,
}
