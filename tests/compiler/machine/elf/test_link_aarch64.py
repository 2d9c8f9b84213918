"""aarch64 code of the linker, run by an emulator.

A shared object whose entry point is patched to one of its functions stands for the program, so that
no C toolchain of that architecture is needed: the loader runs it like an executable.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.machine.artifact.foreign import make_executable
from tests.compiler.machine.elf.objects import AARCH64, link_file
from tests.compiler.machine.elf.test_link import IMPORTER, OWN, TABLES, WEIGHTED
from weft.compiler.machine.elf.link import WeightBlob

PREFIX = Path(os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu"))
LOADER = PREFIX / "lib" / "ld-linux-aarch64.so.1"
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")

# Each line: a function of the library, its arguments, and what it has to return, as C prints it.
CALLS = [
    ("double", "look", "i64 2", "2.5"),
    ("i32", "dispatch", "i64 1", "222"),
    ("i32", "classify", "i32 4", "-9"),
    ("i32", "count", "", "41"),
    ("i32", "count", "", "42"),
    ("i8", "touch_zeros", "i64 4095, i8 7", "0"),
    ("i8", "touch_zeros", "i64 4095, i8 7", "7"),
    ("i32", "in_a_thread", "", "4711"),
    ("i32", "count_own", "", "41"),
    ("i64", "touch_own", "i64 7, i64 5", "0"),
    ("i64", "touch_own", "i64 7, i64 6", "5"),
    ("i32", "swap_own_shared", "i32 8", "7"),
    ("i32", "count_in_a_thread", "", "48"),
    ("i32", "count_own", "", "42"),
    ("float", "weight", "i64 700", "700.0"),
    ("i8", "byte_through_pointer", "i64 3", "8"),
]


def declaration(kind: str, name: str, arguments: str) -> str:
    types = [argument.split()[0] for argument in arguments.split(", ") if argument]
    return f"declare {kind} @{name}({', '.join(types)})"


# By type: the instruction that widens a value for printf, and the type of the result.
WIDENED = {
    "i8": ("sext i8 {} to i64", "i64"),
    "i32": ("sext i32 {} to i64", "i64"),
    "i64": ("add i64 {}, 0", "i64"),
    "float": ("fpext float {} to double", "double"),
    "double": ("fadd double {}, 0.0", "double"),
}


def calling_program() -> str:
    """A function that calls everything and prints a line for each answer."""
    declared = {name: declaration(kind, name, args) for kind, name, args, _ in CALLS}
    steps: list[str] = []
    for number, (kind, name, arguments, _) in enumerate(CALLS):
        widen, wide = WIDENED[kind]
        steps.append(f"""
  %v{number} = call {kind} @{name}({arguments})
  %w{number} = {widen.format(f"%v{number}")}
  call i32 (ptr, ...) @printf(ptr @{wide}.line, {wide} %w{number})
""")
    return f"""
@i64.line = internal constant [5 x i8] c"%ld\\0A\\00"
@double.line = internal constant [6 x i8] c"%.1f\\0A\\00"
{chr(10).join(declared.values())}
declare i32 @printf(ptr, ...)
declare void @exit(i32)
define void @start() {{
{"".join(steps)}
  call void @exit(i32 0)
  unreachable
}}"""


@pytest.mark.skipif(EMULATOR is None, reason="qemu-aarch64 is not installed")
@pytest.mark.skipif(not LOADER.exists(), reason=f"no aarch64 C library in {PREFIX}")
def test_linked_aarch64_code_runs(tmp_path):
    values = np.arange(1000, dtype=np.float32)
    blobs = [
        WeightBlob("weights", values.nbytes, 64, lambda out: out.write(values.tobytes())),
        WeightBlob("more", 100, 1, lambda out: out.write(bytes(range(100)))),
    ]
    names = sorted({name for _, name, _, _ in CALLS})
    library, program = tmp_path / "libmodel.so", tmp_path / "program.so"
    sources = (TABLES, IMPORTER, OWN, WEIGHTED)
    link_file(library, *sources, triple=AARCH64, exports=names, weights=blobs, isa_level=None)
    needed = ["libmodel.so", "libc.so.6"]
    source = calling_program()
    link_file(program, source, triple=AARCH64, exports=["start"], needed=needed)
    make_executable(program)
    folders = f"{tmp_path}:{PREFIX / 'lib'}"
    arguments = [EMULATOR, LOADER, "--library-path", folders, program]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    wanted = "".join(f"{value}\n" for _, _, _, value in CALLS)
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")
