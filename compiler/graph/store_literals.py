"""graph -> graph: small vectors of floats beside stored weights are weights as well, not numbers in
the code of kernels.

    graph.constant {literal = #graph.literal<[0.5, 1.5]>}  ->  graph.constant {key = "bias"}

Layers of few channels share kernels then, as wider ones do, and other weights need no other code.
The factors of contractions are weights in any case, with one number for all elements
too: what multiplies a number is scheduled as no product.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from weft.dialects.context import weights_of
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.weights import WeightStore


class StoreLiteralsPass(ModulePass):
    """Rewrites the constants of functions, those in regions aside, which may be numbers of a loop.
    A program without weights gets none: it is called without a context of its own.
    """

    name = "weft-store-literals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        beside = any(isinstance(each, ConstantOp) and each.key is not None for each in op.walk())
        for function in op.ops:
            if isinstance(function, FuncOp):
                store_literals(function, weights_of(ctx), factors_only=not beside)


def store_literals(function: FuncOp, weights: WeightStore, *, factors_only: bool = False) -> None:
    """Puts literals of several floats into the store, those of one number for all elements only
    where they are factors; or factors alone.
    """
    for op in function.body.block.ops:
        if not isinstance(op, ConstantOp) or op.literal is None or op.element not in FLOATS:
            continue
        several = len(op.literal.data) > 1 and not factors_only
        if several or _is_factor(op):
            name = op.result.name_hint or "literal"
            key = StringAttr(weights.add(name, op.array(None)))
            op.properties = {"key": key, "shape": op.shape, "element": op.element}


def _is_factor(op: ConstantOp) -> bool:
    """Whether several elements are what a contraction multiplies, which adds what comes third."""
    multiplied = any(
        isinstance(use.operation, GraphOp) and use.operation.REUSES_OPERANDS and use.index < 2
        for use in op.result.uses
    )
    return multiplied and (op.result_type.size.constant or 0) > 1
