"""Samples of onnxruntime's operators on quantised tensors."""
# pyright: basic

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.compiler.frontend.microsoft.samples import Array, Sample

RNG = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*shape: int, dtype: Any = np.uint8, spread: int = 64) -> Array:
    """Integers of at most seven bits around the middle of their type: on processors without sums
    of four products onnxruntime adds up two products of bytes in 16 bits, and saturates.
    """
    middle = 128 if dtype == np.uint8 else 0
    return (middle + RNG.integers(-spread, spread, shape)).astype(dtype)


def scales(*shape: int) -> Array:
    return RNG.uniform(0.01, 0.1, shape).astype(np.float32)


def lstm(directions: int, given: str, dtype: Any, *, by_gate: bool, **attributes: Any) -> Sample:
    """A quantised LSTM of three steps, with those optional operands whose letters are given."""
    batch, inputs, hidden = 2, 5, 4
    rows = (directions, 4 * hidden) if by_gate else (directions,)
    steps = np.array([1, 1, 3], np.float32)  # one that no example reaches has the widest range
    operands = {
        "X": floats(3, batch, inputs) * steps[:, None, None],
        "W": integers(directions, inputs, 4 * hidden, dtype=dtype),
        "R": integers(directions, hidden, 4 * hidden, dtype=dtype),
        "B": floats(directions, 8 * hidden),
        "L": np.array([1, 2], np.int32),
        "H": floats(directions, batch, hidden),
        "C": floats(directions, batch, hidden),
        "P": floats(directions, 3 * hidden),
    }
    operands = {name: array if name in "XWR" + given else None for name, array in operands.items()}
    zero = 0 if dtype == np.int8 else 131  # onnxruntime takes no other, nor different ones
    parameters = {
        "Ws": scales(*rows),
        "Wz": np.full(rows, zero, dtype),
        "Rs": scales(*rows),
        "Rz": np.full(rows, zero, dtype),
    }
    attributes |= {"hidden_size": hidden}
    return Sample("DynamicQuantizeLSTM", operands | parameters, attributes, outputs="yhc")


def point(dtype: Any) -> Array:
    return np.array(RNG.integers(100, 140) if dtype == np.uint8 else RNG.integers(-9, 9), dtype)


def quantised(name: str, x: Array, scale: float | None = None) -> dict[str, Array | None]:
    """A quantised operand with a scale and a zero point."""
    factor = scales() if scale is None else np.float32(scale)
    return {name: x, f"{name}_scale": np.asarray(factor), f"{name}_zero": point(x.dtype)}


def result(dtype: Any, scale: float = 0.05) -> dict[str, Array | None]:
    return {"y_scale": np.array(scale, np.float32), "y_zero": point(dtype)}


def unary(op_type: str, x: Array, scale: float = 0.05, **attributes: Any) -> Sample:
    """A function of one quantised operand. The tables of onnxruntime round what is nearly between
    two steps as its own functions compute it.
    """
    operands = quantised("x", x, 0.03) | result(x.dtype, scale)
    return Sample(op_type, operands, attributes, steps=1)


def binary(op_type: str, a: Array, b: Array, scale: float) -> Sample:
    operands = quantised("a", a) | quantised("b", b) | result(a.dtype, scale)
    return Sample(op_type, operands, varies=("b",), steps=1)


def concat(dtype: Any) -> Sample:
    """Three tensors, the last with the scale and the zero point of the result."""
    first = result(dtype)
    parts = [quantised(f"x{at}", integers(3, 2 + at, dtype=dtype), 0.02 + at / 50) for at in (0, 1)]
    last = {"x2": integers(3, 2, dtype=dtype), "s2": first["y_scale"], "z2": first["y_zero"]}
    operands = first | parts[0] | parts[1] | last
    return Sample("QLinearConcat", operands, {"axis": 1}, varies=("x0", "x1", "x2"))


