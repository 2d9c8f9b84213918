"""The graph level: tensors are values, operators are pure, shapes are symbolic."""

from xdsl.ir import Dialect

from dialects.graph import arithmetic, constant, matmul
from dialects.graph.op import GraphOp
from dialects.graph.types import ShapeAttr, TensorType

OPS: tuple[type[GraphOp], ...] = (
    *constant.OPS,
    *arithmetic.OPS,
    *matmul.OPS,
)
"""Every operator, by family."""

OPS_BY_NAME = {op.name.removeprefix("graph."): op for op in OPS}

GRAPH = Dialect("graph", [*OPS], [TensorType, ShapeAttr, constant.LiteralAttr])
