"""Objects for the tests of the linker, made by LLVM from textual IR."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from compiler.machine.link import link_shared

X86_64 = "x86_64-unknown-linux-gnu"
AARCH64 = "aarch64-unknown-linux-gnu"


@cache
def emit(ir: str, triple: str = X86_64, *, reloc: str = "pic", code_model: str = "small") -> bytes:
    """The relocatable object of a module, by default as position-independent code."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(ir)
    module.verify()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(opt=2, reloc=reloc, codemodel=code_model)
    return machine.emit_object(module)


def link_file(path: Path, *sources: str, triple: str = X86_64, **options: Any) -> Path:
    """Links modules of IR into a shared object at `path`."""
    options.setdefault("soname", path.name)
    with open(path, "wb") as out:
        link_shared([emit(source, triple) for source in sources], out=out, **options)
    return path


def load(path: Path) -> ctypes.CDLL:
    """The shared object, with all of its symbols bound at once."""
    return ctypes.CDLL(str(path))


ADD = """
define i32 @add(i32 %a, i32 %b) {
  %sum = add i32 %a, %b
  ret i32 %sum
}
"""
