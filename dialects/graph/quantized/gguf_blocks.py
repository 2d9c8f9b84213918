"""The block formats of GGUF files, as ggml stores them: rows of bytes that stand for floats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F16, F32, I8, I32, UI8, UI16, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


class Bytes(Struct, frozen=True):
    """A block in the loops, by whose bytes an element is computed."""

    b: LoopBuilder
    operand: SSAValue
    lead: Sequence[Expr]
    first: Expr

    def at(self, position: Expr | int) -> Scalar:
        """A byte, as i32."""
        return self.b.load(self.operand, [*self.lead, self.first + position]).cast(I32)

    def signed(self, position: Expr | int) -> Scalar:
        """A signed byte, as f32."""
        return self.b.load(self.operand, [*self.lead, self.first + position]).bitcast(I8).cast(F32)

    def half(self, position: int) -> Scalar:
        """A float of two bytes, as f32."""
        bits = self.at(position) | self.at(position + 1).shift_left(8)
        return bits.cast(UI16).bitcast(F16).cast(F32)


Pair = tuple[Scalar, Scalar | None]
"""The scale of a part of a block, and its minimum if it has one."""


class Format(Struct, frozen=True):
    """Elements and bytes of a block, and how many parts of it have a scale each; in NumPy, the
    scales and minima of blocks `[..., bytes]`, and their floats. In the loops, these of a block;
    and what is stored alike in it, as extents, with the elements that such an iteration stores.
    """

    elements: int
    bytes: int
    parts: int
    parameters: Callable[[Array], tuple[Array, Array | None]]
    reference: Callable[[Array], Array]
    parameters_at: Callable[[Bytes], Sequence[Pair]]
    extents: tuple[int, ...]
    elements_at: Callable[[Bytes, Sequence[Expr]], Sequence[tuple[Expr, Scalar]]]


def half_of(blocks: Array, position: int) -> Array:
    """The f16 at a byte of each block, `[..., 1]`, as f32."""
    pair = np.ascontiguousarray(blocks[..., position : position + 2])
    return pair.view("<f2").astype(np.float32)


def nibbles(x: Array) -> Array:
    """The low halves of the bytes along the last axis, then the high ones."""
    return np.concatenate([x & 15, x >> 4], -1)


def _one(blocks: Array) -> tuple[Array, None]:
    return half_of(blocks, 0), None


def _one_at(block: Bytes) -> Sequence[Pair]:
    return [(block.half(0), None)]


def _q4_0(blocks: Array) -> Array:
    return half_of(blocks, 0) * (nibbles(blocks[..., 2:]).astype(np.float32) - 8)


def _q4_0_at(block: Bytes, index: Sequence[Expr]) -> Sequence[tuple[Expr, Scalar]]:
    (i,) = index
    scale, byte = block.half(0), block.at(i + 2)
    low, high = byte & 15, byte.shift_right(4)
    return [(i + 16 * n, scale * (q - 8).cast(F32)) for n, q in enumerate((low, high))]


def _q8_0(blocks: Array) -> Array:
    return half_of(blocks, 0) * blocks[..., 2:].view(np.int8).astype(np.float32)


def _q8_0_at(block: Bytes, index: Sequence[Expr]) -> Sequence[tuple[Expr, Scalar]]:
    (i,) = index
    return [(i, block.half(0) * block.signed(i + 2))]


def six_bits(packed: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of 6 bits each, of 12 bytes: the lower four of both have bytes
    of their own, whose highest two bits are those of the upper four.
    """
    first, second, third = (packed[..., n : n + 4] for n in (0, 4, 8))
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], -1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], -1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _q4_k_parameters(blocks: Array) -> tuple[Array, Array]:
    scales, minima = six_bits(blocks[..., 4:16])
    return half_of(blocks, 0) * scales, half_of(blocks, 2) * minima


def _q4_k(blocks: Array) -> Array:
    steps, least = _q4_k_parameters(blocks)
    codes = nibbles(blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32))
    codes = codes.reshape(*blocks.shape[:-1], 8, 32).astype(np.float32)
    return (codes * steps[..., None] - least[..., None]).reshape(*blocks.shape[:-1], 256)


