"""A planned program -> its object. Programs that are alike but for the names of their kernels and
the types of their buffers have the same code, which a process emits and compiles once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xdsl.ir import SSAValue

from weft.compiler.loop_to_llvm.kernel import kernel_symbol
from weft.compiler.loop_to_llvm.program.calls import is_in_arena
from weft.compiler.loop_to_llvm.program.emit import workspace_bytes
from weft.compiler.loop_to_llvm.runtime.profile import name_symbol
from weft.compiler.loop_to_llvm.runtime.standalone import is_standalone
from weft.compiler.machine.codegen.code_generator import Level
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.rename_symbols import renamed
from weft.compiler.target.target import Target
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import BRIEF, WORKSPACE_BYTES, CallOp, ProgramOp, ViewOp

Likeness = tuple[object, ...]

_UNREAD: Final = {"input_names", "output_names", "model_name", BRIEF, WORKSPACE_BYTES}
"""Attributes of programs that do not change the code of calls of constant sizes, or are looked at
here.
"""

_LONGEST: Final = 64
"""Operations of programs of which others may be alike."""

_MOST: Final = 64

_CODE: Final[dict[Likeness, bytes]] = {}
"""Objects with numbers for the names of kernels, by all that they depend on."""

_SYMBOL: Final = re.compile(r'(?<=@")[^"]+')


def program_object(
    program: ProgramOp, emit: Callable[[], str], prefix: str, target: Target, quality: Level
) -> bytes:
    """The object of a program, which `emit` gives the LLVM IR of."""
    found = None if is_standalone(target) else likeness(program)
    if found is None:
        return compile_object(emit(), target, quality)
    alike, kernels = found
    numbers: dict[str, str] = {}
    for position, kernel in enumerate(kernels):
        numbers[kernel_symbol(prefix, kernel)] = f"<{position}>"
        numbers[name_symbol(prefix, kernel)] = f"<name {position}>"
    key = (alike, prefix, target, quality)
    code = _CODE.get(key)
    if code is None:
        text = _SYMBOL.sub(lambda name: numbers.get(name[0], name[0]), emit())
        if len(_CODE) >= _MOST:
            _CODE.clear()
        code = _CODE[key] = compile_object(text, target, quality)
    back = {number: name for name, number in numbers.items()}
    return renamed(code, lambda name: back.get(name, name))


def likeness(program: ProgramOp) -> tuple[Likeness, list[str]] | None:
    """All that the code of a program depends on but for the names of its kernels, and these, where
    it only calls kernels of constant sizes; None for others.
    """
    workspace, ops = workspace_bytes(program).constant, list(program.body.block.ops)
    known = program.attributes.keys() <= _UNREAD
    if program.symbols.data or not known or workspace is None or len(ops) > _LONGEST:
        return None
    numbers: dict[SSAValue, int] = {}
    for argument in program.body.block.args:
        numbers[argument] = len(numbers)
    kernels: dict[str, int] = {}
    steps: list[Likeness] = [(program.inputs.data, len(numbers), workspace)]
    for op in ops:
        match op:
            case AllocOp() if is_in_arena(op) and op.offset is not None:
                offset = op.offset.data[0].constant
                if offset is None:
                    return None
                steps.append(("buffer", offset))
            case ViewOp():
                steps.append(("view", numbers[op.source]))
            case CallOp() if not op.sizes.data:
                number = kernels.setdefault(op.kernel, len(kernels))
                steps.append((number, *(numbers[each] for each in op.arguments)))
            case _:
                return None
        for result in op.results:
            numbers[result] = len(numbers)
    return tuple(steps), list(kernels)
