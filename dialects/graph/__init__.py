"""The graph level: tensors are values, operators are pure, shapes are symbolic."""

from weft.dialects.definitions import Dialect
from weft.dialects.graph.classical import automaton, coupling, strings, tree_ensemble
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import ShapeAttr, TensorType
from weft.dialects.graph.linalg import fourier, systems, triangular
from weft.dialects.graph.mesh import collectives, messages, shard
from weft.dialects.graph.mesh.attributes import MeshAttr, ShardingAttr
from weft.dialects.graph.mesh.collectives import CollectiveOp
from weft.dialects.graph.mesh.messages import MessageOp, RecvOp, SendOp
from weft.dialects.graph.mesh.shard import ShardOp, StageOfOp, StageOp
from weft.dialects.graph.ops import (
    activation,
    arithmetic,
    cast,
    comparison,
    conv,
    determinant,
    einsum,
    exponential,
    extremum,
    lp_norm,
    matmul,
    normalize,
    pool,
    random,
    reduce,
    region_pool,
    resample,
    scan,
    search,
    softmax,
    sort,
    trigonometry,
    unfold,
    winograd,
)
from weft.dialects.graph.quantized import block_quantized, gguf_blocks, integer_products
from weft.dialects.graph.regions import after, branch, control, derivative, effects, repeat, watch
from weft.dialects.graph.regions.after import AfterOp
from weft.dialects.graph.regions.branch import CaseOp, IfOp
from weft.dialects.graph.regions.call import CallOp
from weft.dialects.graph.regions.control import BindSizesOp, ConditionOp, ControlOp
from weft.dialects.graph.regions.derivative import (
    CheckpointOp,
    CustomVjpOp,
    InlinedOp,
    StopGradientOp,
)
from weft.dialects.graph.regions.effects import AssertOp, EffectOp, HostCallOp, PrintOp
from weft.dialects.graph.regions.fused import FusedOp, YieldOp, group_of
from weft.dialects.graph.regions.native_call import NativeCallOp, NativeFunction
from weft.dialects.graph.regions.repeat import ForOp, WhileOp
from weft.dialects.graph.reindexing import (
    constant,
    gather,
    generate,
    insert,
    movement,
    nonzero,
    pad,
    rearrange,
    scatter,
    slicing,
)
from weft.dialects.graph.reindexing.constant import ConstantOp, DimsOp, LiteralAttr
from weft.dialects.graph.reindexing.movement import ExpandOp, IdentityOp, ReshapeOp, TransposeOp

__all__ = [
    "GRAPH", "OPS", "OPS_BY_NAME", "AfterOp", "AssertOp", "BindSizesOp", "CallOp", "CaseOp",
    "CheckpointOp", "CollectiveOp", "ConditionOp", "ConstantOp", "ControlOp", "CustomVjpOp",
    "DimsOp", "EffectOp", "ExpandOp", "ForOp", "FusedOp", "GraphOp", "HostCallOp", "IdentityOp",
    "IfOp", "InlinedOp", "MessageOp", "NativeCallOp", "NativeFunction", "PrintOp", "RecvOp",
    "ReshapeOp", "SendOp", "ShardOp", "StageOfOp", "StageOp", "StopGradientOp", "TensorType",
    "TransposeOp", "WhileOp", "YieldOp", "group_of",
]  # fmt: skip

FAMILIES = (
    constant, arithmetic, extremum, exponential, trigonometry, activation, comparison, cast,
    derivative, watch, after, matmul, einsum, determinant, fourier, triangular, systems, movement,
    slicing, pad, insert, rearrange, gather, scatter, resample, scan, generate, nonzero, random,
    reduce, conv, integer_products, block_quantized, gguf_blocks, unfold, winograd, softmax,
    search, sort, pool, region_pool, lp_norm, normalize, tree_ensemble, strings, automaton,
    coupling, shard,
)  # fmt: skip
"""Files of operators."""

OPS: tuple[type[GraphOp], ...] = tuple(op for family in FAMILIES for op in family.OPS)
"""Every operator, by family."""

OPS_BY_NAME = {op.name.removeprefix("graph."): op for op in OPS}

CONTROL_OPS = (*control.OPS, *branch.OPS, *repeat.OPS, *derivative.CONTROL_OPS)
"""Control flow: what holds other operators, or names sizes, so no function of tensors alone."""

GRAPH = Dialect(
    "graph",
    [
        *OPS,
        *CONTROL_OPS,
        *collectives.OPS,
        *messages.OPS,
        *effects.OPS,
        CallOp,
        FusedOp,
        NativeCallOp,
        YieldOp,
    ],  # fmt: skip
    [TensorType, ShapeAttr, LiteralAttr, MeshAttr, ShardingAttr],
)
