"""Kernels written as text, compiled for this machine, loaded and called with arrays."""

import ctypes
from collections.abc import Mapping

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.math import Math
from xdsl.parser import Parser

from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import load_objects
from weft.compiler.machine.codegen.object_code import compile_assembly, compile_object
from weft.compiler.target.target import Target
from weft.dialects.loop import LOOP
from weft.dialects.loop.program import KernelOp

# Shares the iterations out one by one, the last first, so that a body which assumes an order fails.
PARALLEL_FOR = """
define hidden void @"weft.parallel_for"(ptr %ctx, i64 %count, i64 %grain, ptr %body, ptr %with) {
entry:
  %none = icmp sle i64 %count, 0
  br i1 %none, label %done, label %loop
loop:
  %end = phi i64 [ %count, %entry ], [ %begin, %loop ]
  %begin = sub i64 %end, 1
  call void %body(ptr %with, i64 %begin, i64 %end)
  %more = icmp sgt i64 %begin, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
HOST = host_target()


def parse_module(text: str) -> ModuleOp:
    """A module of loop-level text."""
    context = Context()
    for dialect in (Builtin, Arith, Math, LOOP):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def parse_kernel(text: str) -> KernelOp:
    """The only kernel of the text."""
    (kernel,) = parse_module(text).ops
    assert isinstance(kernel, KernelOp)
    return kernel


def assembly(text: str, target: Target = HOST) -> str:
    """The assembly of a kernel given as text."""
    return compile_assembly(emit_kernel(parse_kernel(text), target), target)


class CompiledKernel:
    """A kernel in this process; called with its sizes by name and its buffers in order."""

    def __init__(self, source: str | KernelOp, *, target: Target = HOST, strict_fp: bool = False):
        kernel = parse_kernel(source) if isinstance(source, str) else source
        self.llvm = emit_kernel(kernel, target, strict_fp=strict_fp, exported=True)
        objects = [compile_object(text, target) for text in (self.llvm, PARALLEL_FOR)]
        self.code = load_objects(objects)
        self.symbols = kernel.symbol_names
        kinds = [ctypes.c_void_p, *[ctypes.c_int64] * len(self.symbols)]
        kinds += [ctypes.c_void_p] * len(kernel.body.block.args)
        address = self.code.address(f"weft.{kernel.sym_name.data}")
        self.function = ctypes.CFUNCTYPE(None, *kinds)(address)

    def __call__(self, *arrays: np.ndarray, sizes: Mapping[str, int] | None = None) -> None:
        """Runs the kernel on the arrays' memory."""
        for array in arrays:
            assert array.flags.c_contiguous
        dims = [(sizes or {})[name] for name in self.symbols]
        self.function(None, *dims, *(array.ctypes.data for array in arrays))
