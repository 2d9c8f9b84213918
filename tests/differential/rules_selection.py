"""Rules: elements chosen by indices, and stored to them."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.program import Dim
from tests.differential.writer import Rule, Unfit, Value, Writer


def _indices(w: Writer, x: Value) -> tuple[str, int, tuple[Dim, ...]]:
    """Indices into an axis: an input, places of greatest elements, or constants."""
    axis = w.axis(x, 1)
    least = w.least(x.dims[axis])
    # Integers that the program computed may be anything: they are brought into the axis.
    found = w.fits(lambda each: each.dtype in ("int64", "int32") and each.rank < 3)
    if found and w.random.random() < 0.7:
        index = w.random.choice(found)
        return f"wnp.remainder({index}, {least})", axis, index.dims
    chosen = [w.random.randrange(-least, least) for _ in range(w.random.choice([1, 2, 3]))]
    return f"np.array({chosen})", axis, (len(chosen),)


def taken(w: Writer) -> Value:
    """Rows by number."""
    x = w.floats(low=1)
    index, axis, dims = _indices(w, x)
    if x.rank + len(dims) > 5:
        raise Unfit
    text = f"wnp.take({x}, {index}, axis={axis})" if len(dims) == 1 or not w.statements else ""
    if w.random.random() < 0.4 and axis == 0 or not text:
        if axis:
            raise Unfit
        text = f"{x}[{index}]"
    return w.put(text, x.dtype, [*x.dims[:axis], *dims, *x.dims[axis + 1 :]])


def best_row(w: Writer) -> Value:
    """The row where something is greatest."""
    x = w.pick(lambda each: each.is_float and each.rank > 1 and w.least(each.dims[0]) > 0
               and w.least(each.dims[1]) > 0)  # fmt: skip
    column = f"{x}" + "[:" + ", 0" * (x.rank - 1) + "]"
    return w.put(f"wnp.take({x}, wnp.argmax({column}), axis=0)", x.dtype, x.dims[1:])


def along(w: Writer) -> Value:
    """An element of each line."""
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    index = f"wnp.argmax({x}, axis={axis}, keepdims=True)"
    dims = [1 if n == axis else dim for n, dim in enumerate(x.dims)]
    return w.put(f"wnp.take_along_axis({x}, {index}, axis={axis})", x.dtype, dims)


def vectors(w: Writer) -> Value:
    """Elements by vectors of indices."""
    w.graph_only()
    x = w.floats(low=2)
    rows, columns = (w.least(dim) for dim in x.dims[:2])
    if not rows or not columns:
        raise Unfit
    pairs = [[w.random.randrange(rows), w.random.randrange(-columns, columns)] for _ in range(3)]
    return w.put(f"{x}.op('gather_nd', {x}, np.array({pairs}), batch_dims=0)", x.dtype, [3, *x.dims[2:]])  # fmt: skip


def scattered(w: Writer) -> Value:
    """Rows added to, or put in place of, others."""
    w.graph_only()
    x = w.floats(low=1)
    rows = w.least(x.dims[0])
    if rows < 2:
        raise Unfit
    reduction = w.random.choice(["none", "add", "add", "mul", "max", "min"])
    chosen = w.random.sample(range(rows), 2)
    if reduction == "add" and w.random.random() < 0.5:
        chosen = [chosen[0]] * 2
    updates = f"wnp.sin({x}[:2])"
    text = f"{x}.op('scatter_nd', {x}, np.array({[[n] for n in chosen]}), {updates}, reduction={reduction!r})"
    return w.like(text, x)


def scattered_elements(w: Writer) -> Value:
    """Elements of each line put where others stood."""
    w.graph_only()
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    reduction = w.random.choice(["none", "add", "add", "max"])
    index = f"wnp.argsort({x}, axis={axis})" if reduction == "none" else f"wnp.argmax({x}, axis={axis}, keepdims=True)"  # fmt: skip
    if reduction == "none":
        updates = f"{x} * 0.5"
    else:
        updates = f"wnp.max({x}, axis={axis}, keepdims=True) * 0.5"
    return w.like(f"{x}.op('scatter_elements', {x}, {index}, {updates}, axis={axis}, reduction={reduction!r})", x)  # fmt: skip


def marked(w: Writer) -> Value:
    """A row of 0 and 1 for each index."""
    w.graph_only()
    x = w.floats(low=1)
    axis = w.axis(x, 1)
    place = f"wnp.argmax({x}, axis={axis})"
    text = f"{x}.op('one_hot', {place}, np.array([0.1, 2.0], np.{x.dtype}), depth=(4,), axis=-1)"
    dims = [dim for n, dim in enumerate(x.dims) if n != axis]
    return w.put(f"{text} * {x}.sum()", x.dtype, [*dims, 4])


def reversed_sequences(w: Writer) -> Value:
    """The beginnings of rows backwards."""
    w.graph_only()
    x = w.floats(low=2)
    if w.least(x.dims[1]) < 1:
        raise Unfit
    lengths = f"wnp.argmax({x}, axis=1)" + ".sum(axis=-1)" * (x.rank - 2)
    lengths = f"wnp.remainder({lengths}, {w.least(x.dims[1])}) + 1"
    return w.like(f"{x}.op('reverse_sequence', {x}, {lengths}, batch_axis=0, time_axis=1)", x)


def blended(w: Writer) -> Value:
    """Weighted sums of neighbours along an axis."""
    w.graph_only()
    x = w.floats(low=1)
    axis = w.axis(x, 2)
    table, weights = "np.array([[0, 1], [1, 0], [1, 1]])", f"np.array([[0.5, 0.5], [0.2, 0.9], [1.0, -0.3]], np.{x.dtype})"  # fmt: skip
    dims = [3 if n == axis else dim for n, dim in enumerate(x.dims)]
    text = f"{x}.op('resample', {x}, {table}, {weights}, axis={axis}, batch_dims=0)"
    return w.put(text, x.dtype, dims)


def where_true(w: Writer) -> Value:
    """As many elements as a condition holds of, summed."""
    x = w.pick(lambda each: each.is_float and each.rank == 1)
    w.operator_only()
    return w.put(f"({x}[wnp.nonzero({x} > -0.3)[0]] ** 2).sum()", x.dtype, ())


def distinct(w: Writer) -> Value:
    """How many values there are."""
    w.operator_only()
    x = w.pick(lambda each: each.dtype == "int64" and each.rank == 1 and w.least(each.dims[0]) > 0)
    return w.put(f"wnp.unique_values({x}).sum().astype(np.{w.float})", w.float, ())


RULES: Sequence[Rule] = (
    taken, taken, taken, best_row, best_row, along, vectors, scattered, scattered, scattered_elements,
    marked, reversed_sequences, blended, where_true, distinct,
)  # fmt: skip
