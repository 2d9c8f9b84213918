"""Programs: calls, sizes, the arena, views and weights, run against NumPy."""

import ctypes
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, PARALLEL_FOR, parse_module
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.loop_to_llvm.program.emit import emit_program, program_weights
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT
from weft.compiler.machine.codegen.jit import LoadedCode, load_objects
from weft.compiler.machine.codegen.object_code import compile_object
from weft.dialects.loop.program import KernelOp, ProgramOp

PROGRAM = """
loop.kernel @scale[n](%x: !loop.buffer<[n], f32>, %w: !loop.buffer<[1], f32>,
                      %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n vector(8) {
    %a = loop.load %x[%i] : !loop.buffer<[n], f32>
    %b = loop.load %w[0] : !loop.buffer<[1], f32>
    %c = arith.mulf %a, %b : f32
    loop.store %c, %y[%i] : !loop.buffer<[n], f32>
  }
}
loop.program @main[batch](%x: !loop.buffer<[batch, 3], f32>, %y: !loop.buffer<[batch, 3], f32>,
                          %z: !loop.buffer<[3 * batch], f32>) inputs 1 {
  %v = loop.view %x : !loop.buffer<[batch, 3], f32> to !loop.buffer<[3 * batch], f32>
  %w = loop.weight "factor" : !loop.buffer<[1], f32>
  %t = loop.alloc workspace at 64 : !loop.buffer<[3 * batch], f32>
  loop.call @scale[3 * batch](%v, %w, %t) : !loop.buffer<[3 * batch], f32>,
      !loop.buffer<[1], f32>, !loop.buffer<[3 * batch], f32>
  %u = loop.view %y : !loop.buffer<[batch, 3], f32> to !loop.buffer<[3 * batch], f32>
  %o = loop.weight "offset" : !loop.buffer<[1], f32>
  loop.call @scale[3 * batch](%t, %o, %u) : !loop.buffer<[3 * batch], f32>,
      !loop.buffer<[1], f32>, !loop.buffer<[3 * batch], f32>
  loop.call @scale[3 * batch](%t, %w, %z) : !loop.buffer<[3 * batch], f32>,
      !loop.buffer<[1], f32>, !loop.buffer<[3 * batch], f32>
}
"""

LOOP = """
loop.kernel @double(%x: !loop.buffer<[1], f32>) {
  %a = loop.load %x[0] : !loop.buffer<[1], f32>
  %b = arith.addf %a, %a : f32
  loop.store %b, %x[0] : !loop.buffer<[1], f32>
}
loop.kernel @copy(%x: !loop.buffer<[1], f32>, %y: !loop.buffer<[1], f32>) {
  %a = loop.load %x[0] : !loop.buffer<[1], f32>
  loop.store %a, %y[0] : !loop.buffer<[1], f32>
}
loop.program @main(%x: !loop.buffer<[1], f32>, %y: !loop.buffer<[1], f32>) inputs 1 {
  loop.call @copy(%x, %y) : !loop.buffer<[1], f32>, !loop.buffer<[1], f32>
  loop.while {
    %a = loop.load %y[0] : !loop.buffer<[1], f32>
    %w = loop.weight "limit" : !loop.buffer<[1], f32>
    %b = loop.load %w[0] : !loop.buffer<[1], f32>
    %c = arith.cmpf olt, %a, %b : f32
    loop.condition %c
  } do {
    %t = loop.alloc workspace at 0 : !loop.buffer<[1], f32>
    loop.call @double(%y) : !loop.buffer<[1], f32>
    loop.call @copy(%y, %t) : !loop.buffer<[1], f32>, !loop.buffer<[1], f32>
  }
  %a = loop.load %y[0] : !loop.buffer<[1], f32>
  %k = arith.constant 100.0 : f32
  %c = arith.cmpf ogt, %a, %k : f32
  loop.if %c { loop.call @double(%y) : !loop.buffer<[1], f32> }
}
"""


def load_program(module: ModuleOp) -> LoadedCode:
    """The program's functions and kernels in this process."""
    texts = [PARALLEL_FOR]
    for op in module.ops:
        if isinstance(op, KernelOp):
            texts.append(emit_kernel(op, HOST))
        elif isinstance(op, ProgramOp):
            texts.append(emit_program(op, HOST, alone=True).replace("define hidden", "define"))
    objects = [compile_object(text, HOST) for text in texts]
    return load_objects(objects, exports=["weft.program", "weft.workspace"])


def pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def run(
    code: LoadedCode,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    dims: Sequence[int] = (),
) -> int:
    """Calls the program with a context that holds nothing but weights; gives the arena's size."""
    sizes = np.array(dims, np.int64)
    workspace_size = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(
        code.address("weft.workspace")
    )
    needed = workspace_size(sizes.ctypes.data)
    workspace = np.zeros(needed + 64, np.uint8)
    context = np.zeros(CONTEXT.size // 8, np.uint64)
    table = pointers(weights)
    context[CONTEXT.fields["weights"].offset // 8] = ctypes.addressof(table)
    program = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)(code.address("weft.program"))
    status = program(
        context.ctypes.data,
        pointers(inputs),
        pointers(outputs),
        sizes.ctypes.data,
        workspace.ctypes.data,
    )
    assert status == 0
    assert not workspace[needed:].any()
    return needed


def test_a_program_runs_its_kernels_at_any_size():
    code = load_program(parse_module(PROGRAM))
    factor, offset = np.array([3], np.float32), np.array([0.5], np.float32)
    for batch in (0, 1, 5):
        x = np.arange(3 * batch, dtype=np.float32).reshape(batch, 3)
        y, z = np.zeros_like(x), np.zeros(3 * batch, np.float32)
        assert run(code, [x], [y, z], [factor, offset], [batch]) == 64 + 12 * batch
        np.testing.assert_array_equal(y, 1.5 * x)
        np.testing.assert_array_equal(z, 9 * x.ravel())


def test_weights_are_numbered_in_order_of_appearance():
    (program,) = [op for op in parse_module(PROGRAM).ops if isinstance(op, ProgramOp)]
    assert [key for key, _ in program_weights(program)] == ["factor", "offset"]


def test_programs_loop_and_branch_over_buffers():
    code = load_program(parse_module(LOOP))
    limit = np.array([50], np.float32)
    for start, end in ((3, 96), (200, 400), (60, 60)):
        x, y = np.array([start], np.float32), np.zeros(1, np.float32)
        assert run(code, [x], [y], [limit]) == 4
        assert y[0] == end
