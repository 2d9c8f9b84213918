"""The linker of WebAssembly: what it refuses. That its modules run is in test_foreign.py."""

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.wasm.link import link_wasm, signed, unsigned
from weft.compiler.machine.wasm.object_file import Reader, read_wasm
from weft.compiler.machine.weights.blob import WeightBlob
from weft.compiler.target.wasm import WASM32
from weft.dialects.errors import ArtifactError, UnsupportedError, WeftError

CALLER = compile_object(
    """
    declare hidden i32 @callee(i32)
    @table = internal global [2 x ptr] [ptr @callee, ptr @twice]
    define i32 @twice(i32 %x) {
      %entry = getelementptr ptr, ptr @table, i32 %x
      %f = load ptr, ptr %entry
      %y = call i32 %f(i32 %x)
      %z = call i32 @callee(i32 %y)
      ret i32 %z
    }
    """,
    WASM32,
)
CALLEE = compile_object("define hidden i32 @callee(i32 %x) { ret i32 %x }", WASM32)


def linked(*objects: bytes, exports=("twice",), weights=()) -> bytes:
    out = io.BytesIO()
    link_wasm(objects, exports=exports, weights=weights, note=b"{}", out=out)
    return out.getvalue()


def test_same_objects_give_the_same_module():
    assert linked(CALLER, CALLEE) == linked(CALLER, CALLEE)


def test_undefined_symbols_are_listed():
    with pytest.raises(ArtifactError, match="a definition of callee, got none"):
        linked(CALLER)


def test_undefined_exports_are_refused():
    with pytest.raises(ArtifactError, match="a definition of export 'nobody', got none"):
        linked(CALLER, CALLEE, exports=("nobody",))


def test_two_definitions_are_refused():
    with pytest.raises(ArtifactError, match="one definition of 'callee', got another"):
        linked(CALLER, CALLEE, CALLEE)


def test_weights_beyond_the_memory_are_refused():
    blob = WeightBlob("w", 1 << 32, 64, lambda out: None)
    with pytest.raises(UnsupportedError, match="a memory below 4 GiB, got"):
        linked(CALLER, CALLEE, weights=[blob])


def test_other_files_are_refused():
    with pytest.raises(ArtifactError, match="a WebAssembly object, got another file"):
        read_wasm(b"\x7fELF" + bytes(60), "object 0")


@given(st.integers(0, len(CALLER) - 1))
def test_truncated_objects_are_refused_or_link_to_an_error(length: int):
    with pytest.raises(WeftError):
        linked(CALLER[:length], CALLEE)


@settings(max_examples=500)
@given(st.integers(8, len(CALLER) - 1), st.integers(1, 255))
def test_damaged_objects_never_crash_the_linker(position: int, flip: int):
    damaged = bytearray(CALLER)
    damaged[position] ^= flip
    with contextlib.suppress(WeftError):
        assert linked(bytes(damaged), CALLEE)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_numbers_read_back(value: int):
    for padded in (False, True):
        encoded = unsigned(value, padded=padded)
        assert Reader(encoded, "t").unsigned() == value
        assert not padded or len(encoded) == 5


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_numbers_read_back(value: int):
    for padded in (False, True):
        encoded = signed(value, padded=padded)
        assert Reader(encoded, "t").signed() == value
        assert not padded or len(encoded) == 5