def _q4_k_parameters_at(block: Bytes) -> Sequence[Pair]:
    found: list[Pair] = []
    for part in range(8):
        if part < 4:
            scale, least = block.at(4 + part) & 63, block.at(8 + part) & 63
        else:
            low = block.at(8 + part)
            scale = (low & 15) | block.at(part).shift_right(6).shift_left(4)
            least = low.shift_right(4) | block.at(4 + part).shift_right(6).shift_left(4)
        found.append((block.half(0) * scale.cast(F32), block.half(2) * least.cast(F32)))
    return found


def _q4_k_at(block: Bytes, index: Sequence[Expr]) -> Sequence[tuple[Expr, Scalar]]:
    (i,) = index
    found: list[tuple[Expr, Scalar]] = []
    for part, (step, least) in enumerate(_q4_k_parameters_at(block)):
        byte = block.at(i + 16 + part // 2 * 32)
        code = byte.shift_right(4) if part % 2 else byte & 15
        assert least is not None, "each part has a minimum"
        found.append((i + 32 * part, code.cast(F32) * step - least))
    return found


def six_bit_codes(blocks: Array) -> Array:
    """The 256 codes of 6 bits, of 128 bytes of low halves and 64 of high quarters."""
    shape = (*blocks.shape[:-1], 2, 2, 32)
    low, high = blocks[..., :128].reshape(shape), blocks[..., 128:192].reshape(*shape[:-2], 1, 32)
    halves = np.concatenate([low & 15, low >> 4], -2)
    quarters = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], -2)
    return (halves | quarters << 4).reshape(*blocks.shape[:-1], 256)


def _q6_k_parameters(blocks: Array) -> tuple[Array, None]:
    scales = blocks[..., 192:208].view(np.int8).astype(np.float32)
    return half_of(blocks, 208) * scales, None


def _q6_k_parameters_at(block: Bytes) -> Sequence[Pair]:
    return [(block.half(208) * block.signed(192 + n), None) for n in range(16)]


def _q6_k(blocks: Array) -> Array:
    codes = six_bit_codes(blocks).astype(np.float32).reshape(*blocks.shape[:-1], 16, 16) - 32
    steps, _ = _q6_k_parameters(blocks)
    return (codes * steps[..., None]).reshape(*blocks.shape[:-1], 256)


def _q6_k_at(block: Bytes, index: Sequence[Expr]) -> Sequence[tuple[Expr, Scalar]]:
    half, group, i = index
    found: list[tuple[Expr, Scalar]] = []
    for part in range(4):
        low = block.at(half * 64 + group * 16 + i + part % 2 * 32)
        low = low.shift_right(4) if part > 1 else low & 15
        high = block.at(half * 32 + group * 16 + i + 128).shift_right(2 * part) & 3
        code = (low | high.shift_left(4)) - 32
        step = block.half(208) * block.signed(half * 8 + group + 2 * part + 192)
        found.append((half * 128 + group * 16 + i + part * 32, code.cast(F32) * step))
    return found


HAVE_MINIMA = ("Q4_K",)

FORMATS = {
    "Q4_0": Format(32, 18, 1, _one, _q4_0, _one_at, (16,), _q4_0_at),
    "Q8_0": Format(32, 34, 1, _one, _q8_0, _one_at, (32,), _q8_0_at),
    "Q4_K": Format(256, 144, 8, _q4_k_parameters, _q4_k, _q4_k_parameters_at, (32,), _q4_k_at),
    "Q6_K": Format(
        256, 210, 16, _q6_k_parameters, _q6_k, _q6_k_parameters_at, (2, 2, 16), _q6_k_at
    ),
}


