"""Rules: reductions, normalisations of lines, running sums, orders."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.program import Dim
from tests.differential.writer import Rule, Unfit, Value, Writer


def _left(value: Value, axis: int | None, keepdims: bool) -> list[Dim]:
    if axis is None:
        return [1] * value.rank if keepdims else []
    return [dim if n != axis else 1 for n, dim in enumerate(value.dims) if n != axis or keepdims]


def _reduction(text: str, least: int = 1) -> Rule:
    """A reduction over one axis, or over all."""

    def rule(w: Writer) -> Value:
        x, keepdims = w.floats(low=1), w.random.random() < 0.4
        axis = None if w.random.random() < 0.2 else w.axis(x, least)
        if axis is None and min(w.least(dim) for dim in x.dims) < least:
            raise Unfit
        signed = axis if axis is None or w.random.random() < 0.5 else axis - x.rank
        text_ = text.format(x=x, how=f"axis={signed}, keepdims={keepdims}")
        return w.put(text_, x.dtype, _left(x, axis, keepdims))

    return rule


NUMPY_REDUCTIONS = (
    ("wnp.sum({x}, {how})", 0), ("wnp.mean({x}, {how})", 1), ("wnp.max({x}, {how})", 1),
    ("wnp.min({x}, {how})", 1), ("wnp.prod(1.0 + 0.2 * wnp.tanh({x}), {how})", 0), ("wnp.var({x}, {how})", 1),
    ("wnp.std({x} * 1.5, {how})", 2), ("wnp.linalg.vector_norm({x}, {how})", 1),
)  # fmt: skip


def operator_reduction(w: Writer) -> Value:
    """Reductions that only graphs have."""
    w.operator_only()
    x, keepdims = w.floats(low=1), w.random.random() < 0.5
    axis = w.axis(x, 1)
    name = w.random.choice(["l1", "l2", "sum_square", "log_sum", "log_sum_exp"])
    operand = f"{x} * {x} + 0.1" if name == "log_sum" else str(x)
    return w.put(f"{x}.op('reduce_{name}', {operand}, axes=[{axis}], keepdims={keepdims})",
                 x.dtype, _left(x, axis, keepdims))  # fmt: skip


def counted(w: Writer) -> Value:
    """How many elements a condition holds of, and whether any or all."""
    x = w.floats(low=1)
    axis = w.axis(x)
    form = w.random.randrange(3)
    if form == 0:
        return w.put(f"wnp.count_nonzero({x} > 0.2, axis={axis})", "int64", _left(x, axis, False))
    test = "any" if form == 1 else "all"
    text = f"wnp.where(wnp.{test}({x} > 0.1, axis={axis}, keepdims=True), {x}, 0.5 * {x})"
    return w.like(text, x)


def place_of(w: Writer) -> Value:
    """Where the greatest or least element stands."""
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    name = w.random.choice(["argmax", "argmin"])
    return w.put(f"wnp.{name}({x}, axis={axis})", "int64", _left(x, axis, False))


def line(w: Writer) -> Value:
    """Softmax and norms along an axis."""
    w.operator_only()
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    text = w.random.choice([
        "wnp.softmax({x}, {axis})", "wnp.log_softmax({x}, {axis})", "{x}.op('hardmax', {x}, axis={axis})",
        "{x}.op('softmax', {x} * 2.0, axis={axis})",
        "{x}.op('lp_norm', {x} + 2.5, p=2, axis={axis})", "{x}.op('lp_norm', {x} * {x} + 0.5, p=1, axis={axis})",
    ])  # fmt: skip
    return w.like(text.format(x=x, axis=axis), x)


def running(w: Writer) -> Value:
    """Running sums and products."""
    x = w.floats(low=1)
    axis = w.axis(x)
    text = w.random.choice([
        "wnp.cumulative_sum({x}, axis={a})", "wnp.cumulative_prod(1.0 + 0.2 * wnp.tanh({x}), axis={a})",
        "{x}.op('cumsum', {x}, axis={a}, exclusive=True, reverse=False)",
        "{x}.op('cumsum', {x}, axis={a}, exclusive=False, reverse=True)",
        "{x}.op('cumprod', wnp.cos({x}), axis={a}, exclusive=True, reverse=True)",
    ])  # fmt: skip
    if ".op" in text:
        w.operator_only()
    return w.like(text.format(x=x, a=axis), x)


def differences(w: Writer) -> Value:
    """Of neighbours; one fewer."""
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    dims = [f"({dim} - 1)" if isinstance(dim, str) else dim - 1 for dim in x.dims]
    kept = [dims[n] if n == axis else dim for n, dim in enumerate(x.dims)]
    return w.put(f"wnp.diff({x}, axis={axis})", x.dtype, kept)


def ordered(w: Writer) -> Value:
    """Sorted lines."""
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    flag = w.random.choice([False, True])
    return w.like(f"wnp.sort({x}, axis={axis}, descending={flag})", x)


def order(w: Writer) -> Value:
    """The order of lines, and another tensor in that order."""
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    flag = w.random.choice([False, True])
    places = w.put(f"wnp.argsort({x}, axis={axis}, descending={flag})", "int64", x.dims)
    y = w.beside(x, same=True)
    return w.like(f"wnp.take_along_axis({y}, {places}, axis={axis})", y)


def in_order(w: Writer) -> Value:
    """Where values would stand in a sorted vector."""
    table = w.pick(lambda each: each.is_float and each.rank == 1 and w.least(each.dims[0]) > 0)
    x = w.pick(lambda each: each.dtype == table.dtype)
    side = w.random.choice(["left", "right"])
    return w.put(f"wnp.searchsorted(wnp.sort({table}), {x}, side={side!r})", "int64", x.dims)


def normalised(w: Writer) -> Value:
    """Normalisation over the last axis, with parameters."""
    w.operator_only()
    x = w.pick(lambda each: each.is_float and each.rank > 0 and w.least(each.dims[-1]) > 1)
    vectors = w.fits(lambda each: each.dtype == x.dtype and each.dims == x.dims[-1:])
    if not vectors:
        vectors = [w.put(f"{x}.sum(axis={tuple(range(x.rank - 1))}) * 0.3 + 1.0" if x.rank > 1
                         else f"wnp.sin({x})", x.dtype, x.dims[-1:])]  # fmt: skip
    scale = w.random.choice(vectors)
    text = w.random.choice([
        "{x}.op('layer_norm', {x}, {s}, axis=-1, epsilon=0.01)",
        "{x}.op('layer_norm', {x}, {s}, {s} * 0.5, axis=-1, epsilon=0.01)",
        "{x}.op('rms_norm', {x}, {s}, axis=-1, epsilon=0.01)",
        "wnp.mean({x}, axis=-1, keepdims=True) * {s} + ({x} - wnp.mean({x}, axis=-1, keepdims=True))"
        " / wnp.sqrt(wnp.var({x}, axis=-1, keepdims=True) + 0.01) * {s}",
    ])  # fmt: skip
    return w.like(text.format(x=x, s=scale), x)


def statistics(w: Writer) -> Value:
    """Norms that need axes of their own."""
    w.graph_only()
    x = w.pick(lambda each: each.is_float and each.rank > 1 and w.least(each.dims[-1]) > 1)
    if w.random.random() < 0.5:
        return w.like(f"{x}.op('mean_variance_norm', {x}, axes=[{x.rank - 1}])", x)
    text = f"{x}.results('layer_norm_statistics', {x}, axis=-1, epsilon=0.01)"
    return w.like(f"{x} - {text}[0] * {text}[1]", x)


RULES: Sequence[Rule] = (
    *(_reduction(*each) for each in NUMPY_REDUCTIONS), operator_reduction, operator_reduction, counted, place_of,
    line, line, running, running, differences, ordered, ordered, order, in_order, normalised, normalised, statistics,
)  # fmt: skip
