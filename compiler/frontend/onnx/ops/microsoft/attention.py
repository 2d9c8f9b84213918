"""onnxruntime's attentions: a product, a softmax and a product, which become one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.quantised import centred, of_columns, whole
from weft.compiler.frontend.onnx.ops.microsoft.rotary import angles_of, rotated
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.rules import ONE
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import F32, I32, I64
from weft.dialects.graph.quantized.exact_products import exact_matmul

FILTER = -10000.0
"""What is added to scores of keys that a mask forbids, where the node does not say it."""


class Heads(Struct, frozen=True):
    """Queries, keys and values, `[batch, heads, steps, size]`; there may be fewer heads of the
    latter two.
    """

    queries: Term
    keys: Term
    values: Term

    @property
    def past(self) -> Expr:
        """How many keys there are before that of the first query, where queries are the last."""
        return self.keys.shape[2] - self.queries.shape[2]


def attended(
    heads: Heads,
    scale: float,
    biases: Sequence[Term],
    allowed: Term | None,
    softcap: float = 0.0,
    sink: Term | None = None,
) -> Term:
    """`softmax(scale * q @ k.T + biases) @ v`, `[batch, steps, columns]`. Keys that are not allowed
    count as the least number does. Scores may be capped smoothly before biases are added, and a
    further score of each head, the `sink`, may take part in the softmax alone.
    """
    q, k, v = heads.queries, heads.keys, heads.values
    scores = q.matmul(k.transpose([0, 1, 3, 2])) * (scale or _usual_scale(q))
    if softcap > 0:
        scores = (scores / softcap).math("tanh") * softcap
    for bias in biases:
        scores = scores + bias
    if allowed is not None:
        scores = allowed.where(scores, _least(q))
    weights = _softmax(scores, sink)
    result = weights.matmul(v).transpose([0, 2, 1, 3])
    batch, steps, count, size = result.shape
    return result.reshape((batch, steps, count * size))


def _softmax(scores: Term, sink: Term | None) -> Term:
    """The softmax of each row, with the score of the sink beside it."""
    *rows, columns = scores.shape
    if sink is not None:
        scores = joined([scores, sink.expand((*rows, 1))], 3)
    weights = scores.of(scores.b.softmax(scores.value, axis=3))
    return weights.part(3, 0, columns)


def _usual_scale(q: Term) -> float:
    """One over the root of a head's size."""
    size = q.shape[3].constant
    if size is None:
        raise UnsupportedError(f"requires heads of a known size, got {q.type}")
    return float(1 / np.sqrt(np.float32(size)))


def _least(like: Term) -> float:
    """The least number of an element type that is no infinity."""
    element = numpy_dtype(like.type.element)
    return -3.38953139e38 if element.name == "bfloat16" else float(np.finfo(element).min)


def heads_of(node: OnnxNode, name: str = "num_heads") -> int:
    """How many heads an attribute says that there are."""
    count = node.attribute(name).i
    if count < 1:
        raise ModelError(f"requires {name} of at least 1, got {count}")
    return count


