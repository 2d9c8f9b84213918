"""graph -> graph: products with weights in blocks whose rows may be rounded to bytes have rows and
weights of bf16 instead, where the target multiplies tiles of these; those whose rows are floats
have sums of bf16, if scales are constants of usual sizes.

    block_quantized_matmul {activations = "int8"}   ->   {activations = "bf16"}
    block_quantized_matmul {activations = "float"}  ->   {activations = "parts"}

Rounding to bf16 is nearer, and sums need no scale for each block; few rows stay bytes.
"""

from __future__ import annotations

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from weft.compiler.graph.simplify.evaluate_constants import constant_of
from weft.compiler.graph.widen_halves import BF16_TERMS
from weft.compiler.target.module_target import target_of
from weft.dialects.context import weights_of
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.types import F32, type_of
from weft.dialects.graph.quantized.block_panels import PARTS_RANGE
from weft.dialects.graph.quantized.block_quantized import BlockQuantizedMatmulOp
from weft.dialects.weights import WeightStore


class RoundActivationsPass(ModulePass):
    """Rewrites all such products."""

    name = "weft-round-activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not target_of(op).has_matrix_products(BF16_TERMS):
            return
        for product in op.walk():
            if not isinstance(product, BlockQuantizedMatmulOp):
                continue
            if product.mode == "int8":
                product.properties["activations"] = StringAttr("bf16")
            elif product.mode == "float" and _have_parts(product, weights_of(ctx)):
                product.properties["activations"] = StringAttr("parts")


def _have_parts(product: BlockQuantizedMatmulOp, weights: WeightStore) -> bool:
    """Whether rows are f32, and scales and minima such as sums of bf16 need."""
    parameters = [each for each in (product.scales, product.minimum) if each is not None]
    constants = [constant_of(each, weights) for each in parameters]
    return type_of(product.operand).element == F32 and all(
        each is not None and _within_range(each, weights) for each in constants
    )


def _within_range(constant: ConstantOp, weights: WeightStore) -> bool:
    """Whether a constant stays as it is, and each of its numbers is zero or of a usual size."""
    if constant.key is not None and weights.varies(constant.key.data):
        return False
    sizes = np.abs(constant.array(weights).astype(np.float32))
    least, most = PARTS_RANGE
    return bool(((sizes == 0) | ((sizes >= least) & (sizes <= most))).all())
