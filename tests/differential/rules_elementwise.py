"""Rules: operators of each element, comparisons, integers."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.writer import Rule, Unfit, Value, Writer

SMOOTH = (
    "wnp.tanh({x})", "wnp.sin({x})", "wnp.cos({x})", "wnp.exp(wnp.tanh({x}))", "wnp.exp(-{x} * {x})",
    "wnp.log(wnp.abs({x}) + 0.5)", "wnp.sqrt({x} * {x} + 0.1)", "wnp.erf({x})", "wnp.atan({x})",
    "wnp.asin(0.9 * wnp.tanh({x}))", "wnp.acos(0.9 * wnp.tanh({x}))", "wnp.sinh(wnp.tanh({x}))",
    "wnp.cosh(wnp.tanh({x}))", "wnp.asinh({x})", "wnp.acosh({x} * {x} + 1.5)", "-{x}",
    "wnp.atanh(0.9 * wnp.tanh({x}))", "wnp.tan(wnp.tanh({x}))", "wnp.reciprocal({x} * {x} + 0.5)",
    "wnp.square({x})", "{x} ** 2", "{x} ** 3", "wnp.expm1(wnp.tanh({x}))", "wnp.log1p({x} * {x})",
    "wnp.log2({x} * {x} + 1.0)", "wnp.log10({x} * {x} + 1.0)", "2.0 * {x} - 1.0", "1.0 / ({x} * {x} + 1.0)",
    "{x} / 3.0", "wnp.positive({x})", "{x} * {x} - {x}",
)  # fmt: skip

KINKED = (
    "wnp.abs({x})", "wnp.sign({x})", "wnp.floor({x})", "wnp.ceil({x})", "wnp.round({x})",
    "wnp.trunc({x})", "wnp.clip({x}, -0.5, 0.7)", "wnp.where({x} > 0.1, {x}, 0.3 * {x} * {x})",
    "wnp.maximum({x}, 0.2)", "wnp.minimum({x}, 0.2)", "wnp.remainder({x}, 0.7)", "{x} // 0.7",
    "wnp.where(wnp.isnan({x}), 0.0, {x})", "wnp.where(wnp.isinf({x}), 0.0, {x})",
    "wnp.where(wnp.isfinite({x}), {x}, 0.0)", "wnp.where(wnp.signbit({x}), {x} * {x}, 0.5)",
)  # fmt: skip

GRAPH_OPERATORS = (
    ("relu", ""), ("sigmoid", ""), ("gelu", 'approximate="none"'), ("gelu", 'approximate="tanh"'),
    ("elu", "alpha=0.7"), ("selu", "alpha=1.6, gamma=1.05"), ("celu", "alpha=0.8"), ("leaky_relu", "alpha=0.2"),
    ("thresholded_relu", "alpha=0.3"), ("hard_sigmoid", "alpha=0.2, beta=0.5"), ("hard_swish", ""),
    ("softplus", ""), ("softsign", ""), ("mish", ""), ("swish", "alpha=1.3"), ("identity", ""),
)  # fmt: skip

BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 0.5)", "wnp.maximum({x}, {y})",
    "wnp.minimum({x}, {y})", "wnp.pow({x} * {x} + 0.3, wnp.tanh({y}))", "wnp.hypot({x}, {y} + 0.1)",
    "wnp.atan2({x}, {y} * {y} + 0.2)", "wnp.logaddexp({x}, {y})", "wnp.copysign({x}, {y})",
    "wnp.where({x} > {y}, {x} * {x}, {y})", "wnp.remainder({x}, {y} * {y} + 0.7)",
    "wnp.floor_divide({x}, {y} * {y} + 0.7)", "wnp.tanh({x} * {y})", "{x} * 0.5 + wnp.sin({y})",
    "wnp.where(({x} < {y}) | ({y} >= 0.5), {y}, {x})", "wnp.where(wnp.logical_not({x} <= {y}), {y}, {x} * {y})",
    "wnp.where(wnp.logical_xor({x} < 0.0, {y} < 0.0), {x}, {y})", "wnp.where({x} == {y}, {x}, 0.5 * {y})",
    "wnp.where(({x} != {y}) & ({x} > -1.0), {x}, 0.5 * {y})",
)  # fmt: skip

INTEGERS = (
    "{x} * 2 + 1", "-{x}", "wnp.abs({x})", "wnp.sign({x})", "{x} // 3", "{x} % 5", "{x} ** 2",
    "{x} & 6", "{x} | 1", "{x} ^ 3", "~{x}", "wnp.abs({x}) << 1", "{x} >> 1", "wnp.minimum({x}, 3)",
    "wnp.clip({x}, -2, 2)", "wnp.maximum({x}, -{x})", "wnp.where({x} > 0, {x}, 7)", "wnp.square({x})",
)  # fmt: skip


def _of_one(text: str) -> Rule:
    def rule(w: Writer) -> Value:
        x = w.floats()
        return w.like(text.format(x=x), x)

    return rule


def _operator(name: str, attributes: str) -> Rule:
    def rule(w: Writer) -> Value:
        w.operator_only()
        x = w.floats()
        given = f"{x}.op({name!r}, {x}, {attributes})" if attributes else f"{x}.op({name!r}, {x})"
        return w.like(given, x)

    return rule


def _of_two(text: str) -> Rule:
    def rule(w: Writer) -> Value:
        x = w.floats()
        return w.like(text.format(x=x, y=w.beside(x)), x)

    return rule


def _of_integers(text: str) -> Rule:
    def rule(w: Writer) -> Value:
        x = w.pick(lambda each: each.dtype in ("int64", "int32"))
        return w.like(text.format(x=x), x)

    return rule


def prelu(w: Writer) -> Value:
    """Slopes below zero of their own."""
    w.operator_only()
    x = w.floats()
    return w.like(f"{x}.op('prelu', {x}, {w.beside(x)})", x)


def clipped(w: Writer) -> Value:
    """Bounds that are tensors."""
    w.graph_only()
    x = w.floats()
    bound = f"wnp.tanh({w.beside(x)}).sum()"
    return w.like(f"{x}.op('clip', {x}, -wnp.abs({bound}), wnp.abs({bound}) + 0.1)", x)


def widened(w: Writer) -> Value:
    """Through another float type and back, and integers as floats."""
    x = w.pick(lambda each: each.is_float or each.dtype in ("int64", "int32"))
    if x.is_float and w.random.random() < 0.6:
        other = "float32" if x.dtype == "float64" else "float64"
        return w.like(f"({x}.astype(np.{other}) * 0.5).astype(np.{x.dtype})", x)
    return w.put(f"{x}.astype(np.{w.float}) * 0.25", w.float, x.dims)


def whole(w: Writer) -> Value:
    """Integers out of floats."""
    x = w.floats()
    text = w.random.choice(
        ["wnp.floor({x} * 2.0).astype(np.int64)", "({x} > 0.0).astype(np.int64)"]
    )
    return w.put(text.format(x=x), "int64", x.dims)


def stopped(w: Writer) -> Value:
    """A constant for the derivative: its slope is no slope of differences."""
    x = w.floats()
    w.operator_only()
    return w.like(f"{x} * weft.stop_gradient(wnp.zeros_like({x}) + 1.5)", x)


def fmod(w: Writer) -> Value:
    """The remainder that truncates."""
    w.operator_only()
    x = w.floats()
    y = w.beside(x)
    return w.like(f"{x}.op('mod', {x}, {y} * {y} + 0.7, fmod=True)", x)


def bits(w: Writer) -> Value:
    """The bits of floats as integers, and back."""
    w.graph_only()
    x = w.floats()
    other = "int32" if x.dtype == "float32" else "int64"
    return w.like(
        f"{x}.op('bitcast', {x}.op('bitcast', {x}, to=np.dtype('{other}')), to=np.dtype('{x.dtype}'))"
        f" + 0.0 * {x}", x)  # fmt: skip


def chosen(w: Writer) -> Value:
    """A condition of another shape than what it chooses from."""
    x = w.floats()
    condition = w.beside(x)
    test = w.random.choice(
        ["{c} > 0.0", "{c} * {c} < 0.5", "wnp.logical_and({c} > -1.0, {c} < 0.3)"]
    )
    return w.like(f"wnp.where({test.format(c=condition)}, {x}, {w.beside(x)})", x)


def random_numbers(w: Writer) -> Value:
    """Numbers of a key, added."""
    w.operator_only()
    x = w.floats()
    if any(isinstance(dim, str) for dim in x.dims) and len(w.sizes) > 1:
        raise Unfit
    kind = w.random.choice(["uniform", "normal"])
    key = f"weft.random.fold_in(weft.random.key({w.random.randrange(9)}), ({x}.sum() > 0.0).astype(np.int64))"
    return w.like(f"{x} + 0.1 * weft.random.{kind}({key}, {x}.shape, np.{x.dtype})", x)


RULES: Sequence[Rule] = (
    *map(_of_one, SMOOTH), *map(_of_one, KINKED), *(_operator(*each) for each in GRAPH_OPERATORS),
    *map(_of_two, BINARY * 2), *map(_of_integers, INTEGERS), prelu, clipped, widened, whole, whole, stopped,
    fmod, bits, chosen, chosen, random_numbers,
)  # fmt: skip
