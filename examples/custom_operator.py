"""An operator of one's own, from a node of a custom ONNX domain to native code: `softclip(x) =
limit * tanh(x / limit)`; and a pass that knows something about it. weft itself stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from onnx import ModelProto, TensorProto, helper
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.passes import ModulePass

import weft
from weft.dialects.graph.core.elementwise import UnaryOp
from weft.dialects.graph.core.op import OnnxName
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.graph.ops.activation import ReluOp
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


@irdl_op_definition
class SoftclipOp(UnaryOp):
    """`limit * tanh(x / limit)`: the operand, bent so that it stays within the limit."""

    name = "mine.softclip"
    ONNX: ClassVar = OnnxName("Softclip", {"limit": ("limit", 1.0)}, domain="com.example")
    ELEMENTS: ClassVar = FLOATS
    limit: FloatAttr = prop_def(FloatAttr)

    def reference(self, *operands: Array) -> Sequence[Array]:
        limit = operands[0].dtype.type(self.limit.value.data)
        return [limit * np.tanh(operands[0] / limit)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        limit = self.limit.value.data
        return (operands[0] / limit).math("tanh") * limit


@dataclass(frozen=True)
class DropReluPass(ModulePass):
    """`relu(softclip(relu(x))) -> softclip(relu(x))`: what is not negative stays so."""

    name = "mine-drop-relu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for relu in [each for each in op.walk() if isinstance(each, ReluOp)]:
            clip = relu.operand.owner
            if isinstance(clip, SoftclipOp) and isinstance(clip.operand.owner, ReluOp):
                relu.result.replace_all_uses_with(relu.operand)


EXTENSION = weft.Extension(ops=(SoftclipOp,), passes=(DropReluPass,))


def model() -> ModelProto:
    """y = relu(softclip(relu(x))), for any number of elements."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Softclip", ["a"], ["b"], domain="com.example", limit=2.0),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["n"])]
    outputs = [value("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph(nodes, "clipped", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main() -> None:
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    exe = weft.compile(model(), extensions=(EXTENSION,))
    (y,) = exe(x)
    print(y)
    assert np.allclose(y, 2 * np.tanh(np.maximum(x, 0) / 2))
    assert exe.metadata["operators"] == {"graph.relu": 1, "mine.softclip": 1}
    graph = weft.Graph("by_hand", extensions=(EXTENSION,))
    n = graph.input("x", "float32", ("n",))
    graph.output("y", graph.op("mine.softclip", n * 3, limit=0.5))
    (z,) = weft.compile(graph, extensions=(EXTENSION,))(x)
    print(z)
    assert np.allclose(z, 0.5 * np.tanh(6 * x))


if __name__ == "__main__":
    main()
