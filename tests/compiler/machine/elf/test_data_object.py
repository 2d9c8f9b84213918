"""Objects of data are what LLVM makes of it."""

import ctypes

import pytest

from weft.compiler.loop_to_llvm.data import data_ir
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import load_objects
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.data_object import data_object
from weft.compiler.machine.elf.object_file import RelocatableObject, read_object
from weft.compiler.target import TARGETS
from weft.compiler.target.features import baseline

CONTENTS = {"m.first": b"one", "m.none": b"", "m.last": bytes(range(256)) * 3}


def described(read: RelocatableObject) -> dict[str, object]:
    """What a linker asks of each symbol."""
    return {
        each.name: (
            read.sections[each.section].content[each.value :][: each.size],
            read.sections[each.section].alignment,
            read.sections[each.section].flags & (elf.SHF_ALLOC | elf.SHF_WRITE),
            each.value % 64,
            (each.binding, each.type, each.visibility, each.size),
        )
        for each in read.symbols
        if not each.is_local
    }


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64"])
def test_data_is_what_llvm_would_define(arch: str):
    target = baseline(next(each for each in TARGETS if each.arch == arch))
    theirs = compile_object(data_ir(target.triple, CONTENTS), target)
    ours = data_object(CONTENTS, theirs)
    read, expected = read_object(ours, "ours"), read_object(theirs, "theirs")
    assert described(read) == described(expected)
    assert (read.machine, read.flags) == (expected.machine, expected.flags)
    assert ".note.GNU-stack" in [each.name for each in read.sections]


def test_data_is_linked_and_loaded():
    target = host_target()
    code = f'target triple = "{target.triple}"\n@"m.first" = external hidden constant i8\n'
    code += 'define ptr @where() {\n  ret ptr @"m.first"\n}\n'
    using = compile_object(code, target)
    loaded = load_objects([using, data_object(CONTENTS, using)], ["where"])
    where = ctypes.CFUNCTYPE(ctypes.c_void_p)(loaded.address("where"))
    assert ctypes.string_at(where(), 3) == b"one"
