"""gather and scatter: slices at positions that index vectors name.

Dims that indices count along, and those of which a slice has a part only, are made one; each index
vector and each position of a partial window becomes one index along it, and whole dims stay slices.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.bodies import combination
from weft.compiler.frontend.stablehlo.ops.control import repeated
from weft.compiler.frontend.stablehlo.ops.movement import stretched, wide
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.types import BOOL, I8, I16, I32, I64, UI8, UI16

SHORT_INDICES = (I8, I16, I32, UI8, UI16)
"""Types of indices that i32 holds all of."""


class Slices(Struct):
    """Where slices of an operand are: `start_map` names the operand's dim of each component of an
    index vector, `window` the dims of a slice that are dims of the slices' tensor, in order.
    """

    dims: list[Expr]
    sizes: list[Expr]
    start_map: list[int]
    window: list[int]
    batching: list[int]
    vectors: Term
    lead: list[Expr]
    batch_axes: list[int]

    @property
    def indexed(self) -> list[int]:
        """The operand's dims that are made one."""
        named = {*self.start_map, *self.batching}
        return [
            dim for dim, size in enumerate(self.sizes) if dim in named or size != self.dims[dim]
        ]

    @property
    def whole(self) -> list[int]:
        """The other dims, which slices have all of."""
        indexed = self.indexed
        return [dim for dim in range(len(self.dims)) if dim not in indexed]

    @property
    def partial(self) -> list[int]:
        """The indexed dims of which slices have several elements."""
        return [dim for dim in self.indexed if dim in self.window and self.sizes[dim] != 1]

    @property
    def element(self) -> Attribute:
        """The type that indices are computed in."""
        given, count = self.vectors.type.element, self.count.constant
        narrow = given in SHORT_INDICES and count is not None and count < 2**31
        return I32 if narrow else I64

    def start(self, dim: int) -> Term:
        """The first index along a dim for each index vector."""
        rank = len(self.lead)
        if dim in self.batching:
            axis = self.batch_axes[self.batching.index(dim)]
            along = [self.lead[axis] if at == axis else Expr.of(1) for at in range(rank)]
            numbers = counted(self.vectors.b, self.lead[axis], self.element)
            return numbers.reshape(along).expand(self.lead)
        if dim not in self.start_map:
            return self._number(0).expand(self.lead)
        start = self.vectors.part(rank, self.start_map.index(dim), 1).reshape(self.lead)
        return start.cast(I32) if self.element == I32 else wide(start)

    def _number(self, number: ExprLike) -> Term:
        return size_term(self.vectors.b, number, self.element)

    def linear(self, *, clamps: bool) -> tuple[Term, Term | None]:
        """The index along the one dim, for each index vector and position of a partial window; and,
        unless starts are moved inside, whether it is inside.
        """
        b, partial = self.vectors.b, self.partial
        shape = [*self.lead, *(self.sizes[dim] for dim in partial)]
        total: Term | None = None
        inside: Term | None = None
        for dim in self.indexed:
            at, size = self.start(dim), self._number(self.dims[dim])
            if clamps:
                at = at.maximum(0).minimum(self._number(self.dims[dim] - self.sizes[dim]))
            at = at.reshape([*self.lead, *[1] * len(partial)])
            if dim in partial:
                along = [Expr.of(1)] * len(shape)
                along[len(self.lead) + partial.index(dim)] = self.sizes[dim]
                at = at + counted(b, self.sizes[dim], self.element).reshape(along)
            if not clamps:
                fits = (at >= 0) & (at < size)
                inside = fits if inside is None else inside & fits
            total = at if total is None else total * size + at
        if total is None:
            total = self._number(0)
        return total.expand(shape), None if inside is None else inside.expand(shape)

    @property
    def count(self) -> Expr:
        """The elements of the one dim."""
        return product(self.dims[dim] for dim in self.indexed)


def _vectors(indices: Term, axis: int) -> Term:
    """Index vectors along the last dim."""
    rank = len(indices.shape)
    if axis == rank:
        indices = indices.reshape([*indices.shape, 1])
        rank += 1
    order = [at for at in range(rank) if at != axis] + [axis]
    return indices.transpose(order)


