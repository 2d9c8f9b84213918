"""What the linker refuses, and that damaged objects never crash it."""

import io

import numpy as np
import pytest

from tests.compiler.machine.elf.objects import (
    AARCH64,
    ADD,
    CALLEE,
    CALLER,
    TABLES,
    X86_64,
    emit,
    linked_bytes,
)
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.link import WeightBlob, link_shared
from weft.compiler.target.riscv import RISCV64
from weft.dialects.errors import ArtifactError, UnsupportedError


def test_missing_and_hidden_exports_are_refused():
    with pytest.raises(ArtifactError, match="a definition of export 'nowhere', got none"):
        linked_bytes(ADD, exports=["nowhere"])
    with pytest.raises(ArtifactError, match="a visible export, got hidden 'callee'"):
        linked_bytes(CALLER, CALLEE, exports=["callee"])


def test_objects_of_two_machines_are_refused():
    with pytest.raises(ArtifactError, match="objects of one machine, got x86_64, aarch64"):
        link_shared([emit(ADD), emit(ADD, AARCH64)], soname="l", exports=[], out=io.BytesIO())


def test_objects_of_two_calling_conventions_are_refused():
    soft = emit(ADD, "riscv64-unknown-linux-gnu")
    hard = compile_object(ADD, RISCV64)
    with pytest.raises(ArtifactError, match="objects of one ABI, got flags 0x0, 0x5"):
        link_shared([soft, hard], soname="l", exports=[], out=io.BytesIO())


def test_machine_without_own_linker_is_refused():
    with pytest.raises(UnsupportedError, match="one of x86_64, aarch64, riscv64, got"):
        linked_bytes(ADD, triple="powerpc64le-unknown-linux-gnu")


def test_relocations_of_the_large_code_model_are_refused_with_type_and_symbol():
    objects = [emit(TABLES, code_model="large")]
    with pytest.raises(UnsupportedError, match="got type 29 against '_GLOBAL_OFFSET_TABLE_' for"):
        link_shared(objects, soname="l.so", exports=[], out=io.BytesIO())


def test_code_that_depends_on_its_position_is_refused():
    objects = [emit(TABLES, reloc="static")]
    with pytest.raises(
        UnsupportedError, match=r"position-independent code, got type 11 against '\."
    ):
        link_shared(objects, soname="l.so", exports=[], out=io.BytesIO())


def test_pointers_in_read_only_sections_are_refused():
    source = "@pointer = constant ptr @one\ndefine i32 @one() { ret i32 1 }"
    with pytest.raises(UnsupportedError, match="writable sections, got R_X86_64_64 against 'one'"):
        link_shared([emit(source, reloc="static")], soname="l", exports=[], out=io.BytesIO())


def test_import_without_table_is_refused():
    source = """
    @stranger = external dso_local global i32
    define i32 @look() {
      %v = load i32, ptr @stranger
      ret i32 %v
    }"""
    with pytest.raises(UnsupportedError, match="through a table, got R_X86_64_PC32 .*'stranger'"):
        linked_bytes(source)


def test_thread_local_variables_of_others_are_refused():
    source = "@t = external thread_local global i32\ndefine ptr @address() { ret ptr @t }"
    with pytest.raises(UnsupportedError, match="variables of these objects .* against 't'"):
        linked_bytes(source)


def test_constructors_are_refused():
    source = (
        ADD
        + """
    @llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]
      [{ i32, ptr, ptr } { i32 65535, ptr @start, ptr null }]
    define internal void @start() { ret void }"""
    )
    with pytest.raises(UnsupportedError, match=r"got \.(ctors|init_array)"):
        linked_bytes(source)


def test_weights_out_of_relative_reach_are_refused():
    source = """
    @weights = external hidden constant i8
    define i8 @first() {
      %v = load i8, ptr @weights
      ret i8 %v
    }"""
    blobs = [
        WeightBlob("before", 3 << 30, 1, lambda out: None),
        WeightBlob("weights", 1, 1, lambda out: None),
    ]
    with pytest.raises(ArtifactError, match="'weights' within reach of R_X86_64_PC32"):
        linked_bytes(source, weights=blobs)


@pytest.mark.parametrize("triple", [X86_64, AARCH64])
def test_damaged_objects_are_refused_or_linked_but_never_crash(triple):
    whole = emit(TABLES, triple)
    random = np.random.default_rng(5)
    refused = 0
    for number in range(2000):
        damaged = bytearray(whole)
        if number % 2:
            del damaged[random.integers(len(whole)) :]
        else:
            damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        try:
            exports = ["look"]
            link_shared([bytes(damaged)], soname="l", exports=exports, out=io.BytesIO())
        except (ArtifactError, UnsupportedError):
            refused += 1
    assert refused > 1000
