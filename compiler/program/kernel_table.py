"""The kernels of a module by name, while a pass makes variants of them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from dialects.loop.program import CallOp, KernelOp, ProgramOp


class KernelTable:
    """Kernels by name; new ones are put in front of the program. Equal kernels have one name."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}

    def __getitem__(self, name: str) -> KernelOp:
        return self.kernels[name]

    def keep(self, kernel: KernelOp) -> str:
        """Adds a kernel unless it is there; returns its name."""
        name = kernel.sym_name.data
        if name not in self.kernels:
            self.kernels[name] = kernel
            program = next(op for op in self.module.ops if isinstance(op, ProgramOp))
            self.module.body.block.insert_op_before(kernel, program)
        return name

    def drop_unused(self) -> None:
        """Removes the kernels that nothing calls any more."""
        called = {op.kernel for op in self.module.walk() if isinstance(op, CallOp)}
        for name in [name for name in self.kernels if name not in called]:
            self.module.body.block.erase_op(self.kernels.pop(name))