def _slices(
    x: Term, indices: Term, sizes: Sequence[Expr], numbers: dict[str, list[int]], axis: int
) -> Slices:
    vectors = _vectors(indices, axis)
    lead = list(vectors.shape[:-1])
    dims = list(x.shape)
    left_out = {*numbers["collapsed"], *numbers["operand_batching"]}
    window = [dim for dim in range(len(dims)) if dim not in left_out]
    rank = len(lead) + 1
    axes = [at if at < axis else at - 1 for at in numbers["indices_batching"]]
    if len(sizes) != len(dims) or any(at >= rank for at in axes):
        raise ModelError(f"requires a size for each dim of {x.type}, got {list(sizes)}")
    start_map, batching = numbers["start_map"], numbers["operand_batching"]
    return Slices(dims, list(sizes), start_map, window, batching, vectors, lead, axes)


def gather(node: Node) -> Sequence[Term]:
    """Slices of one size at first indices that are moved so that they lie inside."""
    x, indices = node.operands
    sizes = [Expr.of(size) for size in node.integers("slice_sizes")]
    return gathered(node, x, indices, sizes)


def gathered(node: Node, x: Term, indices: Term, sizes: Sequence[Expr]) -> Sequence[Term]:
    """`gather` with slices of these sizes."""
    record = node.record("dimension_numbers")
    numbers = {
        "collapsed": record.integers("collapsed_slice_dims"),
        "operand_batching": record.integers("operand_batching_dims"),
        "indices_batching": record.integers("start_indices_batching_dims"),
        "start_map": record.integers("start_index_map"),
    }
    axis = (record.integers("index_vector_dim") or [0])[0]
    slices = _slices(x, indices, sizes, numbers, axis)
    result = node.result.shape
    if 0 in result:
        return [x.number(0).expand(node.result.static)]
    flat = _flattened(x, slices)
    linear, _ = slices.linear(clamps=True)
    found = flat.take(linear, 0)
    offsets = record.integers("offset_dims")
    return [_arranged(found, slices, offsets, len(result))]


def _flattened(x: Term, slices: Slices) -> Term:
    """The operand with its indexed dims as one in front."""
    whole = slices.whole
    ordered = x.transpose([*slices.indexed, *whole])
    return ordered.reshape([slices.count, *(slices.dims[dim] for dim in whole)])


def _arranged(found: Term, slices: Slices, offsets: Sequence[int], rank: int) -> Term:
    """Dims `[lead, partial, whole]` in the order of the slices' tensor, where others are 1."""
    held = [*slices.partial, *slices.whole]
    order: list[int] = []
    ones: list[int] = []
    lead = iter(range(len(slices.lead)))
    for axis in range(rank):
        dim = slices.window[offsets.index(axis)] if axis in offsets else None
        if dim is None:
            order.append(next(lead))
        elif dim in held:
            order.append(len(slices.lead) + held.index(dim))
        else:
            ones.append(axis)
    kept = sorted(order)  # without dims that are collapsed, of size 1, of which slices have all
    found = found.reshape([found.shape[at] for at in kept])
    return found.transpose([kept.index(at) for at in order]).insert(*ones)


def scatter(node: Node) -> Sequence[Term]:
    """Operands with updates combined into them; what falls outside is left out."""
    count = len(node.results)
    operands, indices, updates = (
        node.operands[:count], node.operands[count], node.operands[count + 1 :],
    )  # fmt: skip
    record = node.record("scatter_dimension_numbers")
    axis = (record.integers("index_vector_dim") or [0])[0]
    first = operands[0]
    dims = first.shape
    numbers = {
        "collapsed": record.integers("inserted_window_dims"),
        "operand_batching": record.integers("input_batching_dims"),
        "indices_batching": record.integers("scatter_indices_batching_dims"),
        "start_map": record.integers("scatter_dims_to_operand_dims"),
    }
    left_out = {*numbers["collapsed"], *numbers["operand_batching"]}
    window_dims = record.integers("update_window_dims")
    extents = iter(updates[0].shape[at] for at in window_dims)
    sizes = [Expr.of(1) if dim in left_out else next(extents) for dim in range(len(dims))]
    slices = _slices(first, indices, sizes, numbers, axis)
    if 0 in updates[0].shape or 0 in dims:
        return operands
    linear, inside = slices.linear(clamps=False)
    if inside is not None:
        linear = inside.where(linear, size_term(node.b, slices.count, slices.element))
    flats = [_with_spare(_flattened(each, slices)) for each in operands]
    changes = [_as_rows(each, slices, window_dims, linear) for each in updates]
    found = scattered_rows(node, flats, linear, changes)
    return [_restored(each, slices) for each in found]


