"""Products and convolutions of bytes, summed in 32 bits, as quantised networks have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def

from weft.dialects.graph.core.op import OnnxName
from weft.dialects.graph.core.types import I8, I32, UI8, type_of
from weft.dialects.graph.ops.conv import SlidingConvolutionOp
from weft.dialects.graph.ops.matmul import ProductOp
from weft.dialects.weights import Array

BYTES = (UI8, I8)


@irdl_op_definition
class IntegerMatmulOp(ProductOp):
    """`y[..., i, j] = sum_k lhs[..., i, k] * rhs[..., k, j]` of bytes, signed or not, in i32 and
    modulo 2^32; batch dims are broadcast as NumPy's. ONNX's MatMulInteger without zero points.
    """

    name = "graph.integer_matmul"
    ONNX: ClassVar = OnnxName("MatMulInteger")

    def total_element(self) -> Attribute:
        lhs, rhs = (each.element for each in self.tensor_types())
        self.require(lhs in BYTES and rhs in BYTES, "operands of i8 or ui8", f"{lhs} and {rhs}")
        return I32

    def reference(self, *operands: Array) -> Sequence[Array]:
        lhs, rhs = (operand.astype(np.int32) for operand in operands)
        return [np.asarray(np.matmul(lhs, rhs))]


@irdl_op_definition
class IntegerConvOp(SlidingConvolutionOp):
    """`y[n, o, p] = bias[o] + sum_ct x[n, c, p * stride + t * dilation - pad] * w[o, c, t]`, of
    bytes, signed or not, in i32 and modulo 2^32.

    The filter is `[m, c / group, kernel...]`, the bias of i32. Outside of the image is `outside`, 0
    unless given. ONNX's ConvInteger without zero points.
    """

    name = "graph.integer_conv"
    outside: IntegerAttr[Any] | None = opt_prop_def(IntegerAttr)

    @property
    def total_element(self) -> Attribute:
        return I32

    @property
    def fill_value(self) -> int:
        return 0 if self.outside is None else self.outside.value.data

    def check_elements(self) -> None:
        image, filters, *bias = (each.element for each in self.tensor_types())
        pair = f"{image} and {filters}"
        self.require(image in BYTES and filters in BYTES, "an image and a filter of bytes", pair)
        self.require(all(each == I32 for each in bias), "a bias of i32", bias)
        low = -128 if type_of(self.image).element == I8 else 0
        fits = low <= self.fill_value < low + 256
        self.require(fits, f"a number of {image} outside", self.fill_value)


OPS = (IntegerMatmulOp, IntegerConvOp)
