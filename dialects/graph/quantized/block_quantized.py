"""Products with weights of a few bits, in blocks along the sum that share a scale each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from msgspec.structs import replace
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.broadcast import differing
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F32, F64, FLOATS, UI8, UI32, TensorType, tensor, type_of
from weft.dialects.graph.quantized.block_loops import (
    FEW_ROWS,
    LANES,
    OF_FLOATS,
    WORD_BITS,
    WORD_BYTES,
    BlockProduct,
    BlockWeights,
)
from weft.dialects.graph.quantized.block_panels import (
    FEWEST_PART_ROWS,
    FEWEST_WORD_ROWS,
    FLOAT_PARTS,
    FloatProduct,
    WordProduct,
    have_parts,
)
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array

BITS = (2, 4, 8)
"""Of a code: whole numbers of them fill a byte."""

Loops = Callable[[], None]
"""Writes loops."""

ACTIVATIONS = ("float", "parts", "int8", "bf16")


@irdl_op_definition
class BlockQuantizedMatmulOp(GraphOp):
    """`y[m, n] = sum_k x[m, k] * w[n, k]` with
    `w[n, k] = (code[n, k] - zero[n, k / block]) * scale[n, k / block] - minimum[n, k / block]`.

    Columns are in tiles of 32, of which the last may have more than there are: of 32 columns in
    turn, `codes[tile, word, column]` has `32 / bits` codes that follow each other along k, the
    lowest bits first, and parameters are `[tile, block, column]`. A zero point is half of the
    range unless given, the minimum 0. With `activations` of int8, each block of `x` becomes
    multiples of its greatest absolute value over 127, to the nearest, ties to even. With those of
    bf16, 16 rows or more and the weights are rounded to that, and fewer rows are as with int8.
    Those of `parts` are as with float, but that 64 rows or more are multiplied as sums of bf16, for
    which scales and minima have to be zero or within `PARTS_RANGE`.
    """

    name = "graph.block_quantized_matmul"
    REUSES_OPERANDS: ClassVar = True
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    operand: SSAValue = operand_def(TensorType)
    codes: SSAValue = operand_def(TensorType)
    scales: SSAValue = operand_def(TensorType)
    zeros: SSAValue | None = opt_operand_def(TensorType)
    minimum: SSAValue | None = opt_operand_def(TensorType)
    bits: IntegerAttr[Any] = prop_def(IntegerAttr)
    block: IntegerAttr[Any] = prop_def(IntegerAttr)
    columns: IntegerAttr[Any] = prop_def(IntegerAttr)
    activations: StringAttr = prop_def(StringAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        x, codes, scales = self.tensor_types()[:3]
        bits, block, columns = self.numbers
        self.require(bits in BITS, f"bits out of {BITS}", bits)
        self.require(self.activations.data in ACTIVATIONS, f"one of {ACTIVATIONS}", self.mode)
        whole = block > 0 and block * bits % WORD_BITS == 0
        self.require(whole, "blocks of whole words of 32 bits", f"{block} of {bits} bits")
        rows = x.has_rank and x.rank == 2 and x.element in (F32, F64)
        self.require(rows, "rows of f32 or f64", x)
        parameters = self.tensor_types()[2:]
        self.require(codes.element == UI32, "codes in words of ui32", codes)
        listed = " and ".join(map(str, self.tensor_types()))
        self.require(columns > 0 and x.shape[1] != 0, "terms and columns", listed)
        self.require(all(each.has_rank for each in parameters), "parameters of known rank", listed)
        ranks = codes.has_rank and all(each.rank == 3 for each in (codes, *parameters))
        self.require(ranks, "codes and parameters in tiles", listed)
        for have, want in self._pairs():
            self.require((have - want).constant in (None, 0), f"a size of {want}", have)
        floats = scales.element in FLOATS and self._type_of(self.minimum, F32) in FLOATS
        self.require(floats, "scales and minima of floats", listed)
        zero = self._type_of(self.zeros, UI8)
        self.require(zero == UI8 or zero in FLOATS, "zero points of ui8 or floats", listed)
        rounded = self.mode in OF_FLOATS or zero == UI8
        self.require(rounded, f"zero points of ui8 beside activations of {self.mode}", listed)
        return [tensor((*x.shape[:-1], columns), x.element)]

    def _pairs(self) -> Sequence[tuple[Expr, Expr]]:
        """Sizes of codes and parameters, and those that go with the rows."""
        x, codes, *parameters = (each.shape for each in self.tensor_types())
        bits, block, columns = self.numbers
        tiles, lanes = Expr.of(-(-columns // LANES)), Expr.of(LANES)
        words = (tiles, x[1] * bits // WORD_BITS, lanes)
        whole = (x[1] % block, Expr.of(0))
        shape = (tiles, x[1] // block, lanes)
        pairs = [
            zip(codes, words, strict=True),
            *(zip(each, shape, strict=True) for each in parameters),
        ]
        return [whole, *(pair for each in pairs for pair in each)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """Codes and parameters are as many as the rows' blocks have."""
        return [
            *at_least(type_of(self.operand).shape[1], 1),
            *((have, want) for have, want in self._pairs() if have != want),
        ]

    @staticmethod
    def _type_of(value: SSAValue | None, otherwise: Any) -> Any:
        return otherwise if value is None else type_of(value).element

    @property
    def mode(self) -> str:
        """What the rows are multiplied as."""
        return self.activations.data

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Bits of a code, codes of a block, and columns."""
        return self.bits.value.data, self.block.value.data, self.columns.value.data

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, codes, scales, *others = operands
        bits, block, columns = self.numbers
        zeros = others.pop(0) if self.zeros is not None else np.float64(1 << (bits - 1))
        minimum = others.pop(0) if self.minimum is not None else np.float64(0)
        shifts = np.arange(0, WORD_BITS, bits, dtype=np.uint32)[:, None]
        fields = codes[:, :, None, :] >> shifts & np.uint32((1 << bits) - 1)
        levels = fields.reshape(len(codes), -1, block, LANES).astype(np.float64)
        scales, zeros, minimum = (
            each if each.ndim == 0 else each[:, :, None, :]
            for each in (np.asarray(each).astype(np.float64) for each in (scales, zeros, minimum))
        )
        weights = (levels - zeros) * scales - minimum
        matrix = weights.transpose(1, 2, 0, 3).reshape(x.shape[-1], -1)[:, :columns]
        rows = x.astype(np.float64)
        if self.mode == "bf16" and len(x) >= FEWEST_WORD_ROWS:
            rows, matrix = (_in_bf16(each) for each in (rows, matrix))
        elif self.mode not in OF_FLOATS:
            rows = _rounded(x.astype(np.float32), block)
        return [np.asarray(rows @ matrix).astype(x.dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        given = list(operands[3:])
        zeros = given.pop(0) if self.zeros is not None else None
        minimum = given.pop(0) if self.minimum is not None else None
        rows, depth = type_of(self.operand).shape
        x, codes, scales, *_ = operands
        bits, block, columns = self.numbers
        element = type_of(self.operand).element
        weights = BlockWeights(b, codes, scales, zeros, minimum, element, bits, block, columns)
        product = b, x, weights, results[0], rows, depth
        few, words = partial(BlockProduct(*product).emit, self.mode), WordProduct(*product)
        panels = FloatProduct(*product).emit
        if self.mode == "int8":
            few()
        elif self.mode == "bf16":
            _by_rows(b, rows, FEWEST_WORD_ROWS, few, words.emit)
        elif self.mode == "float":
            _by_rows(b, rows, FEW_ROWS + 1, few, panels)
        else:
            exact = replace(words, row_parts=FLOAT_PARTS, weight_parts=weights.parts)
            many = partial(_by_range, b, x, (rows, depth), exact.emit, panels)
            some = partial(_by_rows, b, rows, FEWEST_PART_ROWS, panels, many)
            _by_rows(b, rows, FEW_ROWS + 1, few, some)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Those of a product with the weights as floats, `dx = dy w` and `dw = dy^T x`, the latter
        for the parameters of each block. Steps of activations have none.
        """
        if self.mode != "float":
            rule = "activations of float for a derivative"
            raise WeftError(f"{self.name} requires {rule}, got {self.mode}")
        distances, scales, minimum = self._floats(b)
        weights = distances * scales if minimum is None else distances * scales - minimum
        tiles, blocks, block, lanes = weights.shape
        matrix = weights.transpose([0, 3, 1, 2]).reshape((tiles * lanes, blocks * block))
        dy, columns = Term(b, cotangents[0]), self.numbers[2]
        dx = dy.matmul(matrix.part(0, 0, columns))
        behind = shape_attr([0, 0, 0, tiles * lanes - columns])
        whole = dy.of(b.pad(dy.value, pads=behind, mode="constant")).transpose([1, 0])
        products = whole.matmul(Term(b, self.operand)).reshape((tiles, lanes, blocks, block))
        dw = products.transpose([0, 2, 3, 1])
        gradients: list[Term] = [(dw * distances).sum([2])]
        if self.zeros is not None:
            gradients.append(-(dw * scales).sum([2]))
        if self.minimum is not None:
            gradients.append(-dw.sum([2]))
        found = [each.value for each in gradients]
        return [dx.value, None, *map(_of_type, [b] * len(found), found, self.operands[2:])]

    def _floats(self, b: GraphBuilder) -> tuple[Term, Term, Term | None]:
        """The distances of the codes from their zero points, `[tiles, blocks, block, columns]`, and
        the scales and minima beside them.
        """
        bits, block, _ = self.numbers
        element = type_of(self.operand).element
        codes = Term(b, self.codes)
        tiles, count, lanes = type_of(self.scales).shape
        shifts = codes.of(b.constant_of(np.arange(0, WORD_BITS, bits), UI32)).reshape(
            (WORD_BITS // bits, 1)
        )
        words = codes.reshape((tiles, codes.shape[1], 1, lanes))
        shifted = b.bit_shift(words.value, shifts.value, direction="RIGHT")
        fields = codes.of(b.bitwise_and(shifted, codes.number((1 << bits) - 1).value))

        def parameter(value: SSAValue) -> Term:
            return Term(b, value).cast(element).reshape((tiles, count, 1, lanes))

        levels = fields.cast(element).reshape((tiles, count, block, lanes))
        zero = float(1 << (bits - 1)) if self.zeros is None else parameter(self.zeros)
        minimum = None if self.minimum is None else parameter(self.minimum)
        return levels - zero, parameter(self.scales), minimum


def _by_rows(b: LoopBuilder, rows: Expr, least: int, few: Loops, many: Loops) -> None:
    """The loops for fewer rows than the least of many, or those; a branch where a call decides."""
    if rows.constant is not None:
        (few if rows.constant < least else many)()
        return
    with b.when(b.index(rows) < least):
        few()
    with b.when(b.index(rows) >= least):
        many()


def _by_range(
    b: LoopBuilder, x: SSAValue, shape: tuple[Expr, Expr], inside: Loops, outside: Loops
) -> None:
    """The loops for rows that have parts, and those for others."""
    found = have_parts(b, x, shape)
    with b.when(found):
        inside()
    with b.when(~found):
        outside()


def _of_type(b: GraphBuilder, gradient: SSAValue, operand: SSAValue) -> SSAValue | None:
    """A gradient in its operand's type, which integers have none of."""
    element = type_of(operand).element
    return Term(b, gradient).cast(element).value if element in FLOATS else None


@irdl_op_definition
class PackWordsOp(GraphOp):
    """`y[...] = x[..., 0] + x[..., 1] * 2^8 + x[..., 2] * 2^16 + x[..., 3] * 2^24` of bytes."""

    name = "graph.pack_words"
    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        (x,) = self.tensor_types()
        self.require(x.element == UI8, "bytes", x)
        fours = x.has_rank and x.rank > 0 and (x.shape[-1] - WORD_BYTES).constant in (None, 0)
        self.require(fours, f"{WORD_BYTES} bytes along the last axis", x)
        return [tensor(x.shape[:-1], UI32)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """A word has four bytes."""
        return differing(type_of(self.operand).shape[-1:], (Expr.of(WORD_BYTES),))

    def reference(self, *operands: Array) -> Sequence[Array]:
        (x,) = operands
        return [np.ascontiguousarray(x).view("<u4")[..., 0].astype(np.uint32, copy=False)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        with b.loops(self.result_type.shape) as index:
            parts = [
                b.load(operands[0], [*index, n]).cast(UI32).shift_left(8 * n)
                for n in range(WORD_BYTES)
            ]
            b.store(results[0], index, parts[0] | parts[1] | parts[2] | parts[3])


def _in_bf16(x: Array) -> Array:
    """The nearest numbers of bf16, as those of f32 are rounded."""
    return x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def _rounded(x: Array, block: int) -> Array:
    """Rows whose blocks are whole multiples of a step each."""
    blocks = x.reshape(*x.shape[:-1], -1, block)
    greatest = np.abs(blocks).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        inverse = np.where(greatest > 0, np.float32(127) / greatest, np.float32(0))
        steps = np.nan_to_num(np.clip(np.rint(blocks * inverse), -127, 127)).astype(np.float64)
    return (steps * (greatest / np.float32(127)).astype(np.float64)).reshape(x.shape)


OPS = (BlockQuantizedMatmulOp, PackWordsOp)
