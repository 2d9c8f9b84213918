"""onnxruntime's operators on weights of a few bits, in blocks that have a scale each."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, never_equal, normal_axis
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import F32, FLOATS, I32, UI8
from weft.dialects.graph.quantized.block_weights import BlockRows, fills_words
from weft.dialects.graph.reindexing.slicing import below_zero
from weft.dialects.weights import Array

BITS = (2, 4, 8)

BYTES_LEVEL = 4
"""The accuracy level that has activations multiplied as bytes."""


def _normal_floats() -> Array:
    """Quantiles of the normal distribution, zero among them, with 1 as the largest."""
    quantile, tail = NormalDist().inv_cdf, 0.9677083
    above, below = (
        [quantile(each) for each in np.linspace(tail, 0.5, count)[:-1]] for count in (9, 8)
    )
    numbers = np.sort([*above, 0.0, *(-each for each in below)])
    return numbers / numbers[-1]


_FLOATS = np.array([0, 1 / 16, 8, 12, 4, 6, 2, 3]) / 12

CODES: Sequence[Array] = (np.concatenate([_FLOATS, -_FLOATS]), _normal_floats())
"""What codes of 4 bits stand for: floats of 2 bits of exponent, whose least one is less, and
quantiles.
"""


def unpacked(x: Term, bits: int, *, low_first: bool = True) -> Term:
    """Bytes as the numbers of so many bits that their last axis holds."""
    count = 8 // bits
    if count == 1:
        return x
    shifts = x.of(x.b.constant_of(np.arange(0, 8, bits)[:: 1 if low_first else -1], UI8))
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
    if node.flag("weight_prepacked"):
        raise UnsupportedError("requires weights as they are stored, got weight_prepacked")
    size, bits = node.attribute("block_size").i, bits_of(node)
    if node.optional(4) is not None or not fills_words(bits, size):
        return _product(node, _weights(node), node.optional(5))
    rows = _rows(node, size, bits)
    exact_zero = rows.zeros is None or rows.zeros.type.element == UI8
    as_bytes = node.integer("accuracy_level", 0) == BYTES_LEVEL and exact_zero
    a, terms = Term(node.b, node.operand(0)), Expr.of(node.attribute("K").i)
    if never_equal(a.shape[-1:], (terms,)):
        raise ModelError(f"requires {terms} columns, got {a.type}")
    a = a.of(node.assume(a.value, (*a.shape[:-1], terms)))
    result = rows.product(a, "int8" if as_bytes else "float").cast(a.type.element)
    bias = node.optional(5)
    return [(result if bias is None else result + result.of(bias)).value]


def _rows(node: OnnxNode, size: int, bits: int) -> BlockRows:
    """The weights as they are stored."""
    rows, count = node.attribute("N").i, _blocks(node, bits)
    codes = Term(node.b, node.operand(1)).reshape((rows, count * size * bits // 8))
    scales = Term(node.b, node.operand(2)).reshape((rows, count))
    zeros = None
    if node.optional(3) is not None:
        zeros = Term(node.b, node.operand(3))
        if zeros.type.element not in FLOATS:
            zeros = unpacked(zeros.reshape((rows, -(-count * bits // 8))), bits)
            zeros = zeros.part(1, 0, count)
        zeros = zeros.reshape((rows, count))
    return BlockRows(codes, scales, zeros, bits=bits, block=size)


def _blocks(node: OnnxNode, bits: int) -> int:
    """How many blocks a row of weights has, which are as many bytes as it says."""
    rows, columns, size = (node.attribute(name).i for name in ("N", "K", "block_size"))
    if size < 1 or columns < 1:
        raise ModelError(f"requires blocks and columns, got {size} and {columns}")
    count = -(-columns // size)
    wanted = tuple(map(Expr.of, (rows, count, size * bits // 8)))
    if node.shape(1) != wanted:
        raise ModelError(f"requires weights [{', '.join(map(str, wanted))}], got {node.type(1)}")
    return count


def _product(node: OnnxNode, weights: Term, bias: SSAValue | None) -> Sequence[SSAValue]:
    """`a @ w.T + bias`."""
    a = Term(node.b, node.operand(0))
    *lead, columns = a.shape
    rows = a.reshape((product(lead), columns)).value
    operands = [rows, weights.cast(a.type.element).value, bias]
    numbers = {"alpha": 1.0, "beta": 1.0}
    result = node.b.gemm(*operands, **numbers, transpose_a=False, transpose_b=True)
    return [node.reshape(result, (*lead, weights.shape[0]))]


def _weights(node: OnnxNode) -> Term:
    """The matrix of `N` rows of `K` floats."""
    rows, columns, size = (node.attribute(name).i for name in ("N", "K", "block_size"))
    bits = bits_of(node)
    count = _blocks(node, bits)
    levels = unpacked(Term(node.b, node.operand(1)), bits).cast(F32)
    scales = Term(node.b, node.operand(2)).cast(F32).reshape((rows, count, 1))
    zeros = _zeros(node, rows, count, bits)
    if node.optional(4) is not None:
        levels = levels.reshape((rows, count * size)).part(1, 0, columns)
        scales, zeros = (_of_blocks(node, each, columns) for each in (scales, zeros))
        return (levels - zeros) * scales
    return ((levels - zeros) * scales).reshape((rows, count * size)).part(1, 0, columns)


def _of_blocks(node: OnnxNode, x: Term, columns: int) -> Term:
    """The parameter of each column, whose block an operand names, or the one that all have."""
    blocks = Term(node.b, node.operand(4))
    if below_zero(blocks.shape[0] - columns):
        raise ModelError(f"requires a block for each of {columns} columns, got {blocks.type}")
    return (
        x if not x.shape else x.take(blocks.part(0, 0, columns), 1).reshape((x.shape[0], columns))
    )


def _zeros(node: OnnxNode, rows: int, count: int, bits: int) -> Term:
    """The zero point of each block: a float, packed as the weights are, or half of the range."""
    if node.optional(3) is None:
        return Term(node.b, node.scalar(2 ** (bits - 1), F32))
    given = Term(node.b, node.operand(3))
    if given.type.element in FLOATS:
        return given.cast(F32).reshape((rows, count, 1))
    stored = given.reshape((rows, -(-count * bits // 8)))
    return unpacked(stored, bits).part(1, 0, count).cast(F32).reshape((rows, count, 1))


def import_code_matmul(node: OnnxNode) -> Sequence[SSAValue]:
    """`a @ w.T`, the elements of `w` one after the other codes of 4 bits, the high ones first, in
    blocks with a greatest absolute value each.
    """
    rows, columns, size = (node.attribute(name).i for name in ("N", "K", "block_size"))
    if not node.flag("transB", default=True) or node.flag("training_mode"):
        raise UnsupportedError("requires transB = 1 and training_mode = 0, got others")
    stored, largest = (Term(node.b, node.operand(position)) for position in (1, 2))
    count, wanted = rows * columns, -(-rows * columns // 2)
    if size < 1 or stored.type.size != wanted or largest.type.size != -(-count // size):
        rule = f"{wanted} bytes and a number for each block of {size}"
        raise ModelError(f"requires {rule}, got {stored.type} and {largest.type}")
    table = largest.of(node.b.constant_of(CODES[node.flag("quant_type", default=True)], F32))
    numbers = unpacked(stored.reshape((wanted,)), 4, low_first=False).part(0, 0, count)
    scales = _spread(largest.cast(F32).reshape((-(-count // size),)), 0, size, Expr.of(count))
    weights = table.take(numbers.cast(I32), 0) * scales
    return _product(node, weights.reshape((rows, columns)), None)


def import_gather(node: OnnxNode) -> Sequence[SSAValue]:
    """Slices of a tensor in blocks of numbers of a few bits, as floats. Unsigned bytes hold several
    numbers along the last axis, which count from half of their range.
    """
    taken, axis = _gather_axes(node)
    indices = Term(node.b, node.operand(1))
    data, scales, zeros = (
        None if node.optional(at) is None else indices.of(node.operand(at)).take(indices, taken)
        for at in (0, 2, 3)
    )
    assert data is not None, "the signature requires the data"
    assert scales is not None, "the signature requires the scales"
    axis += len(indices.shape) - 1 if axis > taken else 0
    middle = 0
    if data.type.element == UI8:
        bits = bits_of(node)
        data, middle = unpacked(data, bits), 2 ** (bits - 1)
        zeros = zeros and unpacked(zeros, bits)
    block, size, count = node.integer("block_size", 128), data.shape[axis], scales.shape[axis]
    if block < 1 or size.ceildiv(block) != count:
        raise ModelError(f"requires scales for {size} in blocks of {block}, got {scales.type}")
    zero = data.of(node.scalar(middle, F32))
    if zeros is not None:
        zero = _spread(zeros.part(axis, 0, count).cast(F32), axis, block, size)
    real = (data.cast(F32) - zero) * _spread(scales.cast(F32), axis, block, size)
    return [real.cast(scales.type.element).value]


def _gather_axes(node: OnnxNode) -> tuple[int, int]:
    """The axes that slices are taken along, and that blocks are in, of which all operands have the
    other dims.
    """
    shape = node.shape()
    taken = normal_axis(node.integer("gather_axis", 0), len(shape))
    axis = normal_axis(node.integer("quantize_axis", 1), len(shape))
    holds_several = node.type().element == UI8
    if taken == axis or (holds_several and (taken, axis) != (0, len(shape) - 1)):
        rule = "requires slices of whole blocks, of bytes along the first axis with last blocks"
        raise UnsupportedError(f"{rule}, got slices along {taken} with blocks along {axis}")
    for position in (2, 3) if node.optional(3) is not None else (2,):
        others = node.shape_of(position, len(shape))
        if never_equal((*shape[:axis], *shape[axis + 1 :]), (*others[:axis], *others[axis + 1 :])):
            raise ModelError(f"requires parameters for {node.type()}, got {node.type(position)}")
    return taken, axis


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
        "MatMulBnb4": Signature(
            import_code_matmul,
            "a:F:.* b:U:.* absmax:F:.*",
            "K! N! block_size! quant_type! training_mode transB",
        ),
        "MatMulNBits": Signature(
            import_matmul,
            "a:F:.* b:U:... scales:F:.* zero_points?:V:.* g_idx?:L:. bias?:F:.",
            "K! N! accuracy_level bits block_size! weight_prepacked",
        ),
    }
)
