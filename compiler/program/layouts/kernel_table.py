"""The kernels of a module by name, while passes make variants of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import count

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Block

from weft.dialects.loop.ops import IfOp
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp

VARIANT = "~"
"""Stands in names of variants that do not have their own names yet."""


def branch_blocks(program: ProgramOp) -> Iterator[Block]:
    """The block of a program, and those of branches in it, which run once in a call at most."""
    waiting = [program.body.block]
    while waiting:
        block = waiting.pop()
        yield block
        for op in block.ops:
            if isinstance(op, IfOp):
                waiting += [each for region in op.regions for each in region.blocks]


def _calls(module: ModuleOp) -> Iterator[CallOp]:
    """The calls of all programs; kernels, which are most of a module, have none."""
    for program in module.ops:
        if isinstance(program, ProgramOp):
            yield from (op for op in program.walk() if isinstance(op, CallOp))


class KernelTable:
    """Kernels by name; variants of them are made once and put in front of the program."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.variants: dict[Hashable, str] = {}
        last = (int(name.partition(VARIANT)[2] or 0) for name in self.kernels)
        self.numbers = count(1 + max(last, default=0))

    def __getitem__(self, name: str) -> KernelOp:
        return self.kernels[name]

    def variant(self, key: Hashable, make: Callable[[], KernelOp]) -> str:
        """The name of the kernel of that key, which `make` gives where there is none yet."""
        if key not in self.variants:
            kernel = make()
            stem = kernel.sym_name.data.partition(VARIANT)[0]
            name = f"{stem}{VARIANT}{next(self.numbers)}"
            kernel.properties["sym_name"] = StringAttr(name)
            self.kernels[name] = kernel
            self.variants[key] = name
            program = next(op for op in self.module.ops if isinstance(op, ProgramOp))
            self.module.body.block.insert_op_before(kernel, program)
        return self.variants[key]

    def drop_unused(self) -> None:
        """Removes the kernels that nothing calls any more."""
        called = {op.kernel for op in _calls(self.module)}
        for name in [name for name in self.kernels if name not in called]:
            self.module.body.block.erase_op(self.kernels[name])
        self.kernels = {name: each for name, each in self.kernels.items() if name in called}


def name_variants(module: ModuleOp, canonicalize: Callable[[KernelOp], str]) -> None:
    """Names variants after their text, as `canonicalize` does; equal ones become one kernel."""
    names: dict[str, str] = {}
    known: dict[str, KernelOp] = {}
    for kernel in [op for op in module.ops if isinstance(op, KernelOp)]:
        name = kernel.sym_name.data
        stem, mark, _ = name.partition(VARIANT)
        if mark:
            first, _, digest = stem.rpartition("_")
            kernel.properties["sym_name"] = StringAttr(first if len(digest) == 8 else stem)
            shared = known.setdefault(canonicalize(kernel), kernel)
            names[name] = shared.sym_name.data
            if shared is not kernel:
                module.body.block.erase_op(kernel)
    for call in [op for op in _calls(module) if op.kernel in names]:
        call.properties["callee"] = SymbolRefAttr(names[call.kernel])
