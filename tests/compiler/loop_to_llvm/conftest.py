"""Models with the run time in them, shared by its tests."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.compiler.loop_to_llvm.runtime.runtime_library import (
    HOST_SOURCE,
    Library,
    emitted_program,
    loaded_library,
    runtime_object,
)
from weft.compiler.loop_to_llvm.runtime import Counts
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.bindings.header import header
from weft.compiler.machine.codegen.jit import load_objects


@pytest.fixture(scope="session")
def emitted() -> Library:
    """The run time with a program of LLVM IR, loaded into this process."""
    return loaded_library(load_objects([runtime_object(Counts(1, 1, 1)), emitted_program()]))


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The run time with a program and a host in C."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler as cc")
    folder = tmp_path_factory.mktemp("hosted")
    (folder / "runtime.o").write_bytes(runtime_object(Counts(2, 1, 1)))
    floats = TensorSpec("x", "float32", ("n",))
    signature = Signature((floats, replace(floats, name="y")), (floats,), ("n",))
    (folder / "m.h").write_text(header("m", signature))
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{folder}"]
    command += ["-o", str(folder / "m.so"), str(HOST_SOURCE), str(folder / "runtime.o"), "-pthread"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "m.so"))

    def function(name: str, result: object, operands: list[object]) -> Callable[..., object]:
        found = library[name]
        found.restype, found.argtypes = result, operands
        return found

    return Library(function)
