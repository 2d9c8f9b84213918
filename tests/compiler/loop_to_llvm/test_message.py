"""Messages as the run time writes them: numbers, shapes and texts of any length."""

import ctypes
import math
from collections.abc import Callable

import pytest
from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import DOUBLE, I64, POINTER, new_function
from weft.compiler.loop_to_llvm.runtime.message import (
    SHAPE_BYTES,
    TEXT_BYTES,
    float_writer,
    shape_writer,
    text_writer,
)
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import LoadedCode, load_objects
from weft.compiler.machine.codegen.object_code import compile_object

WRITERS = {
    "float": (float_writer, [DOUBLE]),
    "shape": (shape_writer, [POINTER, I64]),
    "text": (text_writer, [POINTER]),
}
Write = Callable[..., str]


@pytest.fixture(scope="module")
def library() -> LoadedCode:
    module = ir.Module("messages")
    for name, (writer, operands) in WRITERS.items():
        kind = ir.FunctionType(POINTER, [POINTER, *operands])
        code = new_function(module, name, kind, visible=True)
        code.ret(code.call(writer(module), code.arguments))
    return load_objects([compile_object(str(module), host_target())])


def write(library: LoadedCode, name: str, *values: object) -> str:
    kinds = [type(value) for value in values]
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, *kinds)(library.address(name))
    room = ctypes.create_string_buffer(b"?" * 400)
    end = function(room, *values)
    return room.raw[: end - ctypes.addressof(room)].decode()


def write_shape(library: LoadedCode, *sizes: int) -> str:
    table = (ctypes.c_int64 * (len(sizes) + 1))(*sizes)
    return write(
        library, "shape", ctypes.c_void_p(ctypes.addressof(table)), ctypes.c_int64(len(sizes))
    )


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        -2.5,
        9.9999999,
        9.9999994,
        0.1,
        123456.75,
        1e300,
        -1e-300,
        5e-324,
        1.7976931348623157e308,
    ],
)
def test_a_number_has_seven_digits(library: LoadedCode, value: float):
    text = write(library, "float", ctypes.c_double(value))
    assert float(text) == pytest.approx(value, rel=6e-7)
    assert len(text.lstrip("-").split("e")[0]) == 8


def test_numbers_without_digits_have_names(library: LoadedCode):
    shown = {0.0: "0.000000", math.inf: "inf", -math.inf: "-inf"}
    for value, text in shown.items():
        assert write(library, "float", ctypes.c_double(value)) == text
    assert write(library, "float", ctypes.c_double(math.nan)) == "nan"


def test_shapes_are_those_of_numpy(library: LoadedCode):
    for shape in ((), (8,), (2, 3), (-1, 2**62, 0)):
        assert write_shape(library, *shape) == str(shape)


def test_long_shapes_and_texts_end_early(library: LoadedCode):
    lowest = -(2**63) + 1
    shown = write_shape(library, *[lowest] * 12)
    assert shown == f"({', '.join([str(lowest)] * 8)}, ...)"
    assert len(shown) <= SHAPE_BYTES
    text = ctypes.create_string_buffer(b"abc" * 100)
    got = write(library, "text", ctypes.c_void_p(ctypes.addressof(text)))
    assert got == ("abc" * 100)[:TEXT_BYTES]
