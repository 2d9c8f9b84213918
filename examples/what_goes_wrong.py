"""Every mistake is a WeftError that says what was required and what came."""

import numpy as np
from onnx import TensorProto, helper

import weft


def main() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    negate = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value], [result])
    exe = weft.compile(helper.make_model(negate, ir_version=8))
    try:
        exe(np.zeros(5, np.float32))
    except weft.InputError as error:
        print(error)

    unknown = helper.make_graph(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="/layer1/Frobnicate")],
        "g",
        [value],
        [result],
    )
    try:
        weft.compile(helper.make_model(unknown, ir_version=8))
    except weft.WeftError as error:
        print(error)


if __name__ == "__main__":
    main()
