"""ONNX's random operators, on bits of a counter-based generator; Bernoulli and Dropout with a seed
on those of NumPy's, as ONNX's reference implementation draws them.

A node's numbers depend on its `seed` alone, or without one on its name, so that a model returns the
same numbers in every call, for any number of threads, on every machine.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from functools import partial

import numpy as np
from onnx import AttributeProto, TensorProto
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, onnx_element
from weft.compiler.frontend.onnx.ops.constants import filled
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.types import BF16, F16, F32, F64, FLOATS, I64, Shape, type_of
from weft.dialects.graph.ops.random import WORD
from weft.dialects.loop.scalar import compute_type

DIGITS: dict[Attribute, int] = {F32: 24, F64: 53, F16: 11, BF16: 8}
"""Random bits below one that each type can hold."""


def _seed(node: OnnxNode) -> int:
    """The key of the node's numbers: the bits of its seed, else a hash of its name."""
    if node.has("seed"):
        if node.attribute("seed").type == AttributeProto.INT:
            return node.integer("seed", 0) & WORD
        return int.from_bytes(struct.pack("<f", node.real("seed", 0.0)), "little")
    return zlib.crc32(" ".join((node.proto.name, *node.proto.output)).encode())


def _upper(node: OnnxNode, bits: SSAValue, unused: int) -> Term:
    """The upper bits of integers, without so many."""
    shift = node.scalar(unused, type_of(bits).element)
    return Term(node.b, node.b.bit_shift(bits, shift, direction="RIGHT"))


def _uniform(node: OnnxNode, shape: Sequence[Expr], element: Attribute, stream: int = 0) -> Term:
    """Numbers from 0 up to but not including 1, in the type in which `element` is computed."""
    if element not in FLOATS:
        raise ModelError(f"requires a floating-point dtype, got {element}")
    digits, wide = DIGITS[element], compute_type(element)
    bits = node.b.random_bits(shape=shape_attr(shape), seed=_seed(node), stream=stream)
    return _upper(node, bits, 64 - digits).cast(wide) * 2.0**-digits


def _reference_seed(node: OnnxNode) -> int | None:
    """The whole part of the node's seed, as the reference takes it; None where it has none."""
    if not node.has("seed"):
        return None
    if node.attribute("seed").type == AttributeProto.INT:
        return node.integer("seed", 0) & WORD
    seed = node.real("seed", 0.0)
    return int(seed) & WORD if math.isfinite(seed) else None


def _reference_uniform(node: OnnxNode, seed: int, shape: Sequence[Expr]) -> Term:
    """Numbers of f64 from 0 up to but not including 1, two words of the generator each."""
    size = product(shape)
    words = Term(node.b, node.b.mersenne_twister(count=shape_attr([size * 2]), seed=seed))
    pairs = words.reshape((size, 2))
    high, low = (
        _upper(node, pairs.part(1, at, 1).value, unused).cast(F64)
        for at, unused in enumerate((5, 6))
    )
    return ((high * 2.0**26 + low) * 2.0**-53).reshape(shape)


def _target(node: OnnxNode, *, is_like: bool) -> tuple[Shape, Attribute]:
    """The dims and element type of the result: those of the attributes, or of the operand."""
    if is_like:
        tensor_type = node.type()
        element = tensor_type.element
        shape = tensor_type.shape
    else:
        element = F32
        shape = tuple(Expr.of(dim) for dim in node.attribute("shape").ints)
    if node.has("dtype"):
        element = onnx_element(node.integer("dtype", TensorProto.FLOAT))
    return shape, element


def import_uniform(node: OnnxNode, *, is_like: bool) -> Sequence[SSAValue]:
    """Evenly distributed from `low` up to `high`."""
    shape, element = _target(node, is_like=is_like)
    low, high = node.real("low", 0.0), node.real("high", 1.0)
    return [(_uniform(node, shape, element) * (high - low) + low).cast(element).value]


