"""What `weft-opt -t` prints instead of the module: the levels below the loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target as Output

from weft.compiler.driver.emit import assembly_text, llvm_text
from weft.compiler.loop.export_mlir import export_kernel
from weft.dialects.loop.program import KernelOp


@dataclass(frozen=True)
class LlvmOutput(Output):
    """The LLVM IR of each kernel and program as weft writes it, for the module's target."""

    name = "weft-llvm"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(llvm_text(module))


@dataclass(frozen=True)
class AssemblyOutput(Output):
    """The assembly of each kernel and program."""

    name = "weft-asm"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(assembly_text(module))


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
