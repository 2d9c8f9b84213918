"""reduce, reduce_window and select_and_scatter.

A body of any form is applied to tensors of half the elements, pair by pair, so that there are
as many steps as the logarithm of the count; a few combinations are operators of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.bodies import combination, position_of_extremum
from weft.compiler.frontend.stablehlo.ops.indexing import scattered_rows
from weft.compiler.frontend.stablehlo.ops.movement import of_one_shape, padded, stretched, strided
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, product
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.accumulate import highest, lowest
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.types import BF16, BOOL, F16, F32, I64, UI8, Shape
from weft.dialects.stablehlo.op import HloOp

Body = Callable[[Sequence[Term]], list[Term]]
"""What two states, one behind the other, become."""

_REDUCERS = {"add": "reduce_sum", "mul": "reduce_prod", "max": "reduce_max", "min": "reduce_min"}
_OPERATORS = {"add": "add", "mul": "mul", "max": "max", "min": "min"}
_OF_BOOLS = {"and": "min", "or": "max", "mul": "min", "add": "max", "max": "max", "min": "min"}


def identity_of(name: str, element: Attribute) -> float | None:
    """What changes nothing under a combination."""
    if element == BOOL:
        return {"and": 1, "or": 0, "mul": 1, "add": 0, "max": 0, "min": 1, "xor": 0}.get(name)
    numbers = {"add": 0, "mul": 1, "or": 0, "xor": 0}
    if name in numbers:
        return numbers[name]
    if name in ("max", "min"):
        return lowest(element) if name == "max" else highest(element)
    return None


def is_identity(name: str | None, start: Term) -> bool:
    """Whether a start is a constant that changes nothing under a combination."""
    owner = start.value.owner
    if name is None or not isinstance(owner, ConstantOp) or owner.literal is None:
        return False
    return list(owner.literal.data) == [identity_of(name, start.type.element)]


def reduce(node: Node) -> Sequence[Term]:
    """Elements along dims combined, beginning with a start."""
    count = len(node.results)
    operands, starts = of_one_shape(node.operands[:count]), node.operands[count:]
    dims = node.integers("dimensions")
    body = combination(node.op.regions[0].block) if count == 1 else None
    if count == 2 and (extremum := _extremum(node, operands, starts, dims)) is not None:
        return extremum
    found = _known_reduction(operands[0], dims, body)
    if found is None:
        return _tree(node, operands, starts, dims)
    if is_identity(body, starts[0]):
        return [found]
    start = starts[0].expand(found.shape)
    if body in _OPERATORS and found.type.element != BOOL:  # also of parts of complex numbers
        return [found.of(found.b.op(_OPERATORS[body], start.value, found.value).results[0])]
    return [each.expand(found.shape) for each in node.applied([start, found])]


def _extremum(
    node: Node, operands: Sequence[Term], starts: Sequence[Term], dims: Sequence[int]
) -> list[Term] | None:
    """The extrema of lines and their positions, where the body and an operand that counts are
    those; None where they are not.
    """
    name, (x, places) = position_of_extremum(node.op.regions[0].block), operands
    value = None if name is None else _known_reduction(x, dims, name.removeprefix("arg_"))
    if name is None or value is None or x.type.element == BOOL or _counted_dim(node) != [*dims]:
        return None
    if x.shape[dims[0]].constant == 0:
        return None
    options = {"axis": dims[0], "keepdims": False, "select_last_index": False}
    place = x.of(x.b.op(name, x.value, **options).results[0]).cast(places.type.element)
    if is_identity(name.removeprefix("arg_"), starts[0]) and is_identity("add", starts[1]):
        return [value, place]  # what begins at place 0 is no other than the first element
    return node.applied([*(each.expand(value.shape) for each in starts), value, place])


def _counted_dim(node: Node) -> list[int]:
    """The dim along which the second operand counts; none where it does not."""
    op = node.op.operands[1].owner
    if not isinstance(op, HloOp) or op.name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return []
    axis = op.written.get("iota_dimension")
    return [axis.value.data] if isinstance(axis, IntegerAttr) else []


def _known_reduction(x: Term, dims: Sequence[int], body: str | None) -> Term | None:
    if not dims:
        return None
    if x.type.element == BOOL and body in _OF_BOOLS:
        reducer = _REDUCERS[_OF_BOOLS[body]]
        wide = x.cast(UI8)
        found = wide.b.op(reducer, wide.value, axes=list(dims), keepdims=False).results[0]
        return x.of(found).cast(BOOL)
    if x.type.element == BOOL or body not in _REDUCERS:
        return None
    found = x.b.op(_REDUCERS[body], x.value, axes=list(dims), keepdims=False).results[0]
    return x.of(found)


def _tree(
    node: Node, operands: Sequence[Term], starts: Sequence[Term], dims: Sequence[int]
) -> list[Term]:
    """Neighbours are combined until one element is left, and the start with that."""
    rank = len(operands[0].shape)
    kept = [axis for axis in range(rank) if axis not in dims]
    sizes = operands[0].shape
    lead = [sizes[axis] for axis in kept]
    length = constant_size(sizes[axis] for axis in dims)
    lines = [each.transpose([*kept, *dims]).reshape([*lead, length]) for each in operands]
    starting = [each.expand(lead) for each in starts]
    if length == 0:
        return starting
    axis = len(lead)
    while length > 1:
        half = length // 2
        first = [_every_second(each, axis, 0, half) for each in lines]
        second = [_every_second(each, axis, 1, half) for each in lines]
        found = [each.expand(first[0].shape) for each in node.applied([*first, *second])]
        if length % 2:
            rests = [each.part(axis, length - 1, 1) for each in lines]
            found = [joined([a, b], axis) for a, b in zip(found, rests, strict=True)]
        lines, length = found, half + length % 2
    return [
        each.expand(lead)
        for each in node.applied([*starting, *(each.reshape(lead) for each in lines)])
    ]


def _every_second(x: Term, axis: int, first: int, count: int) -> Term:
    starts = [0] * len(x.shape)
    ends, steps = list(x.shape), [1] * len(x.shape)
    starts[axis], ends[axis], steps[axis] = first, Expr.of(first + 2 * (count - 1) + 1), 2
    return strided(x, starts, ends, steps)


def constant_size(dims: Iterable[Expr]) -> int:
    """The elements of dims, which do not vary."""
    size = product(dims).constant
    if size is None:
        raise UnsupportedError("requires a body that weft knows where sizes vary, got another")
    return size


class Window(Struct, frozen=True):
    """Windows over a tensor, with padding and gaps between elements of both."""

    sizes: list[int]
    strides: list[int]
    base_dilations: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]]

    @staticmethod
    def of(node: Node, rank: int) -> Window:
        """The windows that a node's attributes describe."""
        sizes = node.integers("window_dimensions", [1] * rank)
        ones = [1] * rank
        lists = [node.integers(n, ones) for n in
                 ("window_strides", "base_dilations", "window_dilations")]  # fmt: skip
        if any(len(each) != rank for each in (sizes, *lists)):
            raise ModelError(f"requires windows of rank {rank}, got {sizes}")
        strides, bases, dilations = lists
        return Window(sizes, strides, bases, dilations, node.pairs("padding", rank))

    def padded(self, x: Term, value: Term) -> Term:
        """The tensor with gaps and padding of a value."""
        low, high = ([pair[side] for pair in self.pads] for side in (0, 1))
        return padded(x, value, low, high, [each - 1 for each in self.base_dilations])

    def combined(self, state: Sequence[Term], body: Body) -> list[Term]:
        """Each window's elements combined in order: windows along the last dim first, of lengths
        that are powers of two, which are doubled.
        """
        found = list(state)
        for axis in reversed(range(len(self.sizes))):
            found = self._along(found, axis, body)
        return found

    def _along(self, state: list[Term], axis: int, body: Body) -> list[Term]:
        size, gap = self.sizes[axis], self.dilations[axis]
        length = state[0].shape[axis]
        count = length - (size - 1) * gap
        total: list[Term] | None = None
        covered, power = 0, 1
        while True:
            if size & power:
                part = [each.part(axis, covered * gap, count) for each in state]
                total = part if total is None else _paired(body, total, part)
                covered += power
            if covered == size:
                break
            left = state[0].shape[axis] - power * gap
            first = [each.part(axis, 0, left) for each in state]
            second = [each.part(axis, power * gap, left) for each in state]
            state = _paired(body, first, second)
            power *= 2
        assert total is not None, "a window has elements"
        return [_stepped(each, axis, self.strides[axis]) for each in total]


