"""ONNX conversions between element types, of values and of bits."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, onnx_element
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.types import (
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F32,
    FLOATS,
    I32,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    UI8,
    UI32,
    type_of,
)

GREATEST: dict[Attribute, float] = {
    F8E4M3FN: 448.0,
    F8E4M3FNUZ: 240.0,
    F8E5M2: 57344.0,
    F8E5M2FNUZ: 57344.0,
}
"""The greatest numbers of floats that hold NaN or infinities; the smaller ones always saturate."""

ADDENDS = {"up": 0x7FFFFF, "nearest": 0x3FFFFF, "down": 0}
"""What is added to the fraction of an f32 so that its exponent is rounded."""


def import_cast(node: OnnxNode) -> Sequence[SSAValue]:
    """A conversion to the type that an attribute states."""
    return [_converted(node, onnx_element(node.attribute("to").i))]


def import_cast_like(node: OnnxNode) -> Sequence[SSAValue]:
    """A conversion to the second operand's element type."""
    return [_converted(node, node.type(1).element)]


def _converted(node: OnnxNode, element: Attribute) -> SSAValue:
    """The first operand as another type: floats keep the low bits of integers below 8, and saturate
    to floats of 8 bits unless the node says otherwise.
    """
    value, source = node.operand(0), node.type(0).element
    saturate = node.flag("saturate", default=True)
    if element in NARROW_INTEGERS and source in (*FLOATS, *NARROW_FLOATS):
        return node.cast(node.cast(value, I32), element)
    if element == F8E8M0FNU and source != F8E8M0FNU:
        return _power_of_two(node, value, node.text("round_mode", "up"), saturate)
    return saturated(node, value, element, saturate)


def saturated(
    node: OnnxNode, value: SSAValue, element: Attribute, saturate: bool = True
) -> SSAValue:
    """The value as another type; with `saturate`, floats of 8 bits take their greatest number for
    what is beyond it.
    """
    if not saturate or element not in GREATEST or type_of(value).element == element:
        return node.cast(value, element)
    if type_of(value).element not in FLOATS:
        value = node.cast(value, F32)
    most, source_element = GREATEST[element], type_of(value).element
    bounded = node.b.max(value, node.scalar(-most, source_element))
    return node.cast(node.b.min(bounded, node.scalar(most, source_element)), element)


def _power_of_two(node: OnnxNode, value: SSAValue, mode: str, saturate: bool) -> SSAValue:
    """The exponents of numbers, whose sign is dropped; infinities and NaN become NaN.

    `up` and `down` round to the next power of two, `nearest` to the nearest, ties up.
    """
    if mode not in ADDENDS:
        raise ModelError(f"requires round_mode out of {', '.join(ADDENDS)}, got {mode}")
    b = node.b

    def number(bits: int) -> SSAValue:
        return node.scalar(bits, UI32)

    def exponent(bits: SSAValue) -> SSAValue:
        return b.bit_shift(bits, number(23), direction="RIGHT")

    bits = b.bitcast(node.cast(value, F32), to=UI32)
    magnitude = b.bitwise_and(bits, number(0x7FFFFFFF))
    addend = number(ADDENDS[mode])
    if mode == "nearest":  # a tie between zero, which stands for 2**-127, and the next goes down
        addend = b.add(addend, b.min(exponent(magnitude), number(1)))
    rounded = b.min(exponent(b.add(magnitude, addend)), number(254 if saturate else 255))
    special = b.greater_equal(magnitude, number(0x7F800000))
    code = b.where(special, number(255), rounded)
    return b.bitcast(node.cast(code, UI8), to=F8E8M0FNU)


def import_bit_cast(node: OnnxNode) -> Sequence[SSAValue]:
    """The same bits as another type of their width."""
    return [node.b.bitcast(node.operand(0), to=onnx_element(node.attribute("to").i))]


IMPORTERS: dict[str, Importer] = {
    "BitCast": import_bit_cast,
    "Cast": import_cast,
    "CastLike": import_cast_like,
}