def gemm(given: str, of_lhs: Any, of_rhs: Any, *, columns: int = 0, **attributes: Any) -> Sample:
    """A product of matrices with an addend (c), and a quantised result (y)."""
    lhs = integers(*((7, 4) if attributes.get("transA") else (4, 7)), dtype=of_lhs)
    rhs = integers(*((3, 7) if attributes.get("transB") else (7, 3)), dtype=of_rhs)
    many = [columns] if columns else []
    zero = integers(*many, dtype=of_rhs, spread=5)
    operands: dict[str, Array | None] = {
        **quantised("a", lhs, 0.02),
        "b": rhs,
        "b_scale": scales(*many),
        "b_zero": np.asarray(zero),
        "c": RNG.integers(-500, 500, 3).astype(np.int32) if "c" in given else None,
    }
    if "y" in given:
        operands |= result(of_lhs, 0.2)
    return Sample("QGemm", operands, attributes, steps=1)


def pool(op_type: str, x: Array, **attributes: Any) -> Sample:
    operands = quantised("x", x, 0.0307) | result(x.dtype, 0.0211)
    return Sample(op_type, operands, attributes, steps=1)


def convolution(dtype: Any, **attributes: Any) -> Sample:
    """A quantised convolution of images whose channels are last."""
    operands = quantised("x", integers(1, 6, 5, 4, dtype=dtype), 0.02)
    operands |= {
        "w": integers(6, 4 // attributes.get("group", 1), 3, 3, dtype=np.int8),
        "w_scale": scales(6),
        "w_zero": np.zeros(6, np.int8),
    }
    operands |= result(dtype, 0.3) | {"b": RNG.integers(-99, 99, 6).astype(np.int32)}
    return Sample("QLinearConv", operands, attributes | {"channels_last": 1}, steps=1)


def product(op_type: str, of_lhs: Any, of_rhs: Any, given: str, columns: int = 0) -> Sample:
    """A product that gives floats, with zero points (z) and a bias (b)."""
    many = [columns] if columns else []
    lhs = floats(2, 3, 7) if of_lhs == np.float32 else integers(2, 3, 7, dtype=of_lhs)
    scale = {} if of_lhs == np.float32 else {"a_scale": scales()}
    zero = {"a_zero": point(of_lhs) if "z" in given else None} if scale else {}
    points = integers(*many, dtype=of_rhs, spread=5)
    operands = {"a": lhs, "b": integers(7, 3, dtype=of_rhs)} | scale
    operands |= {"b_scale": scales(*many)} | zero
    operands |= {"b_zero": np.asarray(points) if "z" in given else None}
    operands |= {"bias": floats(1, 1, 3) if "b" in given else None}
    return Sample(op_type, {name: _array(each) for name, each in operands.items()})


def _array(x: Any) -> Array | None:
    return None if x is None else np.asarray(x)


def blocks(bits: int, zeros: str = "", dtype: Any = np.float32, **given: Any) -> Sample:
    """A product with 5 rows of weights in blocks of 16, the last one cut, whose zero points are
    packed (p) or floats (f); `g` names the block of each column.
    """
    columns, rows, size = 40, 5, 16
    count = 3
    operands = {
        "a": floats(2, 3, columns).astype(dtype),
        "b": RNG.integers(0, 256, (rows, count, size * bits // 8)).astype(np.uint8),
        "scales": scales(rows * count).reshape(given.pop("scales", (rows, count))).astype(dtype),
        "zeros": None,
    }
    if zeros == "p":
        operands["zeros"] = RNG.integers(0, 256, (rows, -(-count * bits // 8))).astype(np.uint8)
    elif zeros == "f":
        operands["zeros"] = floats(rows, count).astype(dtype)
    operands |= {"g": given.pop("g", None)}
    operands |= {"bias": floats(rows).astype(dtype)} if given.pop("bias", 0) else {}
    attributes = {"K": columns, "N": rows, "bits": bits, "block_size": size} | given
    tolerance = 2e-3 if dtype == np.float16 else 1e-5
    return Sample("MatMulNBits", operands, attributes, tolerance=tolerance)


def codes(quant_type: int, size: int = 16) -> Sample:
    """A product with 5 rows of 7 weights that are codes, an odd count of them, in blocks across
    rows; each code is among them.
    """
    columns, rows = 7, 5
    operands = {
        "a": floats(2, 3, columns),
        "b": np.r_[np.arange(8) * 34 + 1, RNG.integers(0, 256, 10)].astype(np.uint8),
        "absmax": scales(-(-rows * columns // size)),
    }
    attributes = {"K": columns, "N": rows, "block_size": size, "quant_type": quant_type}
    return Sample("MatMulBnb4", operands, attributes)


def gathered(dtype: Any, zeros: bool = False, axis: int = 1, **attributes: Any) -> Sample:
    """Rows of a table in blocks of 16; bytes hold several numbers."""
    per_byte = 8 // attributes["bits"] if dtype == np.uint8 else 1
    shape = [(6, 40, 4), (6, 3, 4)] if axis == 1 else [(6, 4, 48), (6, 4, 3)]
    packed = (*shape[0][:-1], shape[0][-1] // per_byte)
    low, high = (-8, 8) if dtype == ml_dtypes.int4 else (0, 256 if dtype == np.uint8 else 16)
    of_zeros = (*shape[1][:-1], -(-shape[1][-1] // per_byte))
    operands = {
        "data": RNG.integers(low, high, packed).astype(dtype),
        "indices": RNG.integers(-6, 6, (2, 3)),
        "scales": scales(*shape[1]),
        "zeros": RNG.integers(low, high, of_zeros).astype(dtype) if zeros else None,
    }
    attributes |= {"block_size": 16, "quantize_axis": axis, "gather_axis": 0}
    return Sample("GatherBlockQuantized", operands, attributes, varies=("indices",), stored=True)


def ties(op_type: str, dtype: Any, scale: float, **attributes: Any) -> Sample:
    """Results of which many lie between two steps, beside an odd zero point."""
    shape = (1, 2, 9, 8)
    operands = quantised("x", integers(*shape, dtype=dtype), 0.5)
    if op_type in ("QLinearAdd", "QLinearMul"):
        operands |= quantised("b", integers(*shape, dtype=dtype), 0.5 if scale == 1 else 0.125)
    operands |= {"y_scale": np.array(scale, np.float32), "y_zero": np.array(3, dtype)}
    return Sample(op_type, operands, attributes)


U8, S8 = np.uint8, np.int8

FAMILIES: dict[str, list[Sample]] = {
    "lstm": [
        lstm(1, "", np.uint8, by_gate=False),
        lstm(1, "BHC", np.int8, by_gate=True, direction="reverse"),
        lstm(2, "BLHCP", np.int8, by_gate=False, direction="bidirectional", clip=0.8),
        lstm(2, "BL", np.uint8, by_gate=True, direction="bidirectional", input_forget=1),
    ],
    "quantised functions": [
        unary("QLinearSigmoid", integers(5, 9), 1 / 256),
        unary("QLinearSigmoid", integers(5, 9, dtype=S8), 1 / 256),
        unary("QLinearLeakyRelu", integers(5, 9)),
        unary("QLinearLeakyRelu", integers(5, 9, dtype=S8), alpha=0.3),
        unary("QLinearSoftmax", integers(5, 9), 1 / 256, opset=13),
        unary("QLinearSoftmax", integers(40, 9), 1 / 255, opset=13),
        unary("QLinearSoftmax", integers(2, 3, 4), 1 / 256, opset=12, axis=1),
        unary("QLinearSoftmax", integers(2, 3, 4, dtype=S8), 1 / 256, opset=13, axis=1),
        binary("QLinearAdd", integers(2, 3, 4), integers(3, 1), 0.1),
        binary("QLinearAdd", integers(2, 9, dtype=S8), integers(2, 9, dtype=S8), 0.1),
        binary("QLinearMul", integers(2, 3, 4), integers(3, 1), 0.1),
        binary("QLinearMul", integers(9, dtype=S8), integers(2, 9, dtype=S8), 0.1),
        concat(U8),
        concat(S8),
        Sample(
            "QLinearWhere",
            {"condition": np.eye(4, dtype=np.bool_)}
            | quantised("a", integers(4, 4))
            | quantised("b", integers(1, 4))
            | result(U8, 0.04),
            varies=("a", "b"),
            steps=1,
        ),
    ],
    "quantised and back": [
        Sample(op_type, {"x": x, "scale": np.asarray(scale), "zero": _array(zero)}, attributes)
        for op_type, x, scale, zero, attributes in (
            ("QuantizeLinear", floats(3, 4), np.array(0.01, np.float32), np.array(7, np.int16), {}),
            ("QuantizeLinear", floats(3, 4), scales(3), np.arange(3, dtype=U8), {"axis": 0}),
            ("QuantizeLinear", floats(3, 4), np.array(0.01, np.float32), None, {}),
            ("DequantizeLinear", integers(3, 4), scales(4), np.arange(4, dtype=U8), {"axis": 1}),
            ("DequantizeLinear", integers(3, 4, dtype=np.uint16), scales(), np.uint16(9), {}),
            ("DequantizeLinear", integers(3, 4, dtype=np.int32), scales(), None, {}),
        )
    ],
    "quantised products and windows": [
        gemm("", U8, S8),
        gemm("cy", U8, S8, columns=3, transB=1),
        gemm("cy", S8, S8, alpha=0.5, transA=1),
        gemm("c", U8, U8, columns=3, alpha=2.0),
        pool("QLinearAveragePool", integers(1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 1]),
        pool(
            "QLinearAveragePool",
            integers(1, 5, 6, 2, dtype=S8),
            kernel_shape=[3, 3],
            pads=[1, 0, 1, 1],
            count_include_pad=1,
            channels_last=1,
        ),
        pool("QLinearAveragePool", integers(1, 2, 9), kernel_shape=[2], auto_pad="SAME_UPPER"),
        pool("QLinearGlobalAveragePool", integers(2, 3, 5, 6)),
        pool("QLinearGlobalAveragePool", integers(2, 5, 6, 3, dtype=S8), channels_last=1),
        Sample(
            "NhwcMaxPool",
            {"x": integers(1, 6, 5, 3)},
            {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 0, 1]},
        ),
        convolution(U8, pads=[1, 1, 1, 1]),
        convolution(S8, strides=[2, 1], group=2),
    ],
    "quantised numbers between two steps": [
        ties(op_type, dtype, scale, **attributes)
        for dtype in (U8, S8)
        for op_type, scale, attributes in (
            ("QLinearAdd", 1.0, {}),
            ("QLinearMul", 4.0, {}),
            ("QLinearLeakyRelu", 1.0, {"alpha": 0.5}),
            ("QLinearAveragePool", 0.5, {"kernel_shape": [2, 2]}),
            ("QLinearGlobalAveragePool", 0.25 / 9, {}),
        )
    ],
    "quantised weights": [
        product("MatMulIntegerToFloat", U8, S8, ""),
        product("MatMulIntegerToFloat", U8, S8, "zb", columns=3),
        product("MatMulIntegerToFloat", S8, S8, "zb"),
        product("MatMulIntegerToFloat", U8, U8, "z", columns=3),
        product("DynamicQuantizeMatMul", np.float32, S8, ""),
        product("DynamicQuantizeMatMul", np.float32, S8, "zb", columns=3),
        product("DynamicQuantizeMatMul", np.float32, U8, "zb"),
        blocks(4),
        blocks(4, "p", bias=1),
        blocks(4, "f", scales=(15,)),
        blocks(8, "p"),
        blocks(2, "p"),
        codes(0),
        codes(1),
        codes(1, size=64),
        blocks(4, "f", g=RNG.integers(0, 3, 40).astype(np.int32)),
        blocks(4, g=(np.arange(48) // 16).astype(np.int32), bias=1),
        blocks(4, "p", np.float16),
        gathered(U8, bits=4, axis=2),
        gathered(U8, zeros=True, bits=4, axis=2),
        gathered(U8, zeros=True, bits=8, axis=2),
        gathered(ml_dtypes.int4, zeros=True),
        gathered(ml_dtypes.uint4, axis=2),
    ],
}