def scattered_rows(
    node: Node,
    flats: Sequence[Term],
    linear: Term,
    changes: Sequence[Term],
    position: int = 0,
) -> list[Term]:
    """Rows of tensors combined with others, by the region at that position."""
    body = combination(node.op.regions[position].block) if len(flats) == 1 else None
    first = flats[0]
    if body in ("none", "add", "mul", "max", "min") and first.type.element != BOOL:
        return [_combined(first, linear, changes[0], body)]
    words = {"none": "none", "and": "min", "or": "max", "max": "max", "min": "min"}
    if body in words and first.type.element == BOOL:
        wide = _combined(first.cast(UI8), linear, changes[0].cast(UI8), words[body])
        return [wide.cast(BOOL)]
    return _one_by_one(node, flats, linear, changes, position)


def _with_spare(flat: Term) -> Term:
    """With one more row at the end, for what falls outside."""
    rank = len(flat.shape)
    pads = shape_attr([*[0] * rank, 1, *[0] * (rank - 1)])
    return flat.of(flat.b.pad(flat.value, None, pads=pads, mode="constant"))


def _as_rows(update: Term, slices: Slices, window_dims: Sequence[int], linear: Term) -> Term:
    """Updates as `[index vectors, partial window, whole dims]`."""
    held = [*slices.partial, *(dim for dim in slices.whole if dim in slices.window)]
    outer = [axis for axis in range(len(update.shape)) if axis not in window_dims]
    order = outer + [window_dims[slices.window.index(dim)] for dim in held]
    kept_axes = sorted(order)
    update = update.reshape([update.shape[axis] for axis in kept_axes])
    moved = update.transpose([kept_axes.index(axis) for axis in order])
    whole = [slices.dims[dim] for dim in slices.whole]
    lead = len(linear.shape)
    kept = [dim for dim in slices.whole if dim in slices.window]
    moved = stretched(moved, [*linear.shape, *(slices.dims[dim] for dim in kept)])
    return moved.reshape([*moved.shape[:lead], *whole])


def _combined(flat: Term, linear: Term, updates: Term, reduction: str) -> Term:
    vectors = linear.reshape([*linear.shape, 1])
    return flat.of(flat.b.scatter_nd(flat.value, vectors.value, updates.value, reduction=reduction))


def _restored(flat: Term, slices: Slices) -> Term:
    """Without the spare row, in the operand's own dims."""
    rows = flat.part(0, 0, slices.count)
    order = [*slices.indexed, *slices.whole]
    shaped = rows.reshape([slices.dims[dim] for dim in order])
    return shaped.transpose([order.index(dim) for dim in range(len(order))])


def _one_by_one(
    node: Node, flats: Sequence[Term], linear: Term, updates: Sequence[Term], position: int
) -> list[Term]:
    """Updates applied one after the other by a body of any form."""
    count = product(linear.shape)
    positions = linear.reshape([count])
    rows = [each.reshape([count, *each.shape[len(linear.shape) :]]) for each in updates]

    def step(state: Sequence[Term], index: Term) -> list[Term]:
        b = index.b
        at = Term(b, positions.value).take(index, 0)
        old = [each.take(at, 0) for each in state]
        new = [Term(b, each.value).take(index, 0) for each in rows]
        found = node.applied([*old, *new], b, position)
        vector = at.reshape([1, 1])
        return [
            each.of(
                b.scatter_nd(
                    each.value,
                    vector.value,
                    value.expand(before.shape).reshape([1, *before.shape]).value,
                    reduction="none",
                )
            )
            for each, value, before in zip(state, found, old, strict=True)
        ]

    return repeated(node, count, flats, step)


def torch_index_select(node: Node) -> Sequence[Term]:
    """Slices along a dim by their indices."""
    x, indices = node.operands
    if node.integer("batch_dims"):
        raise UnsupportedError("requires indices for the whole operand, got batch_dims")
    return [x.take(indices, node.integer("dim"))]


INDEXING = {"gather": gather, "scatter": scatter, "torch_index_select": torch_index_select}
"""By the name in StableHLO."""
