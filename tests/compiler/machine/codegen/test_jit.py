"""Code in this process: lookup, what is missing, unloading; and the targets it is made for."""

import ctypes
import os

import pytest
from msgspec.structs import replace

from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import load_objects
from weft.compiler.machine.codegen.object_code import compile_assembly, compile_object
from weft.compiler.target import TARGETS
from weft.dialects.errors import ArtifactError, OptionError

HOST = host_target()
ANSWER = """
define i32 @"weft.answer"() {
  %value = call i32 @"weft.constant"()
  ret i32 %value
}
declare hidden i32 @"weft.constant"()
"""
CONSTANT = 'define hidden i32 @"weft.constant"() { ret i32 42 }'
FOREIGN = """
define i32 @"weft.answer"() {
  %value = call i32 @"weft_defined_nowhere"()
  ret i32 %value
}
declare i32 @"weft_defined_nowhere"()
"""


def objects(*texts: str) -> list[bytes]:
    return [compile_object(text, HOST) for text in texts]


def test_objects_call_each_other():
    code = load_objects(objects(ANSWER, CONSTANT))
    assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("weft.answer"))() == 42


def test_hidden_symbols_are_not_found():
    code = load_objects(objects(ANSWER, CONSTANT))
    with pytest.raises(ArtifactError, match=r"requires the symbol weft\.constant"):
        code.address("weft.constant")


def test_symbols_that_nothing_defines_are_refused_when_loading():
    with pytest.raises(ArtifactError, match="weft_defined_nowhere"):
        load_objects(objects(FOREIGN))


def test_versions_of_one_symbol_live_side_by_side():
    texts = [CONSTANT.replace("42", str(number)) for number in range(5)]
    loaded = [load_objects(objects(ANSWER, text)) for text in texts]
    calls = [ctypes.CFUNCTYPE(ctypes.c_int)(code.address("weft.answer")) for code in loaded]
    assert [call() for call in calls] == [0, 1, 2, 3, 4]


def test_loaded_code_takes_no_descriptors():
    before = os.listdir("/proc/self/fd")
    loaded = [load_objects(objects(ANSWER, CONSTANT)) for _ in range(20)]
    assert len({code.address("weft.answer") for code in loaded}) == 20
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def test_equal_text_compiles_to_equal_objects():
    assert compile_object(ANSWER, HOST) == compile_object(ANSWER, HOST)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_target_compiles(target):
    assert "weft.answer" in compile_assembly(ANSWER, target)


def test_unknown_triples_are_refused():
    with pytest.raises(OptionError, match="a triple that LLVM knows, got z80"):
        compile_object(ANSWER, replace(HOST, triple="z80-none-elf"))


def test_the_host_is_described():
    assert HOST.name == "native"
    assert HOST.vector_bytes in (16, 32, 64)
    assert 1 <= HOST.cores <= (os.cpu_count() or 1)
    assert 4096 <= HOST.l1_bytes < HOST.l2_bytes <= HOST.l3_bytes
    assert host_target(threads=3).cores == 3
    assert len({target.name for target in TARGETS}) == len(TARGETS)
