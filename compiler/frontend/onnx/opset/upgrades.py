"""Upgrade functions: a node at one opset -> nodes that mean the same at the next version of its
operator.

Each takes a node that it may change, and a Builder; its nodes are at the version that the table
gives it for. The Builder has checked the node against its operator's schema.
"""

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

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
from weft.compiler.frontend.onnx.tensor import DTYPES
from weft.dialects.errors import ModelError, UnsupportedError

COORDINATES = "coordinate_transformation_mode"


def axes_to_input(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Squeeze, Unsqueeze 13, ReduceSum 13, other reductions 18: `axes` becomes the second input."""
    axes = take_ints(node, "axes")
    if axes:
        set_input(node, 1, build.constant(axes, np.int64, "axes"))
    return build.keep(node)


def split_to_input(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Split 13: the lengths become the second input."""
    lengths = take_ints(node, "split")
    if lengths is not None:
        set_input(node, 1, build.constant(lengths, np.int64, "split"))
    return build.keep(node)


def split_equally(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Split 18: without lengths, the number of parts is stated."""
    if len(node.input) < 2 or not node.input[1]:
        set_attribute(node, "num_outputs", len(node.output))
    return build.keep(node)


def slice_to_inputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Slice 10: starts, ends and axes become inputs."""
    for index, key in enumerate(("starts", "ends", "axes"), start=1):
        values = take_ints(node, key)
        if values is not None:
            set_input(node, index, build.constant(values, np.int64, key))
    return build.keep(node)


def top_k_to_input(node: NodeProto, build: Builder) -> list[NodeProto]:
    """TopK 10: k becomes an input of one element."""
    set_input(node, 1, build.constant([take_int(node, "k", 0)], np.int64, "k"))
    return build.keep(node)


def dft_axis_to_input(node: NodeProto, build: Builder) -> list[NodeProto]:
    """DFT 20: the axis becomes an input, and its default is no longer 1."""
    set_input(node, 2, build.constant(take_int(node, "axis", 1), np.int64, "axis"))
    return build.keep(node)


def clip_to_inputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Clip 11: the bounds become scalar inputs of the data's element type."""
    for index, key in enumerate(("min", "max"), start=1):
        bound = take_attribute(node, key)
        if bound is not None:
            set_input(node, index, _scalar_like(node, bound.f, key, build))
    return build.keep(node)


def pad_to_inputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Pad 11: amounts and value become inputs; the value 0 is the default."""
    amounts = take_ints(node, "pads")
    set_input(node, 1, build.constant(amounts or [], np.int64, "pads"))
    value = take_attribute(node, "value")
    if value is not None and value.f != 0.0:
        set_input(node, 2, _scalar_like(node, value.f, "value", build))
    return build.keep(node)


def dropout_bool_mask(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Dropout 10: the mask is bool, where it had the data's type."""
    if len(node.output) < 2 or node.output[1] not in build.used:
        return [node]
    mask = node.output[1]
    node.output[1] = build.fresh("mask")
    build.nodes.append(node)
    element = build.types.element(node.input[0])
    if element is None:
        raise UnsupportedError(
            f"{describe_node(node, 0)} requires a declared element type for its mask, got none"
        )
    build.add("Cast", [node.output[1]], mask, to=element)
    return build.nodes


def dropout_to_inputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Dropout 12: the ratio becomes an input; without `training_mode` the op stays the identity."""
    ratio = take_attribute(node, "ratio")
    if ratio is not None:
        set_input(node, 1, build.constant(ratio.f, np.float32, "ratio"))
    return build.keep(node)


def coerce_to_matrix(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Softmax, LogSoftmax, Hardmax 13: these took all axes from `axis` on as one.

    softmax_11(x, axis=1)  becomes  reshape(softmax_13(flatten(x, axis=1), axis=-1), shape(x))
    """
    axis, data = take_int(node, "axis", 1), node.input[0]
    rank = build.types.rank(data)
    if rank is None:
        rank = build.types.rank(node.output[0])
    if rank is not None and not -rank <= axis < max(rank, 1):
        rule = f"requires an axis from {-rank} to {rank - 1}"
        raise ModelError(f"{describe_node(node, 0)} {rule}, got {axis}")
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        set_attribute(node, "axis", -1)
        return [node]
    shape = build.add("Shape", [data])
    matrix = build.add("Flatten", [data], axis=axis)
    rows = build.add(node.op_type, [matrix], axis=-1)
    build.add("Reshape", [rows, shape], node.output[0])
    return build.nodes


def flatten_from_the_end(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Flatten 11: negative axes count from the end, which were out of range."""
    axis = find_attribute(node, "axis")
    if axis is not None and axis.i < 0:
        rule = "requires an axis from 0 below opset 11"
        raise ModelError(f"{describe_node(node, 0)} {rule}, got {axis.i}")
    return [node]


def mod_of_floats(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Mod 28: floats may take the divisor's sign, where `fmod=1` was asked of them."""
    attribute = find_attribute(node, "fmod")
    np_dtype = DTYPES.get(build.types.element(node.input[0]) or 0)
    if np_dtype is not None and np_dtype.kind not in "iu" and not (attribute and attribute.i):
        rule = "requires fmod=1 of floats below opset 28"
        raise ModelError(f"{describe_node(node, 0)} {rule}, got fmod=0 of {np_dtype.name}")
    return [node]


def batch_norm_without_spatial(node: NodeProto, build: Builder) -> list[NodeProto]:
    """BatchNormalization 9: statistics per element, `spatial=0`, become statistics per channel of a
    matrix.
    """
    if take_int(node, "spatial", 1):
        return [node]
    if len([name for name in node.output if name]) > 1:
        rule = "requires spatial=1 in training mode"
        raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got spatial=0")
    data, result = node.input[0], node.output[0]
    shape = build.add("Shape", [data])
    row = build.constant([-1], np.int64, "row")
    node.input[0] = build.add("Flatten", [data], axis=1)
    for index in range(1, 5):
        node.input[index] = build.add("Reshape", [node.input[index], row])
    node.output[0] = build.fresh("matrix")
    build.nodes.append(node)
    build.add("Reshape", [node.output[0], shape], result)
    return build.nodes


def batch_norm_training_mode(node: NodeProto, build: Builder) -> list[NodeProto]:
    """BatchNormalization 14: training is an attribute, where more than one output used to ask for
    it.
    """
    if not any(node.output[1:]):
        return [node]
    if any(name in build.used for name in node.output[3:]):
        rule = "requires that saved_mean and saved_var are not used"
        raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got a use of {node.output[3:]}")
    del node.output[3:]
    set_attribute(node, "training_mode", 1)
    return [node]


def upsample_to_input(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Upsample 9: the scales become the second input."""
    scales = take_attribute(node, "scales")
    values = [] if scales is None else list(scales.floats)
    set_input(node, 1, build.constant(values, np.float32, "scales"))
    return build.keep(node)


def upsample_to_resize(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Upsample 10 is Resize 10."""
    node.op_type = "Resize"
    return [node]


def resize_coordinates(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Resize 11: what version 10 left unsaid is stated as onnxruntime reads it.

    Coordinates are divided by the scale; the nearest pixel is the one below where the axis grows
    and the one above where it shrinks, so that growing and shrinking axes take two steps.
    """
    scales_name = node.input[1]
    node.input[1] = build.constant([], np.float32, "roi")
    set_input(node, 2, scales_name)
    set_attribute(node, COORDINATES, "asymmetric")
    mode = find_attribute(node, "mode")
    if mode is not None and mode.s != b"nearest":
        return build.keep(node)
    constant = build.types.constant(scales_name)
    scales = np.ones(0, np.float32) if constant is None else constant.astype(np.float32)
    shrinks, grows = bool(np.any(scales < 1)), bool(np.any(scales > 1))
    set_attribute(node, "nearest_mode", "ceil" if shrinks else "floor")
    if not (shrinks and grows):
        return build.keep(node)
    grown = build.constant(np.maximum(scales, 1), np.float32, "grow")
    shrunk = build.constant(np.minimum(scales, 1), np.float32, "shrink")
    inputs = [node.input[0], node.input[1], grown]
    floor = {"nearest_mode": "floor", COORDINATES: "asymmetric"}
    node.input[0] = build.add("Resize", inputs, mode="nearest", **floor)
    node.input[2] = shrunk
    return build.keep(node)


def resize_optional_inputs(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Resize 13: inputs without effect are left out, where version 11 wanted empty tensors."""
    mode = find_attribute(node, COORDINATES)
    if mode is None or mode.s != b"tf_crop_and_resize":
        node.input[1] = ""
    if len(node.input) > 3 and node.input[3]:
        node.input[2] = ""
    return [node]


def roi_align_coordinates(node: NodeProto, build: Builder) -> list[NodeProto]:
    """RoiAlign 16: the former coordinates are now called `output_half_pixel` and no longer the
    default.
    """
    set_attribute(node, COORDINATES, "output_half_pixel")
    return [node]


def scatter_to_elements(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Scatter 11 is ScatterElements 11."""
    node.op_type = "ScatterElements"
    return [node]


def grid_sample_modes(node: NodeProto, build: Builder) -> list[NodeProto]:
    """GridSample 20: the modes lose their prefix."""
    mode = find_attribute(node, "mode")
    if mode is not None and mode.s in (b"bilinear", b"bicubic"):
        set_attribute(node, "mode", mode.s.decode().removeprefix("bi"))
    return [node]


def one_hot_negative_indices(node: NodeProto, build: Builder) -> list[NodeProto]:
    """OneHot 11 counts negative indices from the end; before, they were out of range and gave
    `off_value`.

    one_hot_9(i, ...)  becomes  one_hot_11(where(int64(i) < 0, 2**63 - 1, int64(i)), ...)
    """
    indices = build.add("Cast", [node.input[0]], to=int(TensorProto.INT64))
    negative = build.add("Less", [indices, build.constant(0, np.int64, "zero")])
    outside = build.constant(np.iinfo(np.int64).max, np.int64, "outside")
    node.input[0] = build.add("Where", [negative, outside, indices])
    return build.keep(node)


def group_norm_per_channel(node: NodeProto, build: Builder) -> list[NodeProto]:
    """GroupNormalization 21: scale and bias go from one for each group to one for each channel."""
    attribute = find_attribute(node, "num_groups")
    groups = build.constant([attribute.i if attribute else 1], np.int64, "groups")
    channels = build.add("Shape", [node.input[0]], start=1, end=2)
    shape = build.add("Concat", [groups, build.add("Div", [channels, groups])], axis=0)
    last, row = build.constant([1], np.int64, "last"), build.constant([-1], np.int64, "row")
    for index in (1, 2):
        column = build.add("Unsqueeze", [node.input[index], last])
        repeated = build.add("Expand", [column, shape])
        node.input[index] = build.add("Reshape", [repeated, row])
    return build.keep(node)


def scan_over_batch(node: NodeProto, build: Builder) -> list[NodeProto]:
    """Scan 9 has no batch axis: the batch becomes an outer Scan without state, whose body is one
    inner Scan.

    scan_8(states, sequences)  becomes  for b: scan_9(states[b], sequences[b])
    """
    if node.input[0]:
        rule = "requires no sequence_lens"
        raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got '{node.input[0]}'")
    del node.input[0]
    directions = take_ints(node, "directions")
    inner = NodeProto()
    inner.CopyFrom(node)
    if directions is not None:
        set_attribute(inner, "scan_input_directions", directions)
    inner.input[:] = [build.fresh(f"input.{index}") for index in range(len(node.input))]
    inner.output[:] = [build.fresh(f"output.{index}") for index in range(len(node.output))]
    del node.attribute[:]
    set_attribute(node, "num_scan_inputs", len(node.input))
    set_attribute(node, "body", _batch_body(inner, node, build))
    return [node]


def _batch_body(inner: NodeProto, outer: NodeProto, build: Builder) -> GraphProto:
    """One batch element: the inner Scan, whose values have the types of the body's with a sequence
    axis more.
    """
    body = GraphProto(name=build.fresh("batch"), node=[inner])
    attribute = find_attribute(inner, "body")
    declared = list(attribute.g.output) if attribute is not None else []
    for name, source in zip(inner.input, outer.input, strict=True):
        element = build.types.element(source) or TensorProto.UNDEFINED
        body.input.append(helper.make_tensor_value_info(name, element, None))
    for name, value in zip(inner.output, declared, strict=True):
        element = value.type.tensor_type.elem_type
        body.output.append(helper.make_tensor_value_info(name, element, None))
    return body


def _scalar_like(node: NodeProto, value: float, suffix: str, build: Builder) -> str:
    """A scalar of the element type of the node's first input; CastLike where that type is not known
    yet.
    """
    element = build.types.element(node.input[0])
    if element in DTYPES:
        return build.constant(value, DTYPES[element], suffix)
    if build.target < 15:
        rule = "requires an element type to be declared below opset 15"
        raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got none for '{node.input[0]}'")
    return build.add("CastLike", [build.constant(value, np.float32, suffix), node.input[0]])
