"""ATen's products of matrices, convolutions and attention, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Operand,
    computed,
    entry,
    only_static,
    term,
    wide,
)
from weft.compiler.frontend.torch.ops.activation import pull_back
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import BOOL, ShapeAttr

Sizes = Sequence[int]


def matmul(b: GraphBuilder, x: Term, other: Term) -> Term:
    """The product of matrices, or of stacks of them."""
    return x.matmul(other)


def addmm(
    b: GraphBuilder, x: Term, mat1: Term, mat2: Term, beta: Operand = 1, alpha: Operand = 1
) -> Term:
    """`beta * x + alpha * mat1 @ mat2`; of halves rounded once at the end."""
    product = mat1.matmul(mat2)
    if alpha != 1:
        product = computed(b, lambda p: p * term(b, alpha, p.type.element), product)
    if beta == 0:
        return product
    if beta != 1:
        x = computed(b, lambda p: p * term(b, beta, p.type.element), x)
    return x + product


def linear(b: GraphBuilder, x: Term, weight: Term, bias: Term | None = None) -> Term:
    """`x @ weight.T + bias`."""
    found = x.matmul(weight.transpose(list(range(len(weight.shape)))[::-1]))
    return found if bias is None else found + bias


def dot(b: GraphBuilder, x: Term, tensor: Term) -> Term:
    """The sum of products of two vectors."""
    size = x.shape[0]
    return x.reshape([1, size]).matmul(tensor.reshape([size, 1])).reshape([])


def mv(b: GraphBuilder, x: Term, vec: Term) -> Term:
    """A matrix times a vector."""
    return x.matmul(vec.insert(1)).reshape([x.shape[0]])


# Convolutions ---------------------------------------------------------------------------------


def _spread(values: Sizes, rank: int) -> list[int]:
    given = only_static([Expr.of(each) for each in values], "windows")
    return given * rank if len(given) == 1 else given


def _attributes(
    rank: int,
    stride: Sizes,
    padding: Sequence[ExprLike],
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> dict[str, AttributeValue]:
    pads = [Expr.of(each) for each in ([*padding] * rank if len(padding) == 1 else padding)]
    found: dict[str, AttributeValue] = {
        "strides": _spread(stride, rank),
        "dilations": _spread(dilation, rank),
        "pads": ShapeAttr((*pads, *pads)),
        "group": groups,
    }
    if transposed:
        found["output_padding"] = _spread(output_padding, rank)
    return found


def convolution(
    b: GraphBuilder,
    x: Term,
    weight: Term,
    bias: Term | None,
    stride: Sizes,
    padding: Sequence[ExprLike],
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Term:
    """A convolution, or a transposed one, over any number of spatial axes."""
    rank = len(weight.shape) - 2
    batched = x if len(x.shape) == rank + 2 else x.insert(0)
    attributes = _attributes(rank, stride, padding, dilation, transposed, output_padding, groups)
    name = "conv_transpose" if transposed else "conv"
    operands = [each if each is None else each.value for each in (batched, weight, bias)]
    found = x.of(b.op(name, *operands, **attributes).results[0])
    return found if batched is x else found.reshape(found.shape[1:])


def convolution_backward(
    b: GraphBuilder,
    dy: Term,
    x: Term,
    weight: Term,
    bias_sizes: object,
    stride: Sizes,
    padding: Sequence[ExprLike],
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Sequence[bool],
) -> list[Term | None]:
    """The cotangents of image, filter and bias."""
    rank = len(weight.shape) - 2
    if len(x.shape) != rank + 2:
        raise UnsupportedError(f"convolution requires a batch axis, got {x.type}")
    attributes = _attributes(rank, stride, padding, dilation, transposed, output_padding, groups)
    name = "conv_transpose" if transposed else "conv"
    found = pull_back(b, name, dy, x, weight, **attributes)
    axes = [axis for axis in range(len(dy.shape)) if axis != 1]
    bias = dy.sum(axes) if output_mask[2] else None
    return [*(each if keep else None for each, keep in zip(found, output_mask, strict=False)), bias]


# Attention ------------------------------------------------------------------------------------


def _scores(
    q: Term, k: Term, is_causal: bool, attn_mask: Term | None, scale: float | None
) -> tuple[Term, float]:
    """`scale * q @ k.T` with what the mask adds or forbids; keys that are not allowed are -inf."""
    size = q.shape[-1].constant
    if size is None and scale is None:
        raise UnsupportedError(f"attention requires heads of a constant size, got {q.type}")
    factor = float(scale) if scale is not None else 1 / math.sqrt(size or 1)
    rank = len(k.shape)
    scores = q.matmul(k.transpose([*range(rank - 2), rank - 1, rank - 2])) * factor
    if attn_mask is not None and attn_mask.type.element == BOOL:
        scores = attn_mask.where(scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.cast(scores.type.element)
    if is_causal:
        rows, columns = counted(q.b, q.shape[-2]), counted(q.b, k.shape[-2])
        scores = (columns.insert(0) <= rows.insert(1)).where(scores, -math.inf)
    return scores, factor


def _softmax(scores: Term) -> Term:
    """The softmax of each row; zeros where no key is allowed."""
    found = scores.of(scores.b.softmax(scores.value, axis=len(scores.shape) - 1))
    top = scores.of(scores.b.reduce_max(scores.value, axes=[len(scores.shape) - 1], keepdims=True))
    return top.equals(-math.inf).where(0.0, found)


def _weights(scores: Term, masked: bool) -> Term:
    if masked:
        return _softmax(scores)
    return scores.of(scores.b.softmax(scores.value, axis=len(scores.shape) - 1))


def _no_dropout(dropout_p: float) -> None:
    if dropout_p:
        raise UnsupportedError(f"attention requires dropout of 0, got {dropout_p}")


def _shared_heads(q: Term, k: Term) -> Term:
    """Keys or values repeated for groups of queries."""
    heads, own = (each.shape[-3].constant for each in (q, k))
    if heads is None or own is None or heads == own:
        return k
    *lead, _, steps, size = k.shape
    parts = k.insert(len(lead) + 1).expand([*lead, own, heads // own, steps, size])
    return parts.reshape([*lead, heads, steps, size])


def flash_attention(
    b: GraphBuilder,
    query: Term,
    key: Term,
    value: Term,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Term | None = None,
    scale: float | None = None,
) -> tuple[Term, Term]:
    """Attention, and the logarithms of the sums of each row's exponentials."""
    _no_dropout(dropout_p)
    key, value = _shared_heads(query, key), _shared_heads(query, value)
    scores, _ = _scores(query, key, is_causal, attn_mask, scale)
    found = _weights(scores, attn_mask is not None).matmul(value)
    exact = scores.cast(wide(scores.type.element))
    sums = exact.of(b.reduce_log_sum_exp(exact.value, axes=[len(scores.shape) - 1], keepdims=False))
    return found, sums


