"""Extents that are too large while compiling: one error, which names the node or the tensor."""

import math

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import weft
from weft.dialects.errors import ExtentError
from weft.dialects.expr import Expr, minimum
from weft.dialects.extent import MOST
from weft.dialects.graph.core.types import F32, tensor

HUGE = 2**62
X, IMAGE = (2, 3), (1, 1, 4, 4)
Constants = dict[str, np.ndarray]


def refusal(
    operator: str, shape: tuple[int, ...], constants: Constants, attributes: dict[str, object]
) -> str:
    """What compiling one node with an input `x` says; constants of the name '' are left out."""
    names = list(dict.fromkeys(["x", *constants]) if shape else constants)
    stored = [numpy_helper.from_array(each, name) for name, each in constants.items() if name]
    node = helper.make_node(operator, names, ["y"], name="huge", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape or (1,))
    y = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "g", [x], [y], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(weft.WeftError) as raised:
        weft.compile(model, cache=False, naive=True)
    return str(raised.value)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


KERNEL = np.zeros((1, 1, 3, 3), np.float32)
SEEN = [
    ("ConstantOfShape", (), {"s": ints(HUGE)}, {}),
    ("ConstantOfShape", (), {"s": ints(2**46, 0)}, {}),
    ("Conv", IMAGE, {"w": KERNEL}, {"pads": [HUGE, 0, 0, 0]}),
    ("ConvTranspose", IMAGE, {"w": KERNEL}, {"strides": [HUGE, 1]}),
    ("Tile", X, {"r": ints(1, HUGE)}, {}),
    ("Expand", X, {"s": ints(HUGE, 2, 3)}, {}),
    ("Pad", X, {"p": ints(0, HUGE, 0, HUGE)}, {}),
    ("Reshape", (2, 0), {"s": ints(HUGE, 0)}, {"allowzero": 1}),
    ("Range", (), {"a": ints(-HUGE)[0], "b": ints(HUGE)[0], "c": ints(1)[0]}, {}),
    ("Range", (), {"a": floats(0)[0], "b": floats(math.nan)[0], "c": floats(1)[0]}, {}),
    ("Range", (), {"a": floats(0)[0], "b": floats(math.inf)[0], "c": floats(1)[0]}, {}),
    ("OneHot", (3,), {"d": np.array(HUGE), "v": floats(0, 1)}, {}),
    ("OneHot", (3,), {"d": np.float32(math.inf), "v": floats(0, 1)}, {}),
    ("OneHot", (3,), {"d": np.float32(math.nan), "v": floats(0, 1)}, {}),
    ("HannWindow", (), {"n": np.array(HUGE)}, {}),
    ("RandomNormal", (), {}, {"shape": [HUGE]}),
    ("DFT", (1, 8, 1), {"n": np.array(HUGE)}, {}),
    ("CenterCropPad", X, {"s": ints(HUGE, 2)}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "shape", "constants", "attributes"), SEEN, ids=[case[0] for case in SEEN]
)
def test_an_extent_that_is_too_large_is_refused(operator, shape, constants, attributes):
    """S6: in place of struct.error, OverflowError, MemoryError and "cannot convert NaN"."""
    said = refusal(operator, shape, constants, attributes)
    assert "(extent too large), got" in said
    assert "node 'huge" in said


def test_a_number_beside_a_symbolic_size_is_refused():
    """S6: struct.error where an artifact's table is written."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[a] y) <int64[2] p =
        {0, 9223372036854775807}> { [huge] y = Pad(x, p) }"""
    with pytest.raises(weft.WeftError, match="extent too large"):
        weft.compile(parser.parse_model(text), cache=False, naive=True)


def test_a_number_of_more_than_64_bits_inside_of_a_size_is_refused():
    """S6: the same, of what a size is divided by."""
    with pytest.raises(ExtentError, match="extent too large"):
        tensor([Expr.of("n") // (2**63)], F32)
    tensor([minimum([Expr.of("n"), 2**63 - 1])], F32)


@pytest.mark.parametrize("step", [0, -1, -(2**63)])
def test_a_frame_step_that_leads_nowhere_is_refused(step: int):
    """S6: ZeroDivisionError, or struct.error where an artifact's table is written."""
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[1, n, 1] x, float[8] w) =>
        (float[1, f, 5, 2] y) <int64 s = {{{step}}}> {{ y = STFT (x, s, w) }}"""
    with pytest.raises(weft.WeftError, match=f"requires a frame step of at least 1, got {step}"):
        weft.compile(parser.parse_model(text), cache=False, naive=True)


@pytest.mark.parametrize("edge", [-1e30, math.inf, math.nan])
def test_an_edge_that_is_no_frequency_is_refused(edge: float):
    """S6: "math domain error"."""
    names = ("bins", "length", "rate", "lower", "upper")
    given = (ints(4)[0], ints(16)[0], ints(8192)[0], *floats(edge, 4096))
    said = refusal("MelWeightMatrix", (), dict(zip(names, map(np.asarray, given), strict=True)), {})
    assert "requires edges of at least 0" in said


def test_bins_below_zero_are_refused():
    """S6: IndexError."""
    names = ("bins", "length", "rate", "lower", "upper")
    given = (ints(-1)[0], ints(16)[0], ints(8192)[0], *floats(0, 4096))
    said = refusal("MelWeightMatrix", (), dict(zip(names, map(np.asarray, given), strict=True)), {})
    assert "requires bins and a length of at least 0, got -1 and 16" in said


def test_no_bins_of_a_spectrum_that_no_memory_holds_are_refused():
    """S6: MemoryError."""
    names = ("bins", "length", "rate", "lower", "upper")
    given = (ints(0)[0], ints(2**31)[0], ints(8192)[0], *floats(0, 4096))
    said = refusal("MelWeightMatrix", (), dict(zip(names, map(np.asarray, given), strict=True)), {})
    assert "compiling requires at most" in said


@pytest.mark.parametrize("scale", [1e30, math.inf, math.nan])
def test_a_scale_that_is_no_factor_is_refused(scale: float):
    """S6: Resize."""
    constants = {"": floats(), "scales": floats(1, 1, scale, 1)}
    said = refusal("Resize", IMAGE, constants, {})
    assert "a scale requires" in said
    assert "(extent too large), got" in said


@pytest.mark.parametrize("shape", [(HUGE,), (2**32, 2**32), (MOST, 0), (MOST // 4 + 1,)])
def test_an_input_that_is_too_large_is_refused(shape: tuple[int, ...]):
    """S6: Relu on `[2**62]`, and what is a float too many."""
    said = refusal("Relu", shape, {}, {})
    assert "input 'x'" in said
    assert "(extent too large), got" in said


def test_what_is_just_not_too_large_compiles():
    """S6: bytes decide, and an extent beside a 0."""
    for shape, kind in (((MOST // 4,), TensorProto.FLOAT), ((MOST, 0), TensorProto.UINT8)):
        values = [helper.make_tensor_value_info(name, kind, shape) for name in "xy"]
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])], "g", *([v] for v in values)
        )
        weft.compile(helper.make_model(graph, ir_version=10), cache=False, naive=True)


def test_an_empty_constant_of_a_large_extent_compiles():
    """S6: MemoryError for the indices of no element."""
    stored = [numpy_helper.from_array(ints(2**40, 0), "s")]
    node = helper.make_node("ConstantOfShape", ["s"], ["y"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2**40, 0))
    graph = helper.make_graph([node], "g", [], [y], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert weft.compile(model, cache=False, naive=True)()[0].shape == (2**40, 0)
