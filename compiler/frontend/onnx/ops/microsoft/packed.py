"""onnxruntime's operators on weights of a few bits, in blocks that have a scale each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, normal_axis
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import F32, FLOATS, UI8

BITS = (2, 4, 8)


def unpacked(x: Term, bits: int) -> Term:
    """Bytes as the numbers of so many bits that their last axis holds, the low bits first."""
    count = 8 // bits
    if count == 1:
        return x
    shifts = x.of(x.b.constant_of(np.arange(0, 8, bits), UI8))
    mask = x.of(x.b.constant_of(2**bits - 1, UI8))
    column = x.reshape((*x.shape, 1))
    shifted = x.b.bit_shift(column.value, shifts.value, direction="RIGHT")
    numbers = x.of(x.b.bitwise_and(shifted, mask.value))
    return numbers.reshape((*x.shape[:-1], x.shape[-1] * count))


def bits_of(node: OnnxNode) -> int:
    """How many bits a number has."""
    bits = node.integer("bits", 4)
    if bits not in BITS:
        raise UnsupportedError(f"requires bits out of {', '.join(map(str, BITS))}, got {bits}")
    return bits


def import_matmul(node: OnnxNode) -> Sequence[SSAValue]:
    """`a @ w.T + bias`, the rows of `w` in blocks of numbers of a few bits."""
    if node.optional(4) is not None:
        raise UnsupportedError("requires blocks in order, got an operand g_idx")
    if node.flag("weight_prepacked"):
        raise UnsupportedError("requires weights as they are stored, got weight_prepacked")
    a, weights = Term(node.b, node.operand(0)), _weights(node)
    *lead, columns = a.shape
    rows = a.reshape((product(lead), columns)).value
    operands = [rows, weights.cast(a.type.element).value, node.optional(5)]
    numbers = {"alpha": 1.0, "beta": 1.0}
    result = node.b.gemm(*operands, **numbers, transpose_a=False, transpose_b=True)
    return [node.reshape(result, (*lead, weights.shape[0]))]


def _weights(node: OnnxNode) -> Term:
    """The matrix of `N` rows of `K` floats."""
    rows, columns, size = (node.attribute(name).i for name in ("N", "K", "block_size"))
    bits = bits_of(node)
    if size < 1 or columns < 1:
        raise ModelError(f"requires blocks and columns, got {size} and {columns}")
    count = -(-columns // size)
    wanted = tuple(map(Expr.of, (rows, count, size * bits // 8)))
    if node.shape(1) != wanted:
        raise ModelError(f"requires weights [{', '.join(map(str, wanted))}], got {node.type(1)}")
    levels = unpacked(Term(node.b, node.operand(1)), bits).cast(F32)
    scales = Term(node.b, node.operand(2)).cast(F32).reshape((rows, count, 1))
    real = (levels - _zeros(node, rows, count, bits)) * scales
    return real.reshape((rows, count * size)).part(1, 0, columns)


def _zeros(node: OnnxNode, rows: int, count: int, bits: int) -> Term:
    """The zero point of each block: a float, packed as the weights are, or half of the range."""
    if node.optional(3) is None:
        return Term(node.b, node.scalar(2 ** (bits - 1), F32))
    given = Term(node.b, node.operand(3))
    if given.type.element in FLOATS:
        return given.cast(F32).reshape((rows, count, 1))
    stored = given.reshape((rows, -(-count * bits // 8)))
    return unpacked(stored, bits).part(1, 0, count).cast(F32).reshape((rows, count, 1))


def import_gather(node: OnnxNode) -> Sequence[SSAValue]:
    """Slices of a tensor in blocks of numbers of a few bits, as floats. Unsigned bytes hold several
    numbers along the last axis, which count from half of their range.
    """
    data, scales = Term(node.b, node.operand(0)), Term(node.b, node.operand(2))
    zeros = None if node.optional(3) is None else Term(node.b, node.operand(3))
    rank = len(data.shape)
    taken = normal_axis(node.integer("gather_axis", 0), rank)
    axis = normal_axis(node.integer("quantize_axis", 1), rank)
    if taken == axis or (data.type.element == UI8 and (taken, axis) != (0, rank - 1)):
        rule = (
            "requires slices of whole blocks, of bytes along the first axis with blocks in the last"
        )
        raise UnsupportedError(f"{rule}, got slices along {taken} with blocks along {axis}")
    indices = Term(node.b, node.operand(1))
    data, scales = data.take(indices, taken), scales.take(indices, taken)
    zeros = None if zeros is None else zeros.take(indices, taken)
    axis += len(indices.shape) - 1 if axis > taken else 0
    middle = 0
    if data.type.element == UI8:
        bits, last = bits_of(node), len(data.shape) - 1
        data, middle = unpacked(data, bits), 2 ** (bits - 1)
        zeros = zeros and unpacked(zeros, bits).part(last, 0, scales.shape[last])
    block = node.integer("block_size", 128)
    size = data.shape[axis]
    if block < 1 or size.ceildiv(block) != scales.shape[axis]:
        raise ModelError(f"requires scales for {size} in blocks of {block}, got {scales.type}")
    levels = data.cast(F32)
    if zeros is None:
        levels = levels - middle if middle else levels
    else:
        levels = levels - _spread(zeros.cast(F32), axis, block, size)
    real = levels * _spread(scales.cast(F32), axis, block, size)
    return [real.cast(scales.type.element).value]


def _spread(x: Term, axis: int, times: int, size: Expr) -> Term:
    """Each element so many times along an axis, up to a size."""
    count = x.shape[axis]
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    wide = x.insert(axis + 1).expand((*lead, count, times, *rest))
    return wide.reshape((*lead, count * times, *rest)).part(axis, 0, size)


IMPORTERS = importers(
    {
        "GatherBlockQuantized": Signature(
            import_gather,
            "data:E:.* indices:I:* scales:F:.* zero_points?:E:.*",
            "bits block_size gather_axis quantize_axis",
        ),
        "MatMulNBits": Signature(
            import_matmul,
            "a:F:.* b:U:... scales:F:.* zero_points?:V:.* g_idx?:L:. bias?:F:.",
            "K! N! accuracy_level bits block_size! weight_prepacked",
        ),
    }
)
