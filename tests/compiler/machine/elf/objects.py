"""Objects for the tests of the linker, made by LLVM from textual IR."""

import ctypes
import io
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from weft.compiler.machine.elf.link import link_shared

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


CALLER = """
declare hidden i32 @callee(i32)
define i32 @twice(i32 %x) {
  %y = call i32 @callee(i32 %x)
  %z = call i32 @callee(i32 %y)
  ret i32 %z
}
define hidden i32 @step() { ret i32 3 }
"""
CALLEE = """
declare hidden i32 @step()
define hidden i32 @callee(i32 %x) {
  %s = call i32 @step()
  %y = add i32 %x, %s
  ret i32 %y
}
"""
TABLES = """
@table = internal constant [4 x double] [double 0.5, double 1.5, double 2.5, double 3.5]
@pointers = internal constant [3 x ptr] [ptr @one, ptr @two, ptr @three]
@counter = internal global i32 40
@zeros = internal global [4096 x i8] zeroinitializer, align 64
define internal i32 @one() { ret i32 111 }
define internal i32 @two() { ret i32 222 }
define internal i32 @three() { ret i32 333 }
define double @look(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  ret double %v
}
define i32 @dispatch(i64 %i) {
  %p = getelementptr ptr, ptr @pointers, i64 %i
  %f = load ptr, ptr %p
  %v = call i32 %f()
  ret i32 %v
}
define i32 @count() {
  %old = load i32, ptr @counter
  %new = add i32 %old, 1
  store i32 %new, ptr @counter
  ret i32 %new
}
define i8 @touch_zeros(i64 %i, i8 %v) {
  %p = getelementptr i8, ptr @zeros, i64 %i
  %old = load i8, ptr %p
  store i8 %v, ptr %p
  ret i8 %old
}
define i32 @classify(i32 %x) {
  switch i32 %x, label %rest [ i32 0, label %a i32 1, label %b i32 2, label %c i32 3, label %d
    i32 4, label %e ]
a: %ra = call i32 @one()
   ret i32 %ra
b: %rb = call i32 @count()
   ret i32 %rb
c: ret i32 7
d: %rd = call i32 @two()
   ret i32 %rd
e: ret i32 -9
rest: ret i32 0
}
define <4 x float> @scale(<4 x float> %x) {
  %y = fmul <4 x float> %x, <float 1.5, float 2.5, float 3.5, float 4.5>
  ret <4 x float> %y
}
"""
ADD = """
define i32 @add(i32 %a, i32 %b) {
  %sum = add i32 %a, %b
  ret i32 %sum
}
"""


def linked_bytes(*sources: str, triple: str = X86_64, **options) -> bytes:
    out = io.BytesIO()
    objects = [emit(source, triple) for source in sources]
    link_shared(objects, **{"soname": "libtest.so", "exports": []} | options, out=out)
    return out.getvalue()