def split_heads(x: Term, count: int) -> Term:
    """Columns as heads: `[batch, steps, columns]` -> `[batch, heads, steps, size]`."""
    batch, steps, columns = x.shape
    if (columns % count).constant != 0:
        raise ModelError(f"requires columns for {count} heads, got {columns}")
    return x.reshape((batch, steps, count, columns // count)).transpose([0, 2, 1, 3])


def causal(heads: Heads, past: Expr | None = None) -> Term:
    """Which keys each query may see: those of its own place and before."""
    b, steps, total = heads.queries.b, heads.queries.shape[2], heads.keys.shape[2]
    first = size_term(b, heads.past if past is None else past, I64)
    return counted(b, total) <= (counted(b, steps) + first).insert(1)


# Masks ------------------------------------------------------------------------------------------


def mask_bias(node: OnnxNode, position: int, heads: Heads) -> list[Term]:
    """What an operand that is a mask adds to scores, nothing where there is none."""
    if node.optional(position) is None:
        return []
    mask = Term(node.b, node.operand(position))
    allowed = _of_ends(mask, heads) if len(mask.shape) == 1 else _of_positions(node, mask, heads)
    if allowed is None:
        return []
    zero = heads.queries.number(0)
    return [allowed.where(zero, node.real("mask_filter_value", FILTER))]


def _of_ends(mask: Term, heads: Heads) -> Term:
    """Keys before the end of each row, which may be followed by the starts of all."""
    batch = heads.queries.shape[0]
    positions = counted(mask.b, heads.keys.shape[2], I32)
    ends = mask.part(0, 0, batch).reshape((batch, 1, 1, 1))
    if mask.shape[0] == batch:
        return positions < ends
    if mask.shape[0] != batch * 2:
        raise UnsupportedError(f"requires a mask of {batch} or {batch * 2} ends, got {mask.type}")
    starts = mask.part(0, batch, batch).reshape((batch, 1, 1, 1))
    return (positions < ends) & (positions >= starts)


def _of_positions(node: OnnxNode, mask: Term, heads: Heads) -> Term | None:
    """Keys for which a mask `[batch, keys]`, `[batch, queries, keys]`, or `[batch, 1, most, most]`
    of all positions that there may be, is above zero; None where it has one column for all keys,
    which stands for no mask.
    """
    batch, _, steps, _ = heads.queries.shape
    total = heads.keys.shape[2]
    if len(mask.shape) == 4:
        return mask.part(2, heads.past, steps).part(3, 0, total) > 0
    if len(mask.shape) == 2 and mask.shape[1] == 1:
        return None
    wanted = (batch, total) if len(mask.shape) == 2 else (batch, steps, total)
    known = mask.of(node.assume(mask.value, wanted))
    return (known > 0).insert(1, 2) if len(wanted) == 2 else (known > 0).insert(1)


def score_bias(node: OnnxNode, position: int) -> list[Term]:
    """An operand that is added to scores, where there is one."""
    value = node.optional(position)
    return [] if value is None else [Term(node.b, value)]


# Operators --------------------------------------------------------------------------------------


def import_attention(node: OnnxNode) -> Sequence[SSAValue]:
    """Attention of a tensor to itself: one product makes queries, keys and values of it."""
    x, weights = (Term(node.b, node.operand(position)) for position in (0, 1))
    _refuse(node, "past_present_share_buffer")
    projected = x.matmul(weights)
    if node.optional(2) is not None:
        projected = projected + Term(node.b, node.operand(2))
    return attention_of(node, projected, 3, 4, score_bias(node, 5))


def import_quantised_attention(node: OnnxNode) -> Sequence[SSAValue]:
    """The same of quantised tensors, whose product is of integers."""
    _refuse(node, "do_rotary", "past_present_share_buffer")
    scale = whole(node, 3) * of_columns(node, 4)
    sums = exact_matmul(centred(node, 0, 6), centred(node, 1, 7))
    projected = sums.cast(F32) * scale + Term(node.b, node.operand(2))
    return attention_of(node, projected, 5, 8, [])


def attention_of(
    node: OnnxNode, projected: Term, mask: int, past: int, biases: Sequence[Term]
) -> Sequence[SSAValue]:
    """Attention of queries, keys and values that stand side by side, with a mask and the keys and
    values before them at these positions; its second result are all keys and values.
    """
    heads = _side_by_side(node, projected)
    before = None if node.optional(past) is None else Term(node.b, node.operand(past))
    if node.flag("do_rotary"):
        heads = _rotated(node, heads, Expr.of(0) if before is None else before.shape[3])
    if before is not None:
        keys, values = (
            joined([before.part(0, at, 1).reshape(before.shape[1:]), new], 2)
            for at, new in enumerate((heads.keys, heads.values))
        )
        heads = Heads(heads.queries, keys, values)
    masks = [*mask_bias(node, mask, heads), *biases]
    allowed = causal(heads) if node.flag("unidirectional") else None
    result = attended(heads, node.real("scale", 0.0), masks, allowed)
    if not node.uses(1):
        return [result.value]
    if heads.keys.shape[3] != heads.values.shape[3]:
        raise UnsupportedError(f"requires keys and values of one size, got {heads.values.type}")
    return [result.value, joined([heads.keys.insert(0), heads.values.insert(0)], 0).value]


def _side_by_side(node: OnnxNode, projected: Term) -> Heads:
    """Heads of columns that are queries, keys and values, a third each where nothing is said."""
    count, columns = heads_of(node), projected.shape[2]
    sizes = [Expr.of(size) for size in node.integers("qkv_hidden_sizes", [])] or [columns // 3] * 3
    if len(sizes) != 3 or sizes[0] != sizes[1] or sizes[0] * 2 + sizes[2] != columns:
        listed = ", ".join(map(str, sizes))
        raise ModelError(f"requires sizes of queries, keys and values, got [{listed}] of {columns}")
    starts = (Expr.of(0), sizes[0], sizes[0] * 2)
    parts = zip(starts, sizes, strict=True)
    return Heads(*(split_heads(projected.part(2, *part), count) for part in parts))


def _rotated(node: OnnxNode, heads: Heads, past: Expr) -> Heads:
    """Queries and keys turned by their positions behind those of the past."""
    size = heads.queries.shape[3].constant
    if size is None:
        raise UnsupportedError(f"requires heads of a known size, got {heads.queries.type}")
    width = node.integer("rotary_embedding_dim", 0) or size
    if width % 2 or not 0 < width <= size:
        raise ModelError(f"requires pairs of the {size} columns of a head, got {width}")
    steps = counted(node.b, heads.queries.shape[2]) + size_term(node.b, past, I64)
    angles = angles_of(steps, width, heads.queries.type.element)
    queries, keys = (rotated(each, angles, Expr.of(width)) for each in (heads.queries, heads.keys))
    return Heads(queries, keys, heads.values)


def import_multi_head_attention(node: OnnxNode) -> Sequence[SSAValue]:
    """Attention of queries to keys and values, which may follow others; these are results too."""
    count = heads_of(node)
    queries, keys, values = _separate(node)
    if len(keys.shape) == 4:
        heads = Heads(split_heads(_with_bias(node, queries, 0), count), keys, values)
    else:
        size = queries.shape[2]
        rows = _with_bias(node, queries, 0), _with_bias(node, keys, size)
        rows = *rows, _with_bias(node, values, size * 2)
        heads = Heads(*(split_heads(each, count) for each in rows))
    heads = _behind(node, heads)
    masks = [*mask_bias(node, 4, heads), *score_bias(node, 5)]
    allowed = causal(heads) if node.flag("unidirectional") else None
    result = attended(heads, node.real("scale", 0.0), masks, allowed)
    return [result.value, heads.keys.value, heads.values.value]


def _separate(node: OnnxNode) -> list[Term]:
    """Queries, keys and values, of which all, or the last two, may lie in one operand `[batch,
    steps, heads, parts, size]`.
    """
    given = [Term(node.b, value) for value in node.operands[:3] if value is not None]
    *alone, last = given
    if len(last.shape) == 5:
        *rows, heads, parts, size = last.shape
        if parts != 3 - len(alone) or heads != heads_of(node):
            rule = f"{heads_of(node)} heads of {3 - len(alone)} parts"
            raise ModelError(f"requires {rule} in one operand, got {last.type}")
        lying = (last.part(3, part, 1) for part in range(3 - len(alone)))
        return [*alone, *(each.reshape((*rows, heads * size)) for each in lying)]
    if len(given) < 3:
        raise ModelError("requires its operands key and value, got none")
    return given


def _with_bias(node: OnnxNode, rows: Term, start: Expr | int) -> Term:
    """Rows plus their part of the bias, which is one for queries, keys and values."""
    if node.optional(3) is None:
        return rows
    return rows + Term(node.b, node.operand(3)).part(0, start, rows.shape[2])


def _behind(node: OnnxNode, heads: Heads) -> Heads:
    """The keys and values behind those that came before."""
    if (node.optional(6) is None) != (node.optional(7) is None):
        raise ModelError("requires both past keys and values, got one of them")
    if node.optional(6) is None:
        return heads
    keys, values = (
        joined([Term(node.b, node.operand(position)), new], 2)
        for position, new in ((6, heads.keys), (7, heads.values))
    )
    return Heads(heads.queries, keys, values)


def _refuse(node: OnnxNode, *names: str) -> None:
    """Refuses attributes that ask for something, where the importer has it not."""
    for name in names:
        if node.integer(name, 0):
            raise UnsupportedError(f"requires no {name}, got {node.integer(name, 0)}")


IMPORTERS = importers(
    {
        "Attention": Signature(
            import_attention,
            "input:F:bsi weights:F:ic bias?:F:c mask?:L:.* past?:F:2b... bias_of_scores?:F:....",
            "do_rotary mask_filter_value num_heads! past_present_share_buffer qkv_hidden_sizes "
            "rotary_embedding_dim scale unidirectional",
        ),
        "MultiHeadAttention": Signature(
            import_multi_head_attention,
            "query:F:bsh|bsnpd key?:F:blh|bnl.|blnpd value?:F:blv|bnlv bias?:F:. mask?:L:.* "
            "bias_of_scores?:F:.... past_key?:F:b... past_value?:F:b...",
            "mask_filter_value num_heads! scale unidirectional",
        ),
        "QAttention": Signature(
            import_quantised_attention,
            f"input:U:bsi weights:Q:ic bias:S:c input_scale:S:{ONE} weight_scale:S:-|1|c "
            f"mask?:L:.* input_zero?:U:{ONE} weight_zero?:Q:-|1|c past?:S:2b...",
            "do_rotary mask_filter_value num_heads! past_present_share_buffer scale unidirectional",
        ),
    }
)
