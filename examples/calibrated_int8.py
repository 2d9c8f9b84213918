"""Calibrated int8 from end to end: onnxruntime's quantiser measures the ranges of activations on
examples and writes QuantizeLinear and DequantizeLinear; weft multiplies the bytes.

    python examples/calibrated_int8.py
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import weft

RNG = np.random.default_rng(0)


class Examples(CalibrationDataReader):
    """Some inputs as the network gets them, one after the other: a few hundred of a real one."""

    def __init__(self, count: int):
        self.left = iter([images() for _ in range(count)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        image = next(self.left, None)
        return None if image is None else {"image": image}


def images() -> np.ndarray:
    return RNG.standard_normal((1, 8, 12, 12)).astype(np.float32)


def network() -> onnx.ModelProto:
    """Two convolutions."""
    shapes = {"w1": (16, 8, 3, 3), "b1": (16,), "w2": (8, 16, 3, 3)}
    weights = {name: (RNG.standard_normal(s) / 10).astype(np.float32) for name, s in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["y"], pads=[1] * 4),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 8, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 12, 12])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        floats, bytes_ = Path(folder) / "floats.onnx", Path(folder) / "bytes.onnx"
        onnx.save(network(), floats)
        ready = Path(folder) / "ready.onnx"
        quant_pre_process(floats, ready, skip_symbolic_shape=True)
        quantize_static(
            ready,
            bytes_,
            Examples(20),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        image = images()
        (exact,), (rounded,) = weft.compile(floats)(image), weft.compile(bytes_)(image)
        noise = np.square(exact - rounded).mean()
        print(f"signal to noise: {10 * np.log10(np.square(exact).mean() / noise):.0f} dB")
        assert np.abs(exact - rounded).max() < 0.1 * np.abs(exact).max()


if __name__ == "__main__":
    main()
