"""What a compilation does around each pass: a record of it, verification, a text of the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import Final

from msgspec.structs import fields
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from weft.compiler.driver.options import Options
from weft.compiler.driver.session import Session
from weft.compiler.driver.verify_changes import ChangeVerifier
from weft.compiler.target.module_target import set_target
from weft.dialects.graph import CallOp, ControlOp, FusedOp, GraphOp
from weft.dialects.loop.program import KernelOp, ProgramOp
from weft.dialects.module_attributes import CodeOptions, set_code_options

_NOTED: Final = [each.name for each in fields(CodeOptions) if each.name != "schedules"]


def note_options(module: ModuleOp, options: Options) -> None:
    """Puts the target and the options that decide code on a module, for passes to read."""
    schedules = {each.kernel: each.steps for each in (*options.tuned, *options.schedule)}
    own = CodeOptions(**{name: getattr(options, name) for name in _NOTED}, schedules=schedules)
    set_target(module, options.target.exact() if options.strict_fp else options.target)
    set_code_options(module, own)


def running(
    session: Session, name: str, module: ModuleOp, notes: list[str]
) -> AbstractContextManager[None]:
    """Around the run of a pass, to whose `notes` it adds: records what it did, then verifies, shows
    and dumps the module as the session says.
    """
    if session.is_watched:
        return _watched(session, name, module, notes)
    return session.report.stage(name)


@contextmanager
def _watched(session: Session, name: str, module: ModuleOp, notes: list[str]) -> Generator[None]:
    with session.report.module_pass(name, module, partial(operators_of, module), notes):
        yield
    if session.verify_each:
        session.verifier = session.verifier or ChangeVerifier()
        session.verifier.verify(module)
    session.show(name, module)
    session.passes += 1
    session.dump(f"{session.passes:02}-{name}.mlir", module)


def operators_of(module: ModuleOp) -> Counter[str]:
    """How many operators of each name a graph has, groups and control flow among them, or how many
    kernels, and operations of programs, a lowered module has.
    """
    found = Counter[str]()
    for each in module.ops:
        if isinstance(each, KernelOp):
            found[each.name] += 1
        elif isinstance(each, ProgramOp):
            found.update(op.name for op in each.body.walk())
        else:
            found.update(op.name for op in each.walk() if _is_operator(type(op)))
    return found


@cache
def _is_operator(operation: type[Operation]) -> bool:
    """Kept by class: every pass is counted before and after, and xDSL's classes are slow to ask."""
    return issubclass(operation, GraphOp | CallOp | FusedOp | ControlOp)