class GgufOp(GraphOp):
    """What rows of blocks have for each row: `[..., bytes]` as `[..., numbers]`."""

    operand: SSAValue = operand_def(TensorType)
    format: StringAttr = prop_def(StringAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def stored(self) -> Format:
        """The format of the blocks."""
        return FORMATS[self.format.data]

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many there are for a block."""

    @abstractmethod
    def of_blocks(self, blocks: Array) -> Array:
        """The numbers of blocks `[..., bytes]`, in NumPy."""

    def infer(self) -> Sequence[TensorType]:
        (x,) = self.tensor_types()
        known = self.format.data in FORMATS
        self.require(known, f"a format out of {', '.join(FORMATS)}", self.format.data)
        self.require(x.element == UI8 and x.has_rank and x.rank > 0, "rows of bytes", x)
        size = self.stored.bytes
        whole = (x.shape[-1] % size).constant in (None, 0)
        self.require(whole, f"rows of whole blocks of {size} bytes", x)
        return [tensor((*x.shape[:-1], x.shape[-1] // size * self.numbers), F32)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """Rows have whole blocks."""
        left = type_of(self.operand).shape[-1] % self.stored.bytes
        return [] if left == 0 else [(left, Expr.of(0))]

    def reference(self, *operands: Array) -> Sequence[Array]:
        (x,) = operands
        blocks = np.ascontiguousarray(x).reshape(*x.shape[:-1], -1, self.stored.bytes)
        with np.errstate(all="ignore"):
            return [self.of_blocks(blocks).reshape(*x.shape[:-1], -1)]

    @contextmanager
    def _blocks(
        self, b: LoopBuilder, operand: SSAValue, extents: Sequence[int]
    ) -> Generator[tuple[Bytes, Sequence[Expr], Sequence[Expr]]]:
        """Loops over blocks, and inside of them: the block, where its numbers start in the result,
        and the indices inside.
        """
        *lead, count = type_of(self.operand).shape
        size = self.stored.bytes
        with b.loops([*lead, count // size, *extents]) as index:
            place, number = index[: len(lead)], index[len(lead)]
            block = Bytes(b, operand, place, number * size)
            yield block, [*place, number * self.numbers], index[len(lead) + 1 :]


@irdl_op_definition
class DequantizeGgufOp(GgufOp):
    """The floats that rows of blocks stand for, `[..., bytes]` as `[..., elements]`:

    - `Q4_0`, 32 elements in 18 bytes: `d * (q - 8)`;
    - `Q8_0`, 32 in 34: `d * q`;
    - `Q4_K`, 256 in 144: `d * scale * q - dmin * minimum`, with 8 scales and minima of 6 bits;
    - `Q6_K`, 256 in 210: `d * scale * (q - 32)`, with 16 scales of 8 bits.
    """

    name = "graph.dequantize_gguf"

    @property
    def numbers(self) -> int:
        return self.stored.elements

    def of_blocks(self, blocks: Array) -> Array:
        return self.stored.reference(blocks)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        each = self.stored
        with self._blocks(b, operands[0], each.extents) as (block, (*lead, first), inside):
            for at, value in each.elements_at(block, inside):
                b.store(results[0], [*lead, first + at], value)


@irdl_op_definition
class GgufScalesOp(GgufOp):
    """The scales of parts of blocks, or with `minimum` what is subtracted behind them, of a format
    that has that: `[..., bytes]` as `[..., parts]`.
    """

    name = "graph.gguf_scales"
    minimum: BoolAttr = prop_def(BoolAttr)

    @property
    def numbers(self) -> int:
        return self.stored.parts

    def infer(self) -> Sequence[TensorType]:
        has = self.format.data in HAVE_MINIMA or not self.minimum.value.data
        self.require(has, f"a format with minima ({', '.join(HAVE_MINIMA)})", self.format.data)
        return super().infer()

    def of_blocks(self, blocks: Array) -> Array:
        found = self.stored.parameters(blocks)[int(self.minimum.value.data)]
        assert found is not None, "the format has minima"
        return found

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        which = int(self.minimum.value.data)
        with self._blocks(b, operands[0], ()) as (block, (*lead, first), _):
            for part, pair in enumerate(self.stored.parameters_at(block)):
                value = pair[which]
                assert value is not None, "the format has minima"
                b.store(results[0], [*lead, first + part], value)


OPS = (DequantizeGgufOp, GgufScalesOp)
