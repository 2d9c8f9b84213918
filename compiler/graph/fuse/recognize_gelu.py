"""graph -> graph: a GELU that an exporter has scattered becomes one operator.

    x * 0.5 * (1 + erf(x / sqrt(2)))                                  ->  gelu(x)
    x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))         ->  gelu(x), approximated

The products may stand in any order: what is compared are polynomials, of `x` in front of the
function, of `x` and the function's result behind it.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import (
    Polynomial,
    erase_unused,
    inputs_behind,
    is_close,
    only_user,
    polynomial,
)
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.activation import GeluOp
from weft.dialects.graph.ops.arithmetic import AddOp, DivOp, MulOp
from weft.dialects.graph.ops.exponential import ErfOp
from weft.dialects.graph.ops.trigonometry import TanhOp

ARGUMENTS: dict[str, Polynomial] = {
    ErfOp.name: {(1,): math.sqrt(0.5)},
    TanhOp.name: {(1,): GeluOp.SLOPE_AT_ZERO, (3,): GeluOp.SLOPE_AT_ZERO * GeluOp.CUBIC},
}
"""What either function is taken of, in powers of `x`."""

HALF: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
"""`x / 2 * (1 + t)`, in powers of `x` and `t`."""

MOST_USERS = 4
"""Operators behind the function: a sum and three products or quotients."""


class RecognizeGeluPass(ModulePass):
    """Rewrites every GELU of the module."""

    name = "weft-recognize-gelu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        recognize_gelu(op)


def recognize_gelu(module: ModuleOp) -> None:
    """Rewrites in place."""
    for function in [op for op in module.walk() if isinstance(op, ErfOp | TanhOp)]:
        if function.parent is None:
            continue
        operand = _operand_of(function)
        result = None if operand is None else _result_of(function, operand)
        if operand is not None and result is not None:
            _replace(function, operand, result)


def _operand_of(function: ErfOp | TanhOp) -> SSAValue | None:
    """The `x` that the function's operand is the right polynomial of."""
    tolerance = _tolerance(function.operand)
    for candidate in inputs_behind(function.operand):
        found = polynomial(function.operand, {candidate: 0})
        if is_close(found, ARGUMENTS[function.name], tolerance):
            return candidate
    return None


def _result_of(function: ErfOp | TanhOp, operand: SSAValue) -> SSAValue | None:
    """The value that is `x / 2 * (1 + t)`, whose parts nobody else uses."""
    value, symbols = function.result, {operand: 0, function.result: 1}
    for _ in range(MOST_USERS):
        user = only_user(value)
        if not isinstance(user, AddOp | MulOp | DivOp):
            return None
        value = user.result
        found = polynomial(value, symbols)
        if is_close(found, HALF, _tolerance(value)) and value.type == operand.type:
            return value
    return None


def _tolerance(value: SSAValue) -> float:
    """How far constants may be rounded: several of them are multiplied."""
    return 1e-6 if isinstance(type_of(value).element, Float32Type | Float64Type) else 1e-2


def _replace(function: ErfOp | TanhOp, operand: SSAValue, result: SSAValue) -> None:
    last = result.owner
    assert isinstance(last, MulOp | DivOp | AddOp), "a GELU ends in arithmetic"
    b = GraphBuilder(InsertPoint.before(last), OPS_BY_NAME, last.location)
    approximate = "none" if isinstance(function, ErfOp) else "tanh"
    gelu = b.gelu(operand, approximate=approximate)
    gelu.name_hint = result.name_hint
    result.replace_all_uses_with(gelu)
    erase_unused(last)
