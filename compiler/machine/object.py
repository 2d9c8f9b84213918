"""LLVM IR text -> object file or assembly text."""

from __future__ import annotations

from compiler.machine.code_generator import parse, target_machine
from compiler.machine.optimize import optimize
from compiler.target.target import Target


def compile_object(ir_text: str, target: Target) -> bytes:
    """The relocatable object file of a module of LLVM IR."""
    module, machine = parse(ir_text, target), target_machine(target)
    optimize(module, machine)
    return machine.emit_object(module)


def compile_assembly(ir_text: str, target: Target) -> str:
    """The assembly text of what `compile_object` gives."""
    module, machine = parse(ir_text, target), target_machine(target)
    optimize(module, machine)
    return machine.emit_assembly(module)
