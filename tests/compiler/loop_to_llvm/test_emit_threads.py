"""A program with parallel kernels under weft's own run time: the same bits for any number of
threads.
"""

import ctypes
import struct

import numpy as np
import pytest
from llvmlite import ir

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, parse_module
from tests.compiler.loop_to_llvm.runtime.runtime_library import define_run_time
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.loop_to_llvm.program.emit import emit_program
from weft.compiler.loop_to_llvm.runtime import Counts, Runtime, exported_symbols
from weft.compiler.loop_to_llvm.runtime.layout import CALL, OPTIONS
from weft.compiler.machine.codegen.jit import LoadedCode, load_objects
from weft.compiler.machine.codegen.object_code import compile_object
from weft.dialects.loop.program import KernelOp, ProgramOp

PROGRAM = """
loop.kernel @rows[n](%x: !loop.buffer<[n, 100], f32>, %y: !loop.buffer<[n, 100], f32>) {
  loop.for %i = 0 to n parallel {
    %t = loop.alloc scratch : !loop.buffer<[100], f32>
    loop.for %j = 0 to 100 vector(16) {
      %a = loop.load %x[%i, %j] : !loop.buffer<[n, 100], f32>
      %b = math.exp %a : f32
      loop.store %b, %t[%j] : !loop.buffer<[100], f32>
    }
    loop.for %j = 0 to 100 vector(16) {
      %a = loop.load %t[99 - %j] : !loop.buffer<[100], f32>
      loop.store %a, %y[%i, %j] : !loop.buffer<[n, 100], f32>
    }
  }
}
loop.program @main[n](%x: !loop.buffer<[n, 100], f32>, %y: !loop.buffer<[n, 100], f32>) inputs 1 {
  %t = loop.alloc workspace at 0 : !loop.buffer<[n, 100], f32>
  loop.call @rows[n](%x, %t) : !loop.buffer<[n, 100], f32>, !loop.buffer<[n, 100], f32>
  loop.call @rows[n](%t, %y) : !loop.buffer<[n, 100], f32>, !loop.buffer<[n, 100], f32>
}
"""


@pytest.fixture(scope="module")
def library() -> LoadedCode:
    runtime = ir.Module("runtime")
    runtime.triple = HOST.triple
    define_run_time(Runtime(runtime, HOST, "m"), Counts(1, 1, 1))
    texts = [str(runtime)]
    for op in parse_module(PROGRAM).ops:
        if isinstance(op, KernelOp):
            texts.append(emit_kernel(op, HOST, prefix="m"))
        elif isinstance(op, ProgramOp):
            texts.append(emit_program(op, HOST, prefix="m"))
    objects = [compile_object(text, HOST) for text in texts]
    return load_objects(objects, exported_symbols("m"))


def call(library: LoadedCode, threads: int, x: np.ndarray) -> np.ndarray:
    """One call of the program on a context with so many threads."""
    y, dims = np.zeros_like(x), np.array([len(x)], np.int64)
    pointer = ctypes.c_void_p
    create = ctypes.CFUNCTYPE(pointer, ctypes.c_char_p)(library.address("m_create"))
    run = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_char_p)(library.address("m_run"))
    destroy = ctypes.CFUNCTYPE(None, pointer)(library.address("m_destroy"))
    options = struct.pack("<QII", OPTIONS.size, threads, 0).ljust(OPTIONS.size, b"\0")
    context = create(options)
    assert context
    inputs, outputs = (np.array([array.ctypes.data], np.uint64) for array in (x, y))
    room = np.zeros(x.nbytes + 128, np.uint8)
    workspace = -(-room.ctypes.data // 64) * 64
    places = [array.ctypes.data for array in (inputs, outputs, dims)]
    arguments = struct.pack("<QQQQQQ", CALL.size, *places, workspace, x.nbytes + 64)
    for _ in range(20):
        assert run(context, arguments.ljust(CALL.size, b"\0")) == 0
    destroy(context)
    return y


def test_threads_do_not_change_a_bit(library):
    x = np.random.default_rng(0).normal(size=(257, 100)).astype(np.float32)
    alone = call(library, 1, x)
    np.testing.assert_allclose(alone, np.exp(np.exp(x)), rtol=1e-5)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(call(library, threads, x), alone)


def test_no_rows_are_no_work(library):
    assert call(library, 2, np.zeros((0, 100), np.float32)).shape == (0, 100)
