"""Upgrade functions of opsets 1 to 7: hints for memory are dropped, and what was said by attributes
of broadcasting is said by shapes.
"""

import numpy as np
from onnx import NodeProto, TensorProto

from weft.compiler.frontend.onnx.graph import describe_node
from weft.compiler.frontend.onnx.opset.builder import (
    Builder,
    find_attribute,
    set_attribute,
    set_input,
    take_attribute,
    take_int,
    take_ints,
)
from weft.dialects.errors import ModelError, UnsupportedError


def without_consumed_inputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Version 6 of most operators: the hint that an input's memory may be reused is gone."""
    take_attribute(node, "consumed_inputs")
    return [node]


def broadcast_by_shape(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Add, Equal, Pow, ... 7: operands broadcast by their shapes, where `axis` said which axis of
    the first the second's axes begin at.
    """
    axis = take_attribute(node, "axis")
    if take_int(node, "broadcast", 0) and axis is not None:
        _check_axis(node, axis.i, build)
        node.input[1] = _begin_at_axis(node.input[0], node.input[1], axis.i, build)
    return build.keep(node)


def _check_axis(node: NodeProto, axis: int, build: Builder) -> None:
    """Refuses an axis from which on the first operand has too few axes for the second."""
    lhs, rhs = (build.types.rank(name) for name in node.input)
    if lhs is None or rhs is None:
        return
    if not -lhs <= axis <= lhs - rhs:
        rule = f"requires an axis from {-lhs} to {lhs - rhs}"
        raise ModelError(f"{describe_node(node, 0)} {rule}, got {axis}")


def _begin_at_axis(lhs: str, rhs: str, axis: int, build: Builder) -> str:
    """The second operand with as many axes of 1 behind its own as let these begin at the axis."""
    shape = build.add("Shape", [rhs])
    count = build.add("Size", [shape])
    if axis >= 0:
        behind = build.add("Sub", [build.add("Size", [build.add("Shape", [lhs])]), count])
        behind = build.add("Sub", [behind, build.constant(axis, np.int64, "axis")])
    else:
        behind = build.add("Sub", [build.constant(-axis, np.int64, "axis"), count])
    behind = build.add("Max", [behind, build.constant(0, np.int64, "zero")])
    dims = build.add("Concat", [shape, _ones(behind, build)], axis=0)
    return build.add("Reshape", [rhs, dims])


def _ones(count: str, build: Builder) -> str:
    """A vector of ones, as many as an integer says."""
    row = build.constant([1], np.int64, "one")
    length = build.add("Reshape", [count, row])
    return build.add("Expand", [row, length])


def slope_by_channel(node: NodeProto, build: Builder) -> list[NodeProto]:
    """PRelu 7: the slope broadcasts by its shape, where it was one for each channel, or one."""
    node.input[1] = _begin_at_axis(node.input[0], node.input[1], 1, build)
    return build.keep(node)


def gemm_broadcasts(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Gemm 7: the addend always broadcasts."""
    take_attribute(node, "broadcast")
    return [node]


def batch_norm_by_outputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """BatchNormalization 7: training is asked for by outputs of statistics, not by `is_test` of 0.

    A node of one output that does not say `is_test=1` was read in both ways.
    """
    statistics = [name for name in node.output[1:] if name in build.used]
    if take_int(node, "is_test", 0):
        if statistics:
            rule = "requires is_test=0 for its statistics"
            raise ModelError(f"{describe_node(node, 0)} {rule}, got a use of {statistics}")
        del node.output[1:]
    elif not any(node.output[1:]):
        rule = "requires is_test=1, or outputs of statistics"
        raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got neither")
    return [node]


def dropout_tested(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Dropout 7 is the identity, as `is_test=1` was; training is not known here."""
    if not take_int(node, "is_test", 0):
        raise UnsupportedError(f"{describe_node(node, 0)} requires is_test=1, got training")
    return [node]


def cast_by_number(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Cast 6: the element type goes from its name to its number."""
    to = take_attribute(node, "to")
    name = to.s.decode(errors="replace").upper() if to is not None else "none"
    if name not in TensorProto.DataType.keys():  # noqa: SIM118 (an enum wrapper is no mapping)
        raise ModelError(f"{describe_node(node, 0)} requires an element type, got '{name}'")
    set_attribute(node, "to", int(TensorProto.DataType.Value(name)))
    return [node]


def concat_axis(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Concat 4: the axis is stated, where 1 was the default."""
    set_attribute(node, "axis", take_int(node, "axis", 1))
    return [node]


def reshape_to_input(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Reshape 5: the shape becomes the second input."""
    dims = take_ints(node, "shape")
    take_attribute(node, "consumed_inputs")
    set_input(node, 1, build.constant(dims or [], np.int64, "shape"))
    return build.keep(node)


def selu_numbers(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Selu 6: the defaults have more digits; the former ones are stated."""
    take_attribute(node, "consumed_inputs")
    for name, value in (("alpha", 1.6732), ("gamma", 1.0507)):
        if find_attribute(node, name) is None:
            set_attribute(node, name, value)
    return [node]


def pad_by_pads(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Pad 2: `paddings` is called `pads`."""
    set_attribute(node, "pads", take_ints(node, "paddings") or [])
    return [node]


def norm_by_integer(node: NodeProto, build: Builder) -> list[NodeProto]:
    """LpPool, GlobalLpPool 2: the norm becomes an integer."""
    given = take_attribute(node, "p")
    p = 2.0 if given is None else given.f
    if p != int(p):
        raise UnsupportedError(f"{describe_node(node, 0)} requires a whole p, got {p}")
    set_attribute(node, "p", int(p))
    return [node]


def split_by_attribute(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Split 2: the lengths are an attribute, where they might be an input; the axis 0 is the
    default.
    """
    if len(node.input) > 1 and node.input[1]:
        lengths = build.types.constant(node.input[1])
        if lengths is None:
            rule = "requires constant lengths of its parts"
            raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got '{node.input[1]}'")
        set_attribute(node, "split", [int(length) for length in lengths.reshape(-1)])
    del node.input[1:]
    return [node]


def tile_by_repeats(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Tile 6: the repeats of all axes are one input, where number and axis were two."""
    row = build.constant([1], np.int64, "row")
    tiles, axis = (
        build.add("Reshape", [build.add("Cast", [name], to=int(TensorProto.INT64)), row])
        for name in node.input[1:]
    )
    rank = build.add("Size", [build.add("Shape", [node.input[0]])])
    behind = build.add("Sub", [build.add("Sub", [rank, axis]), row])
    parts = [_ones(axis, build), tiles, _ones(behind, build)]
    del node.input[1:]
    set_input(node, 1, build.add("Concat", parts, axis=0))
    return build.keep(node)


def upsample_scales(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Upsample 7: scales of all axes, where images had one for the height and one for the width."""
    sizes = [take_attribute(node, name) for name in ("height_scale", "width_scale")]
    set_attribute(node, "scales", [1.0, 1.0, *(1.0 if each is None else each.f for each in sizes)])
    return [node]


def recurrent_outputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """RNN, GRU, LSTM 7: the outputs that a node names are all that says which are wanted."""
    take_attribute(node, "output_sequence")
    return [node]


def gru_direction(node: NodeProto, build: Builder) -> list[NodeProto]:
    """GRU 3: the default direction is spelled right."""
    direction = find_attribute(node, "direction")
    if direction is not None and direction.s == b"foward":
        set_attribute(node, "direction", "forward")
    return [node]
