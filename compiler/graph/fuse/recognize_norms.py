"""graph -> graph: normalisations that an exporter has scattered become one operator.

    d = x - mean(x);  d / sqrt(mean(d^2) + epsilon) * scale + bias  ->  layer_norm(x, scale, bias)
    x / sqrt(mean(x^2) + epsilon) * scale                           ->  rms_norm(x, scale)

The means go over the last axes and keep them. A product with the reciprocal of the root stands for
the quotient as well, a missing scale for 1.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import erase_unused, number_of, only_user
from weft.dialects.graph import OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.arithmetic import AddOp, DivOp, MulOp, ReciprocalOp, SubOp
from weft.dialects.graph.ops.exponential import PowOp, SqrtOp
from weft.dialects.graph.ops.reduce import ReduceMeanOp


class RecognizeNormsPass(ModulePass):
    """Rewrites every layer or root-mean-square normalisation of the module."""

    name = "weft-recognize-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        recognize_norms(op)


def recognize_norms(module: ModuleOp) -> None:
    """Rewrites in place."""
    for mean in [op for op in module.walk() if isinstance(op, ReduceMeanOp)]:
        if mean.parent is not None:
            _recognize(mean)


def _recognize(mean: ReduceMeanOp) -> None:
    """Looks around the mean of squares."""
    squared, axis = _square_root(mean.operand), _first_axis(mean)
    if squared is None or axis is None:
        return
    shifted = _with_number(mean.result, AddOp)
    if shifted is None:
        return
    centred = _centred(squared, mean)
    normal = _quotient(squared, shifted[0])
    if normal is None or normal.type != squared.type:
        return
    rank = type_of(squared).rank - axis
    scaled, scale = _with_parameter(normal, MulOp, rank)
    last, bias = scaled, None
    if centred is not None and scale is not None:
        last, bias = _with_parameter(scaled, AddOp, rank)
    owner = last.owner
    assert isinstance(owner, GraphOp), "a normalisation ends in an operator"
    b = GraphBuilder(InsertPoint.before(owner), OPS_BY_NAME, owner.location)
    if scale is None:
        scale = b.constant_of(1, type_of(normal).element)
    options = {"axis": axis - type_of(squared).rank, "epsilon": shifted[1]}
    if centred is None:
        norm = b.rms_norm(squared, scale, **options)
    else:
        norm = b.layer_norm(centred, scale, bias, **options)
    norm.name_hint = last.name_hint
    last.replace_all_uses_with(norm)
    erase_unused(owner)


def _square_root(value: SSAValue) -> SSAValue | None:
    """What a value is the square of; weft-rewrite has made products of powers."""
    owner = value.owner
    return owner.lhs if isinstance(owner, MulOp) and owner.lhs is owner.rhs else None


def _first_axis(mean: ReduceMeanOp) -> int | None:
    """The first of the last axes, where the mean goes over those and keeps them."""
    tensor_type = type_of(mean.operand)
    if not tensor_type.has_rank or not mean.keeps_dims:
        return None
    axes = sorted(mean.reduced())
    fits = bool(axes) and axes == list(range(axes[0], tensor_type.rank))
    return axes[0] if fits else None


def _centred(value: SSAValue, mean: ReduceMeanOp) -> SSAValue | None:
    """The `x` of `x - mean(x)` over the same axes."""
    owner = value.owner
    if not isinstance(owner, SubOp) or owner.lhs.type != value.type:
        return None
    middle = owner.rhs.owner
    if not isinstance(middle, ReduceMeanOp) or middle.operand is not owner.lhs:
        return None
    same = middle.keeps_dims and middle.reduced() == mean.reduced()
    return owner.lhs if same else None


def _with_number(value: SSAValue, op_class: type[AddOp]) -> tuple[SSAValue, float] | None:
    """The sum of the value with a number, as its only use, and the number."""
    user = only_user(value)
    if not isinstance(user, op_class) or user.result.type != value.type:
        return None
    number = number_of(_other(user, value))
    return None if number is None else (user.result, number)


def _other(op: AddOp | MulOp, value: SSAValue) -> SSAValue:
    return op.rhs if op.lhs is value else op.lhs


def _quotient(dividend: SSAValue, squared: SSAValue) -> SSAValue | None:
    """The dividend over the root of the value that follows, however that is written."""
    user = only_user(squared)
    if isinstance(user, PowOp) and number_of(user.operands[1]) == -0.5:
        return _product(dividend, user.result)
    if not isinstance(user, SqrtOp):
        return None
    root = user.result
    user = only_user(root)
    if isinstance(user, ReciprocalOp):
        return _product(dividend, user.result)
    if not isinstance(user, DivOp) or user.rhs is not root:
        return None
    if user.lhs is dividend:
        return user.result
    return _product(dividend, user.result) if number_of(user.lhs) == 1 else None


def _product(dividend: SSAValue, inverse: SSAValue) -> SSAValue | None:
    user: Operation | None = only_user(inverse)
    if isinstance(user, MulOp) and _other(user, inverse) is dividend:
        return user.result
    return None


def _with_parameter(
    value: SSAValue, op_class: type[AddOp | MulOp], rank: int
) -> tuple[SSAValue, SSAValue | None]:
    """The value combined with a parameter of the normalised axes, where that is its only use."""
    user = only_user(value)
    if not isinstance(user, op_class) or user.result.type != value.type:
        return value, None
    parameter = _other(user, value)
    shape = type_of(parameter)
    fits = shape.has_rank and shape.rank <= rank and parameter is not value
    return (user.result, parameter) if fits else (value, None)
