"""graph -> graph: products with weights in blocks whose rows may be rounded to bytes have rows and
weights of bf16 instead, where the target multiplies tiles of these.

    block_quantized_matmul {activations = "int8"}   ->   {activations = "bf16"}

Rounding to bf16 is nearer, and sums need no scale for each block; few rows stay bytes.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from weft.compiler.graph.widen_halves import BF16_TERMS
from weft.compiler.target.module_target import target_of
from weft.dialects.graph.quantized.block_quantized import BlockQuantizedMatmulOp


class RoundActivationsPass(ModulePass):
    """Rewrites all such products."""

    name = "weft-round-activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not target_of(op).has_matrix_products(BF16_TERMS):
            return
        for product in op.walk():
            if isinstance(product, BlockQuantizedMatmulOp) and product.mode == "int8":
                product.properties["activations"] = StringAttr("bf16")
