"""Sizes that operators need their operands to share: where a file leaves one open, it is assumed to
be what the others say, and each call checks it.

Operators of the graph that state such sizes themselves (broadcasting ones, Concat, products) are
not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.dialects.expr import Expr
from weft.dialects.graph.core.broadcast import agreed_dim
from weft.dialects.graph.core.types import Shape, type_of

Wanted = tuple[int, int, Expr]
"""An operand's position, an axis of it, and the size that it has to have there."""

Axis = tuple[int, int]
"""An operand's position, and an axis of it."""


def with_shared_sizes(node: OnnxNode) -> Sequence[SSAValue | None]:
    """The operands of a node under the sizes that they share. What can never be equal, or has no
    such axis, is left to the operator, which refuses it.
    """
    operands = list(node.operands)
    shared = _SHARED.get(node.proto.op_type)
    if shared is None or node.proto.domain or not all(map(_has_rank, node.present())):
        return operands
    for position, axis, size in shared(node):
        operand = operands[position]
        assert operand is not None, "a size is wanted of an operand that is there"
        dims = list(type_of(operand).shape)
        if agreed_dim([dims[axis], size]) is not None:
            dims[axis] = size
            operands[position] = node.assume(operand, dims)
    return operands


def _has_rank(value: SSAValue) -> bool:
    return type_of(value).has_rank


def _shape(node: OnnxNode, position: int) -> Shape:
    """The dims of an operand, none where it is absent."""
    return () if node.optional(position) is None else node.shape(position)


def _same(node: OnnxNode, *axes: Axis) -> Iterator[Wanted]:
    """One size for all of the axes that there are."""
    ranks = {at: len(_shape(node, at)) for at, _ in axes}
    present = [(at, axis) for at, axis in axes if -ranks[at] <= axis < ranks[at]]
    dims = [_shape(node, at)[axis] for at, axis in present]
    agreed = agreed_dim(dims) if dims else None
    if agreed is not None:
        yield from ((at, axis, agreed) for at, axis in present)


def _channels(image: int, kernel: int, node: OnnxNode) -> Iterator[Wanted]:
    """A convolution's image has the filter's channels in each group, and its bias an element for
    each filter.
    """
    if min(len(_shape(node, image)), len(_shape(node, kernel))) < 2:
        return
    groups, given = node.integer("group", 1), node.shape(image)[1]
    channels = node.shape(kernel)[1] * groups
    if given.constant is None or channels.constant is not None:
        yield image, 1, channels
    elif given.constant % max(groups, 1) == 0:
        yield kernel, 1, given // groups
    if node.proto.op_type == "Conv":
        yield from _same(node, (1, 0), (2, 0))


def _transposed_channels(node: OnnxNode) -> Iterator[Wanted]:
    return _same(node, (0, 1), (1, 0))


def _lengths(node: OnnxNode) -> Iterator[Wanted]:
    """A recurrent operator has a length for each example."""
    return _same(node, (0, 0 if node.integer("layout", 0) else 1), (4, 0))


def _reversed_lengths(node: OnnxNode) -> Iterator[Wanted]:
    return _same(node, (0, node.integer("batch_axis", 1)), (1, 0))


def _same_shape(node: OnnxNode) -> Iterator[Wanted]:
    """There is a place for each element."""
    for axis in range(len(_shape(node, 0))):
        yield from _same(node, (0, axis), (1, axis))


def _points(node: OnnxNode) -> Iterator[Wanted]:
    """A grid has a point, of as many coordinates as the image has, for each place of the batch."""
    yield from _same(node, (0, 0), (1, 0))
    if len(_shape(node, 1)) == len(_shape(node, 0)) > 2:
        yield 1, -1, Expr.of(len(_shape(node, 0)) - 2)


def _regions(node: OnnxNode) -> Iterator[Wanted]:
    """A region has two corners, and a place in the batch."""
    if len(_shape(node, 1)) == 2:
        yield 1, 1, Expr.of(4)
    yield from _same(node, (1, 0), (2, 0))