def import_normal(node: OnnxNode, *, is_like: bool) -> Sequence[SSAValue]:
    """Normally distributed, two uniform numbers for each (Box and Muller)."""
    shape, element = _target(node, is_like=is_like)
    radius, turn = (_uniform(node, shape, element, stream) for stream in range(2))
    radius = ((1 - radius).math("log") * -2.0).math("sqrt")
    result = radius * (turn * (2 * math.pi)).math("cos")
    return [(result * node.real("scale", 1.0) + node.real("mean", 0.0)).cast(element).value]


def import_bernoulli(node: OnnxNode) -> Sequence[SSAValue]:
    """1 with the probability that the operand gives, else 0. The reference asks for probabilities
    up to a half whether a number lies at the upper end.
    """
    chances = Term(node.b, node.operand(0))
    element, seed = chances.type.element, _reference_seed(node)
    if seed is None:
        drawn = _uniform(node, chances.shape, element)
        hits = drawn < chances.cast(drawn.type.element)
    else:
        drawn, wide = _reference_uniform(node, seed, chances.shape), chances.cast(F64)
        hits = ((wide <= 0.5) & (drawn > 1 - wide)) | ((wide > 0.5) & (drawn <= wide))
    if node.has("dtype"):
        element = onnx_element(node.integer("dtype", TensorProto.FLOAT))
    return [hits.cast(element).value]


def import_multinomial(node: OnnxNode) -> Sequence[SSAValue]:
    """Classes drawn from the logarithms of their unnormalised probabilities, `[batch, classes]`."""
    x = Term(node.b, node.operand(0))
    batch, classes = node.shape_of(0, 2)
    chances = x.of(node.b.softmax(x.cast(compute_type(x.type.element)).value, axis=1))
    sums = x.of(node.b.cumsum(chances.value, axis=1, exclusive=False, reverse=False))
    drawn = _uniform(node, (batch, Expr.of(node.integer("sample_size", 1))), chances.type.element)
    below = sums.insert(1).part(2, 0, classes - 1) <= drawn.insert(2)
    found = below.cast(I64).sum([2])
    return [found.cast(onnx_element(node.integer("dtype", TensorProto.INT32))).value]


def import_dropout(node: OnnxNode) -> Sequence[SSAValue]:
    """Training: what is not dropped is scaled up; inference, and a ratio of 0, keep everything. A
    call alone may know which it is.

    The second result says what is kept.
    """
    ratio, training = node.optional(1), node.optional(2)
    if training is None or _is_zero(node, training) or _is_zero(node, ratio):
        everything = np.array(True)
        mask = [filled(node, everything, node.shape())] if node.uses(1) else []
        return [node.operand(0), *mask]
    x, seed = Term(node.b, node.operand(0)), _reference_seed(node)
    wide, digits = compute_type(x.type.element), F32 if seed is None else F64
    dropped = x.of(node.scalar(0.5, digits) if ratio is None else node.cast(ratio, digits))
    if node.constants.constant_array(training) is None:
        dropped = x.of(node.reshape(training, [])).where(dropped, 0.0)
    if seed is None:
        kept = _uniform(node, x.shape, F32) >= dropped
    else:
        kept = _reference_uniform(node, seed, x.shape) >= dropped
    scaled = x.cast(wide) / (1 - dropped).cast(wide)
    return [kept.where(scaled, 0.0).cast(x.type.element).value, kept.value]


def _is_zero(node: OnnxNode, value: SSAValue | None) -> bool:
    """Whether a value is known, and nothing but zeros."""
    array = None if value is None else node.constants.constant_array(value)
    return array is not None and not array.any()


IMPORTERS: dict[str, Importer] = {
    "Bernoulli": import_bernoulli,
    "Dropout": import_dropout,
    "Multinomial": import_multinomial,
    "RandomNormal": partial(import_normal, is_like=False),
    "RandomNormalLike": partial(import_normal, is_like=True),
    "RandomUniform": partial(import_uniform, is_like=False),
    "RandomUniformLike": partial(import_uniform, is_like=True),
}
