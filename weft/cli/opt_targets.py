"""What `weft-opt -t` prints instead of the module: the levels below the loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target as Output

from weft.compiler.loop.export_mlir import export_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.loop_to_llvm.program.emit import emit_program
from weft.compiler.machine.codegen.object_code import compile_assembly
from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target
from weft.dialects.errors import OptionError
from weft.dialects.loop.program import KernelOp, ProgramOp


@dataclass(frozen=True)
class LlvmOutput(Output):
    """The LLVM IR of each kernel and program as weft writes it: `-t 'weft-llvm{cpu=aarch64}'`."""

    name = "weft-llvm"
    cpu: str = "x86-64-v3"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for text in _llvm(module, find_target(self.cpu)):
            output.write(f"{text}\n")


@dataclass(frozen=True)
class AssemblyOutput(Output):
    """The assembly of each kernel and program."""

    name = "weft-asm"
    cpu: str = "x86-64-v3"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        target = find_target(self.cpu)
        for text in _llvm(module, target):
            output.write(f"{compile_assembly(text, target)}\n")


@dataclass(frozen=True)
class UpstreamOutput(Output):
    """Each kernel in generic upstream affine, scf, memref and arith, for `mlir-opt` to read."""

    name = "weft-mlir"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for op in module.ops:
            if isinstance(op, KernelOp):
                output.write(f"{export_kernel(op)}\n")


OUTPUTS: tuple[type[Output], ...] = (LlvmOutput, AssemblyOutput, UpstreamOutput)
"""What `weft-opt -t` offers beside xDSL's own."""


def find_target(cpu: str) -> Target:
    """The target of that name. Raises OptionError for an unknown one."""
    found = next((target for target in TARGETS if target.name == cpu), None)
    if found is None:
        names = ", ".join(target.name for target in TARGETS)
        raise OptionError(f"weft-opt requires a CPU out of {names}, got {cpu}")
    return found


def _llvm(module: ModuleOp, target: Target) -> Iterator[str]:
    for op in module.ops:
        if isinstance(op, KernelOp):
            yield emit_kernel(op, target)
        elif isinstance(op, ProgramOp):
            yield emit_program(op, target)
