"""graph -> graph: weights below the least normal number, 1.2e-38 in f32, are zero.

Training leaves such numbers where it shrinks what it does not need. They change no sum that has a
larger term, but processors take a hundred cycles for each product with one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from weft.compiler.graph.simplify.evaluate_constants import replace_constants
from weft.dialects.context import weights_of
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.types import F32, F64, type_of
from weft.dialects.graph.ops.conv import ConvolutionOp
from weft.dialects.graph.ops.matmul import GemmOp, ProductOp
from weft.dialects.weights import Array, WeightStore, release_pages

_BLOCK: Final = 1 << 16
"""Elements that are looked at at once."""


_PRODUCTS: Final = (ProductOp, GemmOp, ConvolutionOp)


class FlushSubnormalsPass(ModulePass):
    """Rewrites the constant factors of products and convolutions of f32 and f64. Leaves those that
    can be replaced later, and those of subnormal numbers alone, which may be all that there is.
    """

    name = "weft-flush-subnormals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        products = [each for each in op.walk() if isinstance(each, _PRODUCTS)]
        factors = ((product, at) for product in products for at in (0, 1))  # what is added stays
        replace_constants(factors, weights_of(ctx), _flushed)


def _flushed(constant: ConstantOp, weights: WeightStore) -> ConstantOp | None:
    """The constant without subnormal numbers, in front of it; None where it has none."""
    name = "weights" if constant.key is None else constant.key.data
    if type_of(constant.result).element not in (F32, F64) or weights.varies(name):
        return None
    array = constant.array(weights)
    found = any(map(_has_subnormals, _blocks(array)))
    release_pages(array)
    if not found:
        return None
    small = _subnormal(array)
    if not array[~small].any():
        return None
    normal = np.where(small, np.zeros((), array.dtype), array)
    made = ConstantOp.computed(name, normal, weights, constant.location)
    block = constant.parent
    assert block is not None, "a constant stands in a block"
    block.insert_op_before(made, constant)
    made.result.name_hint = constant.result.name_hint
    return made


def _blocks(array: Array) -> Iterator[Array]:
    """The elements in pieces that stay in L2 while they are looked at."""
    elements = array.ravel(order="K")
    return (elements[at : at + _BLOCK] for at in range(0, elements.size, _BLOCK))


def _has_subnormals(block: Array) -> bool:
    """Whether any number is subnormal: its bits without the sign, twice, are less than those of the
    least normal one, and the least of all; two below nothing is more than all others. NumPy finds
    the least six times as fast as it compares each.
    """
    bits = block.view(np.uint32 if block.dtype == np.float32 else np.uint64)
    doubled = bits + bits
    least = int(doubled.min())
    if not least:
        least = int((doubled - bits.dtype.type(2)).min()) + 2
    return least < 2 << np.finfo(block.dtype).nmant


def _subnormal(array: Array) -> Array:
    """Which numbers are subnormal, which zero is not: by their bits, since processors take as long
    to compare them.
    """
    bits = array.view(np.uint32 if array.dtype == np.float32 else np.uint64)
    limits = np.finfo(array.dtype)
    magnitudes = bits & bits.dtype.type((1 << (limits.bits - 1)) - 1)
    return (magnitudes - bits.dtype.type(1)) < bits.dtype.type((1 << limits.nmant) - 1)
