"""The graph level: tensors are values, operators are pure, shapes are symbolic."""

from xdsl.ir import Dialect

from dialects.graph import (
    activation,
    arithmetic,
    branch,
    cast,
    comparison,
    constant,
    control,
    conv,
    derivative,
    determinant,
    effects,
    einsum,
    exponential,
    gather,
    generate,
    insert,
    matmul,
    movement,
    nonzero,
    normalize,
    pad,
    pool,
    random,
    rearrange,
    reduce,
    region_pool,
    repeat,
    resample,
    scan,
    scatter,
    search,
    slicing,
    softmax,
    sort,
    trigonometry,
    unfold,
    watch,
    winograd,
)
from dialects.graph.branch import CaseOp, IfOp
from dialects.graph.call import CallOp
from dialects.graph.constant import ConstantOp, DimsOp, LiteralAttr
from dialects.graph.control import BindSizesOp, ConditionOp, ControlOp
from dialects.graph.derivative import CheckpointOp, CustomVjpOp, InlinedOp, StopGradientOp
from dialects.graph.effects import AssertOp, EffectOp, PrintOp
from dialects.graph.fused import FusedOp, YieldOp, group_of
from dialects.graph.movement import ExpandOp, IdentityOp, ReshapeOp, TransposeOp
from dialects.graph.op import GraphOp
from dialects.graph.repeat import ForOp, WhileOp
from dialects.graph.types import ShapeAttr, TensorType

__all__ = [
    "GRAPH",
    "OPS",
    "OPS_BY_NAME",
    "AssertOp",
    "BindSizesOp",
    "CallOp",
    "CaseOp",
    "CheckpointOp",
    "ConditionOp",
    "ConstantOp",
    "ControlOp",
    "CustomVjpOp",
    "DimsOp",
    "EffectOp",
    "ExpandOp",
    "ForOp",
    "FusedOp",
    "GraphOp",
    "IdentityOp",
    "IfOp",
    "InlinedOp",
    "PrintOp",
    "ReshapeOp",
    "StopGradientOp",
    "TensorType",
    "TransposeOp",
    "WhileOp",
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
    *derivative.OPS,
    *watch.OPS,
    *matmul.OPS,
    *einsum.OPS,
    *determinant.OPS,
    *movement.OPS,
    *slicing.OPS,
    *pad.OPS,
    *insert.OPS,
    *rearrange.OPS,
    *gather.OPS,
    *scatter.OPS,
    *resample.OPS,
    *scan.OPS,
    *generate.OPS,
    *nonzero.OPS,
    *random.OPS,
    *reduce.OPS,
    *conv.OPS,
    *unfold.OPS,
    *winograd.OPS,
    *softmax.OPS,
    *search.OPS,
    *sort.OPS,
    *pool.OPS,
    *region_pool.OPS,
    *normalize.OPS,
)
"""Every operator, by family."""

OPS_BY_NAME = {op.name.removeprefix("graph."): op for op in OPS}

CONTROL_OPS = (*control.OPS, *branch.OPS, *repeat.OPS, *derivative.CONTROL_OPS)
"""Control flow: what holds other operators, or names sizes, so no function of tensors alone."""

GRAPH = Dialect(
    "graph",
    [*OPS, *CONTROL_OPS, *effects.OPS, CallOp, FusedOp, YieldOp],
    [TensorType, ShapeAttr, LiteralAttr],
)
