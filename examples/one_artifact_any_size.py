"""One shared object for every batch size: a symbolic dim is bound by each call."""

import numpy as np
from onnx import ModelProto, TensorProto, helper

import weft


def softmax() -> ModelProto:
    """Probabilities along the rows of a matrix whose both sizes are symbolic."""
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1)],
        "softmax",
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "classes"])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", "classes"])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    exe = weft.compile(softmax())
    for shape in ((1, 10), (5, 1000), (64, 3)):
        (probabilities,) = exe(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
        assert np.allclose(probabilities.sum(axis=1), 1.0)
        print(f"{shape}: rows sum up to 1")


if __name__ == "__main__":
    main()
