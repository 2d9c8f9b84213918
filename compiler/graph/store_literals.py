"""graph -> graph: small vectors of floats beside stored weights are weights as well, not numbers in
the code of kernels.

    graph.constant {literal = #graph.literal<[0.5, 1.5]>}  ->  graph.constant {key = "bias"}

Layers of few channels share kernels then, as wider ones do, and other weights need no other code.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from weft.dialects.context import weights_of
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.weights import WeightStore


class StoreLiteralsPass(ModulePass):
    """Rewrites the constants of functions, those in regions aside, which may be numbers of a loop.
    A program without weights gets none: it is called without a context of its own.
    """

    name = "weft-store-literals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(each, ConstantOp) and each.key is not None for each in op.walk()):
            for function in op.ops:
                if isinstance(function, FuncOp):
                    store_literals(function, weights_of(ctx))


def store_literals(function: FuncOp, weights: WeightStore) -> None:
    """Puts literals of several floats into the store; where one element is all of them it stays."""
    for op in function.body.block.ops:
        if not isinstance(op, ConstantOp) or op.literal is None or op.element not in FLOATS:
            continue
        if len(op.literal.data) > 1:
            name = op.result.name_hint or "literal"
            key = StringAttr(weights.add(name, op.array(None)))
            op.properties = {"key": key, "shape": op.shape, "element": op.element}
