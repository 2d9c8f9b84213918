"""onnxruntime's attention of grouped queries, with keys and values of former steps in a cache."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.fix_inputs import SHARES_CACHE
from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.attention import (
    Heads,
    attended,
    heads_of,
    score_bias,
)
from weft.compiler.frontend.onnx.ops.microsoft.packed import unpacked
from weft.compiler.frontend.onnx.ops.microsoft.rotary import (
    angles_at,
    rotated,
    tables_of,
)
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.rules import ONE
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, maximum, product
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.bounds_check import require_inside
from weft.dialects.graph.core.types import F32, I8, I64, UI8


class _Storage(Struct, frozen=True):
    """How a cache holds keys or values: as they are, or as integers of so many bits, by a scale for
    all or for each column of each head; two of 4 bits are a byte, which counts from 8.
    """

    bits: int = 0
    scale: Term | None = None

    def packed(self, rows: Term) -> Term:
        """Rows `[..., heads, size]` as the cache holds them."""
        if self.scale is None:
            return rows
        most = 2 ** (self.bits - 1)
        steps = (rows.cast(F32) / self.scale).math("round")
        whole = steps.maximum(-most).minimum(most - 1)
        if self.bits == 8:
            return whole.cast(I8)
        *lead, size = rows.shape
        pairs = (whole + most).cast(UI8).reshape((*lead, size // 2, 2))
        low, high = (pairs.part(len(lead) + 1, at, 1) for at in (0, 1))
        return (low + high * 16).reshape((*lead, size // 2))

    def real(self, cache: Term, element: Attribute) -> Term:
        """A part `[batch, heads, positions, ...]` of the cache as numbers."""
        if self.scale is None:
            return cache
        scale = self.scale.insert(1) if self.scale.shape else self.scale
        levels = unpacked(cache, 4).cast(F32) - 8 if self.bits == 4 else cache.cast(F32)
        return (levels * scale).cast(element)


class _Rows(Struct, frozen=True):
    """Queries, keys and values of this step, `[batch, steps, heads, size]`, and how many steps are
    before them in each row of the batch, `[batch]`.
    """

    queries: Term
    keys: Term
    values: Term
    past: Term

    def positions(self) -> Term:
        """The place of each step, `[batch, steps]`."""
        steps = counted(self.past.b, self.queries.shape[1], I64)
        return self.past.insert(1) + steps


def import_group_query_attention(node: OnnxNode) -> Sequence[SSAValue]:
    """Attention of queries to the keys of their own steps and of those before, of which groups of
    queries share one; further results are all keys and values.
    """
    _refuse_what_is_missing(node)
    rows = _with_rotation(node, _with_norms(node, _rows(node)))
    total, element = node.found_dims(6)[0], rows.queries.type.element
    caches: list[Term] = []
    known: list[Term] = []
    for number, new in enumerate((rows.keys, rows.values)):
        storage = _storage(node, number, new)
        cache = _cached(node, 3 + number, rows, storage.packed(new), total)
        shared = rows.queries.shape[2] // new.shape[2]
        known.append(_repeated(storage.real(cache.part(2, 0, total), element), shared))
        caches.append(cache)
    keys, values = known
    heads = Heads(rows.queries.transpose([0, 2, 1, 3]), keys, values)
    sink = _sink(node, rows.queries)
    result = attended(
        heads,
        node.real("scale", 0.0),
        score_bias(node, 10),
        _allowed(node, rows, total),
        softcap=node.real("softcap", 0.0),
        sink=sink,
    )
    return [result.value, *(cache.value for cache in caches)]


def _refuse_what_is_missing(node: OnnxNode) -> None:
    """Refuses scores as results, and caches that drop keys."""
    stated = [name for name in ("qk_output", "sliding_window_cache") if node.integer(name, 0)]
    if stated:
        raise UnsupportedError(f"requires whole caches and no scores, got {', '.join(stated)}")
    if not node.flag("causal", default=True) and node.integer("local_window_size", -1) != -1:
        raise ModelError("requires no local_window_size beside causal = 0, got both")


def _rows(node: OnnxNode) -> _Rows:
    """The operands as rows; queries, keys and values may stand side by side in the first one."""
    counts = heads_of(node), heads_of(node, "kv_num_heads")
    queries = Term(node.b, node.operand(0))
    batch, steps, columns = queries.shape
    if counts[0] % counts[1]:
        raise ModelError(f"requires queries in whole groups, got {counts[0]} for {counts[1]}")
    if node.optional(1) is None:
        size = columns // (counts[0] + 2 * counts[1])
        starts = (0, size * counts[0], size * (counts[0] + counts[1]))
        widths = (size * counts[0], size * counts[1], size * counts[1])
        parts = [queries.part(2, *each) for each in zip(starts, widths, strict=True)]
    else:
        parts = [queries, *(Term(node.b, node.operand(position)) for position in (1, 2))]
    heads = [
        each.reshape((batch, steps, count, each.shape[2] // count))
        for each, count in zip(parts, (*counts, counts[1]), strict=True)
    ]
    ends = Term(node.b, node.operand(5)).reshape((batch,)).cast(I64)
    past = (ends + 1 - size_term(node.b, steps, I64)).maximum(0)
    return _Rows(heads[0], heads[1], heads[2], past)


def _with_norms(node: OnnxNode, rows: _Rows) -> _Rows:
    """Queries and keys over the root of the mean of the squares of their heads, where there are
    scales for that.
    """
    given = [node.optional(position) for position in (14, 15)]
    if given == [None, None]:
        return rows
    if None in given:
        raise ModelError("requires scales of queries and keys, got one of them")
    epsilon = node.real("qk_norm_epsilon", 1e-6)
    queries, keys = (
        each.of(each.b.rms_norm(each.value, scale, axis=-1, epsilon=epsilon))
        for each, scale in zip((rows.queries, rows.keys), given, strict=True)
    )
    return _Rows(queries, keys, rows.values, rows.past)


def _storage(node: OnnxNode, number: int, rows: Term) -> _Storage:
    """How the cache of keys, or that of values, holds rows `[batch, steps, heads, size]`."""
    name, position = "kv"[number], 12 + number
    stated = node.text(f"{name}_quant_type", "NONE")
    if stated not in ("NONE", "PER_TENSOR", "PER_CHANNEL"):
        raise UnsupportedError(f"requires a {name}_quant_type that it has, got {stated}")
    bits = node.integer("kv_cache_bit_width", 0) if stated != "NONE" else 0
    wanted = {0: rows.type.element, 4: UI8, 8: I8}.get(bits)
    if wanted is None or bool(bits) != (stated != "NONE"):
        raise UnsupportedError(f"requires a kv_cache_bit_width of 4 or 8, got {bits}")
    if node.optional(3 + number) is not None and node.type(3 + number).element != wanted:
        raise ModelError(f"requires a cache of {wanted}, got {node.type(3 + number)}")
    if not bits:
        return _Storage()
    scale, heads = Term(node.b, node.operand(position)), rows.shape[2:]
    shape = heads if stated == "PER_CHANNEL" else ()
    if scale.type.size != product(shape):
        raise ModelError(f"requires {product(shape)} numbers as {name}_scale, got {scale.type}")
    if bits == 4 and (heads[1] % 2) != 0:
        raise UnsupportedError(f"requires an even size of heads for 4 bits, got {heads[1]}")
    return _Storage(bits, scale.reshape(shape))


def _with_rotation(node: OnnxNode, rows: _Rows) -> _Rows:
    """Queries and keys turned by their positions, where the node asks for that."""
    if not node.flag("do_rotary"):
        return rows
    tables, given = tables_of(node, 7), node.optional(9)
    positions = rows.positions() if given is None else Term(node.b, given)
    width, interleaved = tables[0].shape[1] * 2, node.flag("rotary_interleaved")
    angles = angles_at(tables, positions, width)
    queries, keys = (
        rotated(each, angles, width, interleaved=interleaved) for each in (rows.queries, rows.keys)
    )
    return _Rows(queries, keys, rows.values, rows.past)


def _cached(node: OnnxNode, position: int, rows: _Rows, new: Term, total: Expr) -> Term:
    """The cache `[batch, heads, positions, size]` with new rows written at theirs. In the operand's
    memory it stays as it is behind these; else it has as many positions as the operand had, or as
    there are steps in all, and is zero there.
    """
    added, given = new.transpose([0, 2, 1, 3]), node.optional(position)
    batch, heads, steps, size = added.shape
    cache = None if given is None else Term(node.b, given)
    before = Expr.of(0) if cache is None else cache.shape[2]
    if node.flag(SHARES_CACHE):
        assert cache is not None, "a cache that is shared is an operand"
        node.require_most(total, before, "at most {} positions in the cache")
    elif cache is None or before == 0:
        cache = new.number(0).expand((batch, heads, total, size))
    else:
        pads = shape_attr([*[0] * 6, maximum([before, total]) - before, 0])
        known = counted(node.b, before, I64).insert(0) < rows.past.insert(1)
        kept = known.insert(1, 3).where(cache, 0)
        cache = kept.of(node.b.pad(kept.value, pads=pads, mode="constant"))
    last = cache.shape[2] - steps
    rule = "the last position from 0 to {} of the cache, less those of this step"
    require_inside(node.b, rows.past.value, Expr.of(0), last, rule, [last])
    places = rows.positions().insert(1, 3).expand(added.shape)
    values = cache.value, places.value, added.value
    return cache.of(node.b.scatter_elements(*values, axis=2, reduction="none"))


def _repeated(x: Term, times: Expr) -> Term:
    """Each head so many times, one after the other."""
    if times == 1:
        return x
    batch, heads, positions, size = x.shape
    wide = x.insert(2).expand((batch, heads, times, positions, size))
    return wide.reshape((batch, heads * times, positions, size))


def _allowed(node: OnnxNode, rows: _Rows, total: Expr) -> Term:
    """Which keys each query may see, `[batch, 1, steps, positions]`: its own and those before, the
    last ones of these within a window, or all that there are.
    """
    window = node.integer("local_window_size", -1)
    positions, own = counted(node.b, total, I64), rows.positions().insert(2)
    if not node.flag("causal", default=True):
        steps = rows.queries.shape[1]
        own = own.part(1, steps - 1, 1).expand((*own.shape[:1], steps, 1))
    allowed = positions <= own
    if window > 0:
        allowed = allowed & (positions > own - window)
    return allowed.insert(1)


def _sink(node: OnnxNode, queries: Term) -> Term | None:
    """A score beside those of the keys for each head, which takes a share that goes nowhere."""
    heads = queries.shape[2]
    if node.optional(11) is not None:
        return Term(node.b, node.operand(11)).reshape((heads, 1, 1))
    smooth = node.integer("smooth_softmax", -1) == 1
    return queries.number(0).expand((heads, 1, 1)) if smooth else None


IMPORTERS = importers(
    {
        "GroupQueryAttention": Signature(
            import_group_query_attention,
            "query:F:bs. key?:F:bsk value?:F:bsk past_key?:C1:bgp. past_value?:C2:bgp. "
            f"seqlens:L:b|b1 total:L:{ONE} cos?:F:me sin?:F:me position_ids?:I:bs "
            "bias_of_scores?:F:.... sink?:F:n k_scale?:S:* v_scale?:S:* q_norm?:F:. k_norm?:F:.",
            "causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads! local_window_size "
            "num_heads! qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache "
            "smooth_softmax softcap v_quant_type past_present_share_buffer",
        )
    }
)