def _paired(body: Body, first: Sequence[Term], second: Sequence[Term]) -> list[Term]:
    return [each.expand(first[0].shape) for each in body([*first, *second])]


def _stepped(x: Term, axis: int, stride: int) -> Term:
    if stride == 1:
        return x
    ends, steps = x.shape, [1] * len(x.shape)
    steps[axis] = stride
    return strided(x, [0] * len(ends), ends, steps)


def reduce_window(node: Node) -> Sequence[Term]:
    """The elements of each window combined, beginning with a start."""
    count = len(node.results)
    operands, starts = of_one_shape(node.operands[:count]), node.operands[count:]
    shape = node.results[0].shape
    window = Window.of(node, len(shape))
    if 0 in shape:
        empty = node.results[0].static
        return [start.expand(empty) for start in starts]
    name = combination(node.op.regions[0].block) if count == 1 else None
    element = operands[0].type.element
    wide = F32 if name in ("add", "mul") and element in (F16, BF16) else element

    def body(pair: Sequence[Term]) -> list[Term]:
        if name in _OPERATORS and element != BOOL:
            first, second = pair
            return [first.of(first.b.op(_OPERATORS[name], first.value, second.value).results[0])]
        return node.applied(pair)

    if name is not None:
        operands, starts = [operands[0].cast(wide)], [starts[0].cast(wide)]
    pads = zip(operands, starts, strict=True)
    found = window.combined([window.padded(x, start) for x, start in pads], body)
    if not is_identity(name, node.operands[count]):
        starting = [start.expand(found[0].shape) for start in starts]
        found = _paired(body, starting, found)
    return [each.cast(element) for each in found] if name is not None else found


