"""Models of one operator, or of a few that belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from benchmarks.case import Case, Inputs, random_array
from tests.models.graph_writer import Dim, GraphWriter

Shape = Sequence[int]
OPSET = 23
IR_VERSION = 10


def operator(
    name: str,
    op: str,
    operands: Sequence[Shape],
    out: Sequence[Dim],
    *,
    constants: Sequence[Shape] = (),
    symbolic: Mapping[int, str] | None = None,
    dtype: int = TensorProto.FLOAT,
    **attributes: Any,
) -> Case:
    """A case of one node on random operands, then on random constants. `symbolic` names axes of
    the first operand and of the result whose size the model does not know.
    """

    def build(net: GraphWriter) -> tuple[str, Sequence[Dim]]:
        names = [
            net.input(f"x{number}", _renamed(shape, symbolic if number == 0 else None), dtype)
            for number, shape in enumerate(operands)
        ]
        for number, shape in enumerate(constants):
            fan = int(np.prod(shape[1:])) or 1
            values = random_array(shape, TensorProto.FLOAT, 100 + number) / sqrt(fan)
            names.append(net.stored(f"w{number}", _as(values, dtype)))
        return net.op(op, *names, **attributes), _renamed(out, symbolic)

    def inputs() -> Inputs:
        return {
            f"x{number}": random_array(shape, dtype, number)
            for number, shape in enumerate(operands)
        }

    return written(name, build, inputs, dtype)


def written(
    name: str,
    build: Callable[[GraphWriter], tuple[str, Sequence[Dim]]],
    inputs: Callable[[], Inputs],
    dtype: int = TensorProto.FLOAT,
) -> Case:
    """A case of the graph that `build` writes, which returns its output and the output's shape."""

    def model() -> ModelProto:
        net = GraphWriter(name, 1, OPSET)
        net.model.ir_version = IR_VERSION
        result, shape = build(net)
        net.output(result, "y", tuple(shape))
        net.graph.output[0].type.tensor_type.elem_type = dtype
        return net.model

    return Case(name, model, inputs)


def _renamed(shape: Sequence[Dim], symbolic: Mapping[int, str] | None) -> tuple[Dim, ...]:
    return tuple((symbolic or {}).get(axis, size) for axis, size in enumerate(shape))


def _as(values: np.ndarray, dtype: int) -> np.ndarray:
    return values.astype(helper.tensor_dtype_to_np_dtype(dtype))


def matmul(
    m: int, k: int, n: int, *, batch: Shape = (), constant: bool = False, **options: Any
) -> Case:
    """(batch, m, k) x (batch, k, n), or with a constant (k, n)."""
    text = "x".join(map(str, (*batch, m, k, n)))
    name = options.pop("name", f"matmul_{text}{'_constant' if constant else ''}")
    out = (*batch, m, n)
    if constant:
        return operator(name, "MatMul", [(*batch, m, k)], out, constants=[(k, n)], **options)
    return operator(name, "MatMul", [(*batch, m, k), (*batch, k, n)], out, **options)


def conv(
    name: str,
    channels: int,
    wider: int,
    size: int,
    kernel: int,
    *,
    batch: int = 1,
    stride: int = 1,
    group: int = 1,
    dilation: int = 1,
    **options: Any,
) -> Case:
    """A square convolution that keeps the size but for its stride."""
    pad = dilation * (kernel // 2)
    out = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return operator(
        name,
        "Conv",
        [(batch, channels, size, size)],
        (batch, wider, out, out),
        constants=[(wider, channels // group, kernel, kernel)],
        strides=[stride] * 2,
        pads=[pad] * 4,
        dilations=[dilation] * 2,
        group=group,
        **options,
    )


def attention(
    heads: int, length: int, size: int = 64, *, keys: int | None = None, causal: bool = False
) -> Case:
    """softmax(q k^T / sqrt(size)) v of one batch."""
    name = f"attention_{heads}x{length}x{size}"
    name += (f"_keys{keys}" if keys else "") + ("_causal" if causal else "")
    q, k = (1, heads, length, size), (1, heads, keys or length, size)
    return operator(name, "Attention", [q, k, k], q, is_causal=int(causal))


def chain(name: str, shape: Shape, symbolic: Mapping[int, str] | None = None) -> Case:
    """Eight elementwise operators, each on the result of the one before."""

    def build(net: GraphWriter) -> tuple[str, Sequence[Dim]]:
        x = start = net.input("x0", _renamed(shape, symbolic))
        for op, value in (("Mul", 1.5), ("Add", 0.5), ("Max", -1.0), ("Sub", 0.25), ("Min", 2.0)):
            x = net.op(op, x, net.constant(value, dtype=np.float32))
        x = net.op("Mul", net.op("Relu", net.op("Neg", x)), start)
        return x, _renamed(shape, symbolic)

    return written(name, build, lambda: {"x0": random_array(shape, TensorProto.FLOAT, 0)})


def reduced(name: str, op: str, shape: Shape, axes: Shape | None) -> Case:
    """A reduction over these axes, or over all; the axes go away."""
    kept = [n for axis, n in enumerate(shape) if axes is not None and axis not in axes]

    def build(net: GraphWriter) -> tuple[str, Sequence[Dim]]:
        x = net.input("x0", tuple(shape))
        operands = [x] if axes is None else [x, net.constant(list(axes))]
        return net.op(op, *operands, keepdims=0), kept

    return written(name, build, lambda: {"x0": random_array(shape, TensorProto.FLOAT, 0)})


def gathered(name: str, rows: int, width: int, count: int) -> Case:
    """Rows of a constant table."""

    def build(net: GraphWriter) -> tuple[str, Sequence[Dim]]:
        index = net.input("x0", (count,), TensorProto.INT64)
        table = net.stored("table", random_array((rows, width), TensorProto.FLOAT, 1))
        return net.op("Gather", table, index), (count, width)

    generator = np.random.default_rng(0)
    return written(name, build, lambda: {"x0": generator.integers(0, rows, count)})


def resized(name: str, shape: Shape, factor: int, mode: str) -> Case:
    """An image enlarged by a whole factor."""
    coordinates = {"nearest": "asymmetric", "linear": "half_pixel"}
    out = (*shape[:2], *(size * factor for size in shape[2:]))

    def build(net: GraphWriter) -> tuple[str, Sequence[Dim]]:
        x = net.input("x0", tuple(shape))
        scales = net.constant([1.0, 1.0, factor, factor], dtype=np.float32)
        attributes = {"coordinate_transformation_mode": coordinates[mode], "mode": mode}
        if mode == "nearest":
            attributes["nearest_mode"] = "floor"
        return net.op("Resize", x, "", scales, **attributes), out

    return written(name, build, lambda: {"x0": random_array(shape, TensorProto.FLOAT, 0)})


def with_indices(
    name: str, op: str, shape: Shape, out: Shape, constants: Sequence[Any], **attributes: Any
) -> Case:
    """One node whose other operands are integer constants."""

    def build(net: GraphWriter) -> tuple[str, Sequence[Dim]]:
        x = net.input("x0", tuple(shape))
        return net.op(op, x, *(net.constant(value) for value in constants), **attributes), out

    return written(name, build, lambda: {"x0": random_array(shape, TensorProto.FLOAT, 0)})
