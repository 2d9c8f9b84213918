"""Contexts where the system refuses to start threads."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support.small_models import dense_model, rows_of
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.link import link_shared

SHORT_OF_THREADS = f"""
target triple = "{host_target().triple}"
@left = internal global i64 -1
@name = internal constant [15 x i8] c"pthread_create\\00"
declare ptr @dlsym(ptr, ptr)
define void @allow(i64 %threads) {{
  store i64 %threads, ptr @left
  ret void
}}
define i32 @pthread_create(ptr %handle, ptr %how, ptr %start, ptr %argument) {{
  %left = load i64, ptr @left
  %none = icmp eq i64 %left, 0
  br i1 %none, label %refuse, label %create
refuse:
  ret i32 11
create:
  %less = sub i64 %left, 1
  store i64 %less, ptr @left
  %next = inttoptr i64 -1 to ptr
  %real = call ptr @dlsym(ptr %next, ptr @name)
  %status = call i32 %real(ptr %handle, ptr %how, ptr %start, ptr %argument)
  ret i32 %status
}}
"""
"""Stands before libc: a number of threads can be started, and no more."""

PROGRAM = """
import ctypes, sys, warnings
import numpy as np
import weft
path, x, y, threads = sys.argv[1:]
allow = ctypes.CDLL(None).allow
allow.argtypes, allow.restype = [ctypes.c_int64], None
rows = np.load(x)
weft.load(path, threads=1)(rows)  # whatever else starts threads
allow(int(threads))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    model = weft.load(path, threads=16)
allow(-1)
results = [model(rows)[0] for _ in range(20)]
assert all(each.tobytes() == results[0].tobytes() for each in results)
np.save(y, results[0])
print(*(f"{each.category.__name__}: {each.message}" for each in told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    weft.compile(dense_model("rows"), prefix="dense", cache=False).export(folder / "dense.so")
    code = compile_object(SHORT_OF_THREADS, host_target())
    with open(folder / "short.so", "wb") as out:
        link_shared([code], soname="short.so", exports=["pthread_create", "allow"], out=out)
    return folder


@pytest.mark.parametrize("threads", [0, 4])
def test_context_makes_do_with_the_threads_that_could_be_started(
    folder: Path, tmp_path: Path, threads: int
):
    """C side: a thread that cannot be had."""
    rows = rows_of(3000)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder / "dense.so", x, y, str(threads)],
        env=os.environ | {"LD_PRELOAD": str(folder / "short.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rule = f"dense create requires 16 threads, got {1 + threads}"
    assert done.stdout == f"RuntimeWarning: {rule}: pthread_create gave 11\n"
    (expected,) = weft.load(folder / "dense.so", threads=2)(rows)
    assert np.load(y).tobytes() == expected.tobytes()