def select_and_scatter(node: Node) -> Sequence[Term]:
    """Each window's chosen element receives the source's element of that window."""
    x, source, start = node.operands
    dims = x.shape
    window = Window.of(node, len(dims))
    total = product(dims)
    b = node.b
    index = counted(b, total).reshape(dims)
    outside = size_term(b, total, I64)
    state = [window.padded(x, x.number(0)), window.padded(index, outside)]

    def body(pair: Sequence[Term]) -> list[Term]:
        value, position, other, other_position = pair
        (keeps,) = node.applied([value, other], position=0)
        first = (position < outside) & (other_position.equals(outside) | keeps)
        return [first.where(value, other), first.where(position, other_position)]

    positions = window.combined(state, body)[1]
    if len(positions.shape) != len(source.shape):
        raise ModelError(f"requires a source of {positions.type}, got {source.type}")
    return [_scattered(node, dims, positions, stretched(source, positions.shape), start)]


def _scattered(node: Node, dims: Shape, positions: Term, source: Term, start: Term) -> Term:
    total, count = product(dims), product(positions.shape)
    flat = start.expand([total + 1])
    rows = scattered_rows(
        node, [flat], positions.reshape([count]), [source.reshape([count])], position=1
    )
    return rows[0].part(0, 0, total).reshape(dims)


REDUCTIONS = {
    "reduce": reduce,
    "reduce_window": reduce_window,
    "select_and_scatter": select_and_scatter,
}
"""By the name in StableHLO."""
