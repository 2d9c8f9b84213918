"""graph -> graph: scales and minima of blocks that f16 holds exactly are stored so.

Tools choose scales in f16, and files of f32 networks have them in f32, where they are a fifth of
the bytes that a step with weights of 4 bits reads.
"""

from __future__ import annotations

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from weft.compiler.graph.simplify.evaluate_constants import replace_constants
from weft.dialects.context import weights_of
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.types import F32, type_of
from weft.dialects.graph.quantized.block_quantized import BlockQuantizedMatmulOp
from weft.dialects.weights import WeightStore


class NarrowScalesPass(ModulePass):
    """Rewrites constant parameters of products with weights in blocks; leaves those that can be
    replaced later.
    """

    name = "weft-narrow-scales"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        products = [each for each in op.walk() if isinstance(each, BlockQuantizedMatmulOp)]
        parameters = (
            (product, at)
            for product in products
            for at, value in enumerate(product.operands)
            if value in (product.scales, product.minimum)
        )
        replace_constants(parameters, weights_of(ctx), _narrowed)


def _narrowed(constant: ConstantOp, weights: WeightStore) -> ConstantOp | None:
    """The constant in f16, in front of it; None where that rounds."""
    name = "scales" if constant.key is None else constant.key.data
    if type_of(constant.result).element != F32 or weights.varies(name):
        return None
    array = constant.array(weights)
    with np.errstate(over="ignore"):
        halves = array.astype(np.float16)
    if not np.array_equal(halves.astype(np.float32), array):
        return None
    made = ConstantOp.computed(name, halves, weights, constant.location)
    assert constant.parent is not None, "a constant stands in a block"
    constant.parent.insert_op_before(made, constant)
    made.result.name_hint = constant.result.name_hint
    return made
