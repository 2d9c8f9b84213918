"""The graph level: tensors are values, operators are pure, shapes are symbolic."""

from xdsl.ir import Dialect

from dialects.graph import (
    activation,
    arithmetic,
    cast,
    comparison,
    constant,
    conv,
    determinant,
    einsum,
    exponential,
    gather,
    generate,
    matmul,
    movement,
    normalize,
    pool,
    random,
    rearrange,
    reduce,
    resample,
    scan,
    search,
    slicing,
    softmax,
    sort,
    trigonometry,
    unfold,
)
from dialects.graph.constant import ConstantOp, DimsOp, LiteralAttr
from dialects.graph.fused import FusedOp, YieldOp, group_of
from dialects.graph.movement import ExpandOp, IdentityOp, ReshapeOp, TransposeOp
from dialects.graph.op import GraphOp
from dialects.graph.types import ShapeAttr, TensorType

__all__ = [
    "GRAPH",
    "OPS",
    "OPS_BY_NAME",
    "ConstantOp",
    "DimsOp",
    "ExpandOp",
    "FusedOp",
    "GraphOp",
    "IdentityOp",
    "ReshapeOp",
    "TensorType",
    "TransposeOp",
    "YieldOp",
    "group_of",
]

OPS: tuple[type[GraphOp], ...] = (
    *constant.OPS,
    *arithmetic.OPS,
    *exponential.OPS,
    *trigonometry.OPS,
    *activation.OPS,
    *comparison.OPS,
    *cast.OPS,
    *matmul.OPS,
    *einsum.OPS,
    *determinant.OPS,
    *movement.OPS,
    *slicing.OPS,
    *rearrange.OPS,
    *gather.OPS,
    *resample.OPS,
    *scan.OPS,
    *generate.OPS,
    *random.OPS,
    *reduce.OPS,
    *conv.OPS,
    *unfold.OPS,
    *softmax.OPS,
    *search.OPS,
    *sort.OPS,
    *pool.OPS,
    *normalize.OPS,
)
"""Every operator, by family."""

OPS_BY_NAME = {op.name.removeprefix("graph."): op for op in OPS}

GRAPH = Dialect("graph", [*OPS, FusedOp, YieldOp], [TensorType, ShapeAttr, LiteralAttr])
