"""Element types in LLVM IR: how an element travels in a register, and how it is laid out in memory.

bool is i1 in a register and a byte, 0 or 1, in memory; integers of 2 and 4 bits likewise take the
low bits of a byte. f16 and bf16 travel as their 16 bits, narrower floats as a byte (`conversions`).
"""

from __future__ import annotations

import struct
from functools import lru_cache

import ml_dtypes
import numpy as np
from llvmlite import ir
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute

from weft.compiler.loop_to_llvm.scalar.conversions import lane_type
from weft.compiler.loop_to_llvm.scalar.narrow_floats import NARROW_FLOATS
from weft.compiler.target.target import Target

MOST_SPLATS = 1 << 12

_SPLATS: dict[tuple[str, int], ir.Constant] = {}
"""Vectors of one constant by its type and value as text and the number of lanes."""

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER = ir.PointerType()
VOID = ir.VoidType()

_FORMATS: dict[type[Attribute], str] = {
    IndexType: "i64",
    Float16Type: "f16",
    BFloat16Type: "bf16",
    Float32Type: "f32",
    Float64Type: "f64",
}


def format_name(element: Attribute) -> str:
    """The name that `conversions` knows a type by; integers are named as signed ones."""
    known = _FORMATS.get(type(element))
    if known is not None:
        return known
    if isinstance(element, IntegerType):
        return f"i{element.width.data}"
    name = str(element)
    assert name in NARROW_FLOATS, f"an element is an integer or a float, not {element}"
    return name


_TYPES = {kind: lane_type(name) for kind, name in _FORMATS.items()}
"""Types of elements that a register holds as memory does."""

_BYTES: dict[type[Attribute], int] = {
    IndexType: 8,
    Float16Type: 2,
    BFloat16Type: 2,
    Float32Type: 4,
    Float64Type: 8,
}


def register_type(element: Attribute) -> ir.Type:
    """The LLVM type of one element in a register."""
    return _TYPES.get(type(element)) or lane_type(format_name(element))


def storage_type(element: Attribute) -> ir.Type:
    """The LLVM type of one element in memory."""
    if type(element) in _TYPES:
        return _TYPES[type(element)]
    llvm_type = register_type(element)
    return I8 if _is_packed(llvm_type) else llvm_type


def _is_packed(llvm_type: ir.Type) -> bool:
    """Whether a register holds fewer bits than memory does."""
    return isinstance(llvm_type, ir.IntType) and llvm_type.width < 8


def storage_bytes(element: Attribute) -> int:
    """How many bytes one element takes in memory."""
    if type(element) in _BYTES:
        return _BYTES[type(element)]
    llvm_type = storage_type(element)
    if isinstance(llvm_type, ir.IntType):
        assert llvm_type.width in (8, 16, 32, 64), (
            f"an element is a whole number of bytes, not {llvm_type}"
        )
        return llvm_type.width // 8
    return 4 if llvm_type == ir.FloatType() else 8


def constant(element: Attribute, number: float | int) -> ir.Constant:
    """A constant of an element type in a register; a float is rounded to the type."""
    name = format_name(element)
    if name == "f16":
        return ir.Constant(register_type(element), int(np.float16(number).view(np.uint16)))
    if name == "bf16":
        bits = struct.pack("<f", float(ml_dtypes.bfloat16(number)))
        return ir.Constant(register_type(element), int.from_bytes(bits[2:], "little"))
    if name == "i1":
        return ir.Constant(I1, int(number) & 1)
    return ir.Constant(register_type(element), number)


def from_storage(builder: ir.IRBuilder, value: ir.Value, element: Attribute) -> ir.Value:
    """A value just loaded, as it travels in a register."""
    if type(element) in _TYPES:
        return value
    llvm_type = register_type(element)
    if not _is_packed(llvm_type):
        return value
    if llvm_type != I1:
        return builder.trunc(value, shaped(llvm_type, lanes_of(value)))
    return builder.icmp_unsigned("!=", value, ir.Constant(value.type, None))


