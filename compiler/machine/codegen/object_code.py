"""LLVM IR text -> object file or assembly text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from weft.compiler.machine.codegen.code_generator import (
    CODEGEN_LEVEL,
    Level,
    create_target_machine,
    parse,
    target_machine,
)
from weft.compiler.machine.codegen.optimize import optimize
from weft.compiler.target.target import Target

_GLANCE = 0.1
"""Seconds within which a thread that waits hears that it is to stop."""


_SHORT = 1 << 14
"""Characters of IR with which LLVM is through before a thread that waits would have glanced."""

_CHANGED = ("alwaysinline", "alloca")
"""Words of IR of which one stands where there is something to inline or to turn into registers."""


def compile_object(ir_text: str, target: Target, level: Level = CODEGEN_LEVEL) -> bytes:
    """The relocatable object file of a module of LLVM IR."""
    if len(ir_text) < _SHORT:
        return _object(ir_text, target, level)
    return interruptible(partial(_object, ir_text, target, level))


def _object(ir_text: str, target: Target, level: Level) -> bytes:
    module, machine = parse(ir_text, target), target_machine(target, level)
    if level.cleans or any(each in ir_text for each in _CHANGED):
        optimize(module, machine, cleans=level.cleans)
    return machine.emit_object(module)


def interruptible(work: Callable[[], bytes]) -> bytes:
    """What `work` gives, in a thread of its own: signals and errors that are raised in this one end
    the wait, where LLVM itself hears nothing until it is done. The thread ends with it then.
    """
    given: list[bytes] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(work())
        except BaseException as error:
            raised.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_GLANCE)
    if raised:
        raise raised[0]
    return given[0]


def compile_assembly(
    ir_text: str, target: Target, level: Level = CODEGEN_LEVEL, *, comments: bool = False
) -> str:
    """The assembly text of what `compile_object` gives; with LLVM's comments on loops and spills,
    if asked for.
    """
    module, machine = parse(ir_text, target), target_machine(target, level)
    optimize(module, machine, cleans=level.cleans)
    if comments:
        machine = create_target_machine(target, level)
        machine.set_asm_verbosity(True)
    return machine.emit_assembly(module)