def _scores(node: OnnxNode) -> Iterator[Wanted]:
    """Each box of each example has scores."""
    yield from _same(node, (0, 0), (1, 0))
    yield from _same(node, (0, 1), (1, 2))


def _leading(node: OnnxNode) -> Iterator[Wanted]:
    """Indices are of the examples that they lead into."""
    for axis in range(node.integer("batch_dims", 0)):
        yield from _same(node, (0, axis), (1, axis))


def _slices(node: OnnxNode) -> Iterator[Wanted]:
    """There is a slice, of the dims that are not indexed, for each vector of indices."""
    indices, updates = _shape(node, 1), _shape(node, 2)
    if not indices or indices[-1].constant is None:
        return
    lead, depth = len(indices) - 1, indices[-1].constant
    for axis in range(lead):
        yield from _same(node, (1, axis), (2, axis))
    for axis in range(lead, len(updates)):
        yield from _same(node, (0, axis - lead + depth), (2, axis))


def _parameters(count: int, node: OnnxNode) -> Iterator[Wanted]:
    """Each parameter has an element for each channel."""
    return _same(node, (0, 1), *((at, 0) for at in range(1, count + 1)))


def _trailing(node: OnnxNode) -> Iterator[Wanted]:
    """Parameters have the last dims of the first operand, or 1."""
    for axis in range(-1, -1 - len(_shape(node, 0)), -1):
        others = [
            (at, axis)
            for at in range(1, len(node.operands))
            if len(_shape(node, at)) >= -axis and _shape(node, at)[axis] != 1
        ]
        if others:
            yield from _same(node, (0, axis), *others)


def _updates(node: OnnxNode) -> Iterator[Wanted]:
    """There is an update for each index."""
    for axis in range(len(_shape(node, 1))):
        yield from _same(node, (1, axis), (2, axis))


def _parts(node: OnnxNode) -> Iterator[Wanted]:
    """The sizes of parts make up their tensor, or as many equal parts as there are results do."""
    rank, axis = len(_shape(node, 0)), node.integer("axis", 0)
    if not -rank <= axis < rank:
        return
    if node.optional(1) is not None:
        sizes = node.constants.dims(node.operand(1))
        if sizes is not None:
            yield 0, axis, sum(sizes, Expr.of(0))


def _blocks(axes: Sequence[int], squared: bool, node: OnnxNode) -> Iterator[Wanted]:
    """Blocks of `blocksize` make up the axes."""
    block = node.integer("blocksize", 0)
    factor = block * block if squared else block
    if len(_shape(node, 0)) == 4 and factor > 0:
        yield from ((0, axis, _shape(node, 0)[axis] // factor * factor) for axis in axes)


_SHARED: Mapping[str, Callable[[OnnxNode], Iterator[Wanted]]] = {
    "BatchNormalization": partial(_parameters, 4),
    "Conv": partial(_channels, 0, 1),
    "ConvInteger": partial(_channels, 0, 1),
    "ConvTranspose": _transposed_channels,
    "DepthToSpace": partial(_blocks, (1,), True),
    "GRU": _lengths,
    "GatherND": _leading,
    "GridSample": _points,
    "GroupNormalization": partial(_parameters, 2),
    "InstanceNormalization": partial(_parameters, 2),
    "LSTM": _lengths,
    "LayerNormalization": _trailing,
    "MaxUnpool": _same_shape,
    "NonMaxSuppression": _scores,
    "PRelu": _trailing,
    "QLinearConv": partial(_channels, 0, 3),
    "RNN": _lengths,
    "ReverseSequence": _reversed_lengths,
    "RoiAlign": _regions,
    "ScatterElements": _updates,
    "ScatterND": _slices,
    "SpaceToDepth": partial(_blocks, (2, 3), False),
    "Split": _parts,
}
