"""Registers that hold tiles of matrices, which Linux lets a process use that asks: artifacts ask by
themselves, and say so where they are refused.
"""

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target.cpuid import STATE, TILE_STATE, needed_bits

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.skipif(not host_target().has_matrix_products(4), reason="needs AMX"),
]

ARCH_PRCTL, REQUEST_STATE = 158, 0x1023
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUALS, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001


def forbid_tiles() -> None:
    """Has the system refuse this process what artifacts ask for."""
    steps = [
        (LOAD, 0, 0, 0),  # the number of the call
        (EQUALS, 0, 3, ARCH_PRCTL),
        (LOAD, 0, 0, 16),  # its first argument
        (EQUALS, 0, 1, REQUEST_STATE),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0) == 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C program beside the library of a product of bytes."""
    folder = tmp_path_factory.mktemp("tiles")
    weight = numpy_helper.from_array(np.ones((64, 32), np.int8), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [32, 32])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    compiled = compile_model(model, options_of(model, prefix="product"))
    compiled.export(folder / "libproduct.so")
    compiled.export_form("example-c", folder / "libproduct.so")
    command = ["cc", "-std=c11", "product_example.c", "libproduct.so", "-Wl,-rpath,.", "-o", "host"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "host"


def run(program: Path, before: Callable[[], None] | None = None) -> tuple[int, str]:
    """The exit status and what the program says, after a call in its process."""
    command, folder = [str(program)], program.parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=before)
    return done.returncode, done.stdout + done.stderr


def test_the_registers_are_part_of_what_is_saved():
    assert needed_bits(["amx-tile"])[STATE] & TILE_STATE == TILE_STATE


def test_an_artifact_asks_for_the_registers(program: Path):
    status, said = run(program)
    assert status == 0, said
    assert "output 0[0] = 0" in said


def test_a_system_that_refuses_them_is_told(program: Path):
    status, said = run(program, forbid_tiles)
    assert status != 0
    assert "create requires a CPU with" in said
    assert "amx-int8" in said
