"""Quantised operators: onnxruntime's answers, and refusals."""

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from weft.compiler.adapters.onnx_backend import prepare
from weft.dialects.errors import ModelError, TypeInferenceError, UnsupportedError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)


def model_of(
    op_type: str, operands: dict[str, Array | None], opset: int = 25, **attributes: Any
) -> ModelProto:
    """A model of one node; operands of None are absent."""
    names = ["" if array is None else name for name, array in operands.items()]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in operands.items()
        if array is not None
    ]
    graph = helper.make_graph(
        [node], "quantised", inputs, [helper.make_empty_tensor_value_info("y")]
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def results(op_type: str, operands: dict[str, Array | None], **attributes: Any) -> Array:
    given = {name: array for name, array in operands.items() if array is not None}
    return prepare(model_of(op_type, operands, **attributes)).run(given)[0]


def check(op_type: str, operands: dict[str, Array | None], **attributes: Any) -> None:
    model = model_of(op_type, operands, 21, **attributes)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {name: array for name, array in operands.items() if array is not None}
    (expected,) = session.run(None, given)
    (got,) = prepare(model).run(given)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def factors(*shape: int) -> Array:
    """Numbers of seven bits: on processors without sums of four products onnxruntime adds up two
    products of bytes in 16 bits, and saturates.
    """
    return numbers(*shape, low=-64, high=63)


def numbers(*shape: int, low: int = -128, high: int = 127, dtype: Any = np.int8) -> Array:
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def scales(*shape: int, factor: float = 1.0) -> Array:
    return np.asarray(RNG.uniform(0.01, 0.1, shape) * factor, np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize(("shape", "axis"), [((), 0), ((1,), 1), ((3,), 1), ((4,), -1)])
def test_quantised_by_tensor_and_by_axis(dtype: Any, shape: tuple[int, ...], axis: int) -> None:
    x = (RNG.standard_normal((2, 3, 4)) * 3).astype(np.float32)
    zero_point = numbers(*shape, low=0, high=9, dtype=dtype)
    operands: dict[str, Array | None] = {"x": x, "scale": scales(*shape), "zero": zero_point}
    check("QuantizeLinear", operands, axis=axis)
    operands["x"] = numbers(2, 3, 4, low=0, high=90, dtype=dtype)
    check("DequantizeLinear", operands, axis=axis)


@pytest.mark.parametrize("rows", [4, 5])
def test_blocks_may_end_before_the_last_is_full(rows: int) -> None:
    x = (RNG.standard_normal((rows, 3)) * 3).astype(np.float32)
    scale, zero_point = scales(-(-rows // 2), 3), numbers(-(-rows // 2), 3)
    wide, shift = (each.astype(np.float32).repeat(2, 0)[:rows] for each in (scale, zero_point))
    operands: dict[str, Array | None] = {"x": x, "scale": scale, "zero": zero_point}
    want = np.clip(np.rint(x / wide) + shift, -128, 127).astype(np.int8)
    got = results("QuantizeLinear", operands, axis=0, block_size=2)
    np.testing.assert_array_equal(got, want)
    back = results("DequantizeLinear", {**operands, "x": got}, axis=0, block_size=2)
    np.testing.assert_array_equal(back, (want - shift) * wide)


def test_values_beyond_are_saturated_and_halves_go_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, 1e30, -1e30, np.inf], np.float32)
    operands: dict[str, Array | None] = {"x": x, "scale": np.ones((), np.float32)}
    got = results("QuantizeLinear", {**operands, "zero": np.array(100, np.uint8)})
    assert got.tolist() == [100, 102, 102, 255, 0, 255]
    got = results("QuantizeLinear", {**operands, "zero": np.array(1, ml_dtypes.int4)})
    assert got.astype(int).tolist() == [1, 3, 3, 7, -8, 7]


def test_floats_of_eight_bits_saturate_unless_told_otherwise() -> None:
    x = np.array([1000.0, -1000.0, 3.3], np.float32)
    operands: dict[str, Array | None] = {"x": x, "scale": np.ones((), np.float32)}
    operands["zero"] = np.zeros((), ml_dtypes.float8_e4m3fn)
    got = results("QuantizeLinear", operands)
    assert got.astype(np.float32).tolist() == [448.0, -448.0, 3.25]
    assert np.isnan(results("QuantizeLinear", operands, saturate=0).astype(np.float32)[:2]).all()


def test_the_quotient_has_the_precision_asked_for() -> None:
    x, scale = np.array([1.0], np.float32), np.array(3.0, np.float16)
    operands: dict[str, Array | None] = {"x": x * 2000, "scale": scale, "zero": None}
    third = np.float16(2000) / scale
    kinds = {"output_dtype": TensorProto.UINT16}
    assert results("QuantizeLinear", operands, **kinds) == [np.rint(third)]
    kinds["precision"] = TensorProto.FLOAT
    assert results("QuantizeLinear", operands, **kinds) == [667]


@pytest.mark.parametrize(
    ("rows", "columns"), [((), ()), ((1,), (1,)), ((), (4,))], ids=["scalar", "one", "vector"]
)
def test_matrices_of_integers(rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
    operands: dict[str, Array | None] = {
        "a": numbers(2, 3, low=0, high=255, dtype=np.uint8),
        "b": factors(3, 4),
        "a_zero": numbers(*rows, low=0, high=255, dtype=np.uint8),
        "b_zero": numbers(*columns),
    }
    check("MatMulInteger", operands)
    qlinear = {
        "a": operands["a"],
        "a_scale": scales(*rows),
        "a_zero": operands["a_zero"],
        "b": operands["b"],
        "b_scale": scales(*columns),
        "b_zero": operands["b_zero"],
        "y_scale": scales(factor=3),
        "y_zero": np.array(7, np.uint8),
    }
    check("QLinearMatMul", qlinear)


def test_products_of_bytes_do_not_saturate() -> None:
    a, b = numbers(5, 40, low=200, high=255, dtype=np.uint8), numbers(40, 9, low=100)
    got = results("MatMulInteger", {"a": a, "b": b})
    np.testing.assert_array_equal(got, a.astype(int) @ b.astype(int))


def test_rows_have_zero_points_of_their_own() -> None:
    a, b, zero = numbers(2, 3), numbers(3, 4), numbers(2)
    got = results("MatMulInteger", {"a": a, "b": b, "zero": zero})
    np.testing.assert_array_equal(got, (a.astype(int) - zero[:, None]) @ b.astype(int))


@pytest.mark.parametrize("per_channel", [False, True])
def test_convolutions_of_integers(per_channel: bool) -> None:
    channels = (4,) if per_channel else ()
    x, w = numbers(1, 2, 5, 6, low=0, high=255, dtype=np.uint8), factors(4, 2, 3, 3)
    zeros = {"x_zero": np.array(3, np.uint8), "w_zero": np.zeros(channels, np.int8)}
    check("ConvInteger", {"x": x, "w": w, "x_zero": zeros["x_zero"]}, pads=[1, 1, 0, 0])
    operands = {
        "x": x,
        "x_scale": scales(),
        "x_zero": zeros["x_zero"],
        "w": w,
        "w_scale": scales(*channels),
        "w_zero": zeros["w_zero"],
        "y_scale": scales(factor=9),
        "y_zero": np.array(120, np.uint8),
        "bias": numbers(4, low=-900, high=900, dtype=np.int32),
    }
    check("QLinearConv", operands, pads=[1, 1, 1, 1], strides=[2, 1])


def test_the_result_is_folded_where_all_is_constant() -> None:
    x = np.arange(-9, 16, dtype=np.float32)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    constant = helper.make_tensor("x", TensorProto.FLOAT, x.shape, x)
    value = helper.make_tensor_value_info("y", TensorProto.INT4, x.shape)
    graph = helper.make_graph([node], "constant", [], [value], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (got,) = prepare(model).run([])
    np.testing.assert_array_equal(got.astype(int), (np.arange(-9, 16) + 8) % 16 - 8)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.float8_e5m2])
def test_what_is_only_stored_is_moved(dtype: Any) -> None:
    x = numbers(3, 5, low=0, high=1).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(results("Transpose", {"x": x}), x.T)
    np.testing.assert_array_equal(results("Flatten", {"x": x}, axis=0), x.reshape(1, 15))


def test_what_is_only_stored_is_not_computed_in() -> None:
    x = np.zeros(3, ml_dtypes.float8_e5m2)
    with pytest.raises(
        (TypeInferenceError, UnsupportedError, ModelError), match="of a type that opset"
    ):
        prepare(model_of("Neg", {"x": x}))


@pytest.mark.parametrize(
    ("changes", "attributes", "message"),
    [
        ({"scale": np.ones((2, 3), np.float32)}, {}, "a vector of scales without block_size"),
        ({"scale": np.ones(3, np.float32)}, {"block_size": 2}, "requires scales of rank 2"),
        ({"scale": np.ones((4, 2), np.float32)}, {"block_size": 1}, "3 blocks of 1 along axis 1"),
        ({"zero": np.array(1, np.uint8)}, {"output_dtype": TensorProto.INT8}, "output_dtype i8"),
    ],
)
def test_quantisation_that_does_not_fit_is_refused(
    changes: dict[str, Array], attributes: dict[str, Any], message: str
) -> None:
    operands = {"x": np.ones((4, 3), np.float32), "scale": np.ones((), np.float32)}
    with pytest.raises(ModelError, match=message):
        prepare(model_of("QuantizeLinear", operands | changes, **attributes))


def test_powers_of_two_are_rounded_as_asked() -> None:
    x = np.array([1.0, 1.25, 1.5, 3e38, 0.0, 2.0**-127, 6e-39, np.nan], np.float32)
    kinds = {"to": TensorProto.FLOAT8E8M0}
    up = results("Cast", {"x": x}, **kinds).view(np.uint8)
    assert up.tolist() == [127, 128, 128, 254, 0, 1, 1, 255]
    down = results("Cast", {"x": x}, round_mode="down", **kinds).view(np.uint8)
    assert down.tolist() == [127, 127, 127, 254, 0, 0, 0, 255]
    nearest = results("Cast", {"x": x}, round_mode="nearest", saturate=0, **kinds).view(np.uint8)
    assert nearest.tolist() == [127, 127, 128, 255, 0, 0, 1, 255]
    with pytest.raises(ModelError, match="requires round_mode out of up, nearest, down, got odd"):
        prepare(model_of("Cast", {"x": x}, round_mode="odd", **kinds))
