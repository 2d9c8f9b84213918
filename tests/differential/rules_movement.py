"""Rules: other dims, orders, parts and places of elements."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.program import Dim
from tests.differential.writer import Rule, Unfit, Value, Writer


def _any(w: Writer, low: int = 0, high: int = 4) -> Value:
    return w.floats(low, high)


def _product(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    return f"({first} * {second})"


def _shape(dims: Sequence[Dim]) -> str:
    return "(" + "".join(f"{dim}, " for dim in dims) + ")"


def reshaped(w: Writer) -> Value:
    """Axes merged, split off, or all in one."""
    x = _any(w, 1)
    form = w.random.randrange(4)
    if form == 0:
        whole: Dim = 1
        for dim in x.dims:
            whole = dim if whole == 1 else _product(whole, dim)
        return w.put(f"wnp.reshape({x}, (-1,))", x.dtype, [whole])
    if form == 1:
        at = w.random.randint(0, x.rank)
        dims = [*x.dims[:at], 1, *x.dims[at:]]
        return w.put(f"wnp.reshape({x}, {_shape(dims)})", x.dtype, dims)
    if x.rank < 2:
        raise Unfit
    at = w.random.randrange(x.rank - 1)
    dims = [*x.dims[:at], _product(x.dims[at], x.dims[at + 1]), *x.dims[at + 2 :]]
    merged = w.put(f"{x}.reshape({_shape(dims)})", x.dtype, dims)
    if form == 2:
        return merged
    halves = [*x.dims[:at], x.dims[at + 1], x.dims[at], *x.dims[at + 2 :]]
    return w.put(f"{merged}.reshape({_shape(halves)})", x.dtype, halves)


def permuted(w: Writer) -> Value:
    """Axes in another order."""
    x = _any(w, 2)
    order = w.random.sample(range(x.rank), x.rank)
    if w.random.random() < 0.3:
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        return w.put(f"{x}.mT", x.dtype, [x.dims[n] for n in order])
    return w.put(f"wnp.permute_dims({x}, {tuple(order)})", x.dtype, [x.dims[n] for n in order])


def joined(w: Writer) -> Value:
    """Concatenated along an axis."""
    x = _any(w, 1)
    y, axis = w.beside(x, same=True), w.axis(x)
    scaled = w.random.choice([str(y), f"{y} * 0.5", f"wnp.sin({y})"])
    dims = [_product(2, dim) if n == axis else dim for n, dim in enumerate(x.dims)]
    return w.put(f"wnp.concat([{x}, {scaled}], axis={axis})", x.dtype, dims)


def stacked(w: Writer) -> Value:
    """Along a new axis."""
    x = _any(w, 0, 3)
    y, axis = w.beside(x, same=True), w.random.randint(0, x.rank)
    dims = [*x.dims[:axis], 3, *x.dims[axis:]]
    return w.put(f"wnp.stack([{x}, {y}, {x} * {y}], axis={axis})", x.dtype, dims)


def repeated(w: Writer) -> Value:
    """Whole tensors, or elements, several times."""
    x = _any(w, 1)
    axis = w.axis(x)
    dims = [_product(2, dim) if n == axis else dim for n, dim in enumerate(x.dims)]
    if w.random.random() < 0.5:
        return w.put(f"wnp.repeat({x}, 2, axis={axis})", x.dtype, dims)
    counts = tuple(2 if n == axis else 1 for n in range(x.rank))
    if w.random.random() < 0.5 and not w.statements:
        w.graph_only()
        return w.put(f"{x}.op('tile', {x}, repeats={counts})", x.dtype, dims)
    return w.put(f"wnp.tile({x}, {counts})", x.dtype, dims)


def turned(w: Writer) -> Value:
    """Backwards, or around the end."""
    x = _any(w, 1)
    axis = w.axis(x, 1)
    text = w.random.choice(["wnp.flip({x}, axis={a})", "wnp.roll({x}, 1, axis={a})",
                            "wnp.roll({x}, -2, axis={a})"])  # fmt: skip
    return w.like(text.format(x=x, a=axis), x)


def spread(w: Writer) -> Value:
    """Broadcast along a new first axis, or along one of 1."""
    x = _any(w, 0, 3)
    dims = [w.random.choice(["n", 2, 3]), *x.dims] if "n" in _names(w) else [2, *x.dims]
    return w.put(f"wnp.broadcast_to({x}, {_shape(dims)})", x.dtype, dims)


def _names(w: Writer) -> set[Dim]:
    return {line.split(" = ")[0].strip() for line in w.lines if ".shape[" in line}


def part(w: Writer) -> Value:
    """A slice of basic indexing."""
    x = _any(w, 1)
    axis = w.axis(x, 2)
    dim = x.dims[axis]
    of_any = [("1:", f"({dim} - 1)"), (":-1", f"({dim} - 1)"), ("0", None), ("-1", None), ("None", "new"),
              ("1", None)]  # fmt: skip
    of_known = [
        ("::2", f"(({dim} + 1) // 2)"),
        ("::-1", dim),
        ("1::2", f"({dim} // 2)"),
        ("-2:-1", 1),
    ]
    text, left = w.random.choice(of_any if len(w.sizes) > 1 else of_any + of_known)
    index = ", ".join([":"] * axis + [text])
    dims = list(x.dims)
    if left == "new":
        dims.insert(axis, 1)
    elif left is None:
        del dims[axis]
    else:
        dims[axis] = _folded(left)
    return w.put(f"{x}[{index}]", x.dtype, dims)


def _folded(dim: Dim) -> Dim:
    return eval(dim) if isinstance(dim, str) and not any(c in dim for c in "nmk") else dim


def triangle(w: Writer) -> Value:
    """The upper or lower part."""
    x = _any(w, 2)
    name, k = w.random.choice(["tril", "triu"]), w.random.choice([-1, 0, 0, 1])
    return w.like(f"wnp.{name}({x}, k={k})", x)


def padded(w: Writer) -> Value:
    """A border around the last axis."""
    w.graph_only()
    x = _any(w, 1)
    mode = w.random.choice(["constant", "edge", "reflect", "wrap"])
    if w.least(x.dims[-1]) < 3:
        raise Unfit
    pads = "(" + "0, " * (x.rank - 1) + "1, " + "0, " * (x.rank - 1) + "2, )"
    text = f"{x}.op('pad', {x}, pads={pads}, mode={mode!r})"
    return w.put(text, x.dtype, [*x.dims[:-1], _folded(f"({x.dims[-1]} + 3)")])


def _starts(w: Writer, x: Value) -> tuple[str, str, list[int]]:
    axis = w.axis(x, 2)
    starts = [int(n == axis) for n in range(x.rank)]
    return str(tuple(starts)), str([1] * x.rank), starts


def placed(w: Writer) -> Value:
    """A part among zeros, and in place of a part."""
    w.graph_only()
    x = _any(w, 1)
    starts, steps, at = _starts(w, x)
    if any(isinstance(dim, str) for dim in x.dims) and len(w.sizes) > 1:
        raise Unfit
    index = ", ".join("1:" if n else ":" for n in at)
    if w.random.random() < 0.5:
        return w.like(
            f"{x}.op('insert_slice', {x}, wnp.sin({x}[{index}]), starts={starts}, steps={steps})", x
        )
    grown = [_folded(f"({dim} + 1)") if n else dim for dim, n in zip(x.dims, at, strict=True)]
    return w.put(f"{x}.op('scatter_slice', {x}, shape={_shape(grown)}, starts={starts}, steps={steps})", x.dtype, grown)  # fmt: skip


def cut(w: Writer) -> Value:
    """Parts that are used on their own."""
    x = _any(w, 1)
    axis = next((n for n, dim in enumerate(x.dims) if isinstance(dim, int) and dim > 1), None)
    if axis is None:
        raise Unfit
    dims = [dim for n, dim in enumerate(x.dims) if n != axis]
    if w.random.random() < 0.5 or w.statements:
        return w.put(f"sum(wnp.unstack(wnp.tanh({x}), axis={axis})[1:]) * 0.5", x.dtype, dims)
    w.graph_only()
    sizes = (1, int(x.dims[axis]) - 1)
    text = f"{x}.results('split', {x}, axis={axis}, sizes={sizes})[0]"
    return w.put(text, x.dtype, [1 if n == axis else dim for n, dim in enumerate(x.dims)])


def counting(w: Writer) -> Value:
    """Numbers that no input has: ranges, identities, constants."""
    x = _any(w, 1)
    kind = w.random.randrange(4 if w.statements else 5)
    if kind == 4:
        w.graph_only()
        scalars = f"wnp.sin({x}).sum(), wnp.cos({x}).sum()"
        return w.put(f"{x}.op('range', {scalars}, size=(3,))", x.dtype, [3])
    if kind == 0:
        return w.like(f"{x} + wnp.full_like({x}, 0.25) * wnp.ones_like({x})", x)
    if kind == 1:
        return w.put(f"wnp.arange(4, dtype=np.{x.dtype}) * 0.5 + {x}.sum() * 0.1", x.dtype, [4])
    if kind == 2:
        return w.put(f"wnp.eye(3, dtype=np.{x.dtype}) * 2.0 + {x}.sum() * 0.1", x.dtype, [3, 3])
    return w.put(f"wnp.linspace(0.0, 1.0, 5, dtype=np.{x.dtype}) * {x}.sum()", x.dtype, [5])


def grid(w: Writer) -> Value:
    """Coordinates of a grid."""
    x = w.pick(lambda each: each.is_float and each.rank == 1)
    y = w.pick(lambda each: each.dtype == x.dtype and each.rank == 1)
    return w.put(f"wnp.meshgrid({x}, {y}, indexing='ij')[1] * {x}[:, None]", x.dtype, [*x.dims, *y.dims])  # fmt: skip


def sizes(w: Writer) -> Value:
    """Sizes as numbers of the graph."""
    w.graph_only()
    x = _any(w, 1)
    if w.random.random() < 0.5:
        return w.like(f"{x} * (1.0 / ({x}.op('size', {x}).astype(np.{x.dtype}) + 1.0))", x)
    return w.like(f"{x} * ({x}.op('shape', {x}, start=0).sum().astype(np.{x.dtype}) * 0.1)", x)


RULES: Sequence[Rule] = (
    reshaped, reshaped, permuted, permuted, joined, stacked, repeated, turned, spread, part, part, triangle, padded,
    placed, placed, cut, counting, grid, sizes,
)  # fmt: skip