def attention(
    b: GraphBuilder,
    query: Term,
    key: Term,
    value: Term,
    attn_mask: Term | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Term:
    """`softmax(scale * q @ k.T) @ v`."""
    return flash_attention(b, query, key, value, dropout_p, is_causal, attn_mask, scale)[0]


def flash_attention_backward(
    b: GraphBuilder,
    dy: Term,
    query: Term,
    key: Term,
    value: Term,
    out: Term,
    logsumexp: Term,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Term | None = None,
    scale: float | None = None,
) -> tuple[Term, Term, Term]:
    """The cotangents of queries, keys and values; weights come from the sums of the rows."""
    _no_dropout(dropout_p)
    element, own = query.type.element, key.shape
    key, value = _shared_heads(query, key), _shared_heads(query, value)
    q, k, v, dy, out = (each.cast(wide(element)) for each in (query, key, value, dy, out))
    scores, factor = _scores(q, k, is_causal, attn_mask, scale)
    sums = logsumexp.insert(len(logsumexp.shape)).cast(q.type.element)
    weights = (scores - sums).math("exp")
    if attn_mask is not None:
        weights = sums.equals(-math.inf).where(0.0, weights)
    rank = len(q.shape)
    swap = [*range(rank - 2), rank - 1, rank - 2]
    dv = weights.transpose(swap).matmul(dy)
    dweights = dy.matmul(v.transpose(swap))
    rows = (dy * out).sum([rank - 1], keepdims=True)
    dscores = weights * (dweights - rows) * factor
    dq, dk = dscores.matmul(k), dscores.transpose(swap).matmul(q)
    dk, dv = _summed_heads(dk, own), _summed_heads(dv, own)
    return dq.cast(element), dk.cast(element), dv.cast(element)


def _summed_heads(x: Term, own: Sequence[Expr]) -> Term:
    """Cotangents of heads that groups of queries share, added up over each group."""
    *lead, heads, steps, size = x.shape
    if heads == own[-3]:
        return x
    groups = x.reshape([*lead, own[-3], heads // own[-3], steps, size])
    return groups.sum([len(lead) + 1])


def baddbmm(
    b: GraphBuilder, x: Term, batch1: Term, batch2: Term, beta: Operand = 1, alpha: Operand = 1
) -> Term:
    """`beta * x + alpha * batch1 @ batch2`."""
    return addmm(b, x, batch1, batch2, beta, alpha)


TABLE: Final[AtenTable] = {
    **entry(matmul, "mm.default", "bmm.default", "matmul.default"),
    **entry(addmm, "addmm.default"),
    **entry(baddbmm, "baddbmm.default"),
    **entry(linear, "linear.default"),
    **entry(dot, "dot.default", "vdot.default"),
    **entry(mv, "mv.default"),
    **entry(convolution, "convolution.default"),
    **entry(convolution_backward, "convolution_backward.default"),
    **entry(flash_attention, "_scaled_dot_product_flash_attention_for_cpu.default"),
    **entry(
        flash_attention_backward, "_scaled_dot_product_flash_attention_for_cpu_backward.default"
    ),
    **entry(attention, "scaled_dot_product_attention.default"),
}