def to_storage(builder: ir.IRBuilder, value: ir.Value, element: Attribute) -> ir.Value:
    """A register's value as it is stored."""
    if type(element) in _TYPES or not _is_packed(register_type(element)):
        return value
    return builder.zext(value, shaped(I8, lanes_of(value)))


def lanes_of(value: ir.Value) -> int:
    """How many lanes a value has; 0 for a scalar."""
    return value.type.count if isinstance(value.type, ir.VectorType) else 0


def shaped(element: ir.Type, lanes: int) -> ir.Type:
    """The vector type of that many lanes, or the scalar for 0."""
    return ir.VectorType(element, lanes) if lanes else element


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A scalar in every lane; vectors are returned as they are."""
    if not lanes or lanes_of(value):
        return value
    wide = ir.VectorType(value.type, lanes)
    if isinstance(value, ir.Constant):
        return _constant_splat(value, wide)
    nothing, first_lanes = _undefined(value.type, lanes), _first_lanes(lanes)
    only_first = builder.insert_element(nothing, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(only_first, nothing, first_lanes)


@lru_cache
def _undefined(element: ir.Type, lanes: int) -> ir.Constant:
    """A vector of anything, which llvmlite writes only once."""
    return ir.Constant(ir.VectorType(element, lanes), ir.Undefined)


@lru_cache
def _first_lanes(lanes: int) -> ir.Constant:
    """The order that takes the first lane for each."""
    return ir.Constant(ir.VectorType(I32, lanes), None)


def _constant_splat(value: ir.Constant, wide: ir.VectorType) -> ir.Constant:
    """The constant in every lane; llvmlite writes each vector of constants only once."""
    key = str(value), wide.count  # a text tells -0.0 from 0.0
    if key not in _SPLATS:
        if len(_SPLATS) == MOST_SPLATS:
            _SPLATS.clear()
        _SPLATS[key] = ir.Constant(wide, [value.constant] * wide.count)
    return _SPLATS[key]


@lru_cache
def lane_mask(lanes: int, active: int) -> ir.Constant:
    """The mask that lets so many lanes run, from the first on."""
    return ir.Constant(ir.VectorType(I1, lanes), [1] * active + [0] * (lanes - active))


@lru_cache(maxsize=4096)
def lane_numbers(*numbers: int) -> ir.Constant:
    """The vector of these i32, as shuffles take it; llvmlite writes each only once."""
    return ir.Constant(ir.VectorType(I32, len(numbers)), list(numbers))


def mangled(llvm_type: ir.Type) -> str:
    """How LLVM names a type in the name of an intrinsic: `f32`, `v8f32`, `v8p0`."""
    if isinstance(llvm_type, ir.VectorType):
        return f"v{llvm_type.count}{mangled(llvm_type.element)}"
    if isinstance(llvm_type, ir.PointerType):
        return "p0"
    return (
        str(llvm_type)
        if isinstance(llvm_type, ir.IntType)
        else {"float": "f32", "double": "f64"}[str(llvm_type)]
    )


def intrinsic(
    builder: ir.IRBuilder,
    name: str,
    result: ir.Type,
    operands: list[ir.Value],
    *over: ir.Type,
    flags: tuple[str, ...] = (),
) -> ir.Value:
    """Calls `llvm.<name>` overloaded on the given types, declaring it where the module lacks it;
    `flags` are those of fast math.
    """
    full = ".".join(("llvm", name, *(mangled(each) for each in over)))
    declared = builder.module.globals.get(full)
    if declared is None:
        function_type = ir.FunctionType(result, [operand.type for operand in operands])
        declared = ir.Function(builder.module, function_type, name=full)
    return builder.call(declared, operands, fastmath=flags)


def read_clock(builder: ir.IRBuilder, target: Target) -> ir.Value:
    """Ticks of a counter that goes at one rate: on x86 that of cycles, elsewhere the steady one."""
    name = "readcyclecounter" if target.arch == "x86_64" else "readsteadycounter"
    return intrinsic(builder, name, I64, [])
