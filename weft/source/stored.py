"""Compiled functions of other processes: what is kept of a program beside its code, and the program
that this makes of what the function has around it now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from weft.array.complex_numbers import Complex
from weft.compiler.driver.options import Options
from weft.compiler.machine.python.executable import Executable
from weft.dialects.weights import digest_of
from weft.eager.tensor import Tensor, array_of
from weft.source.program import Captured, Guard, Program, Result, Static
from weft.tracing.spec import options_for
from weft.tracing.survey.known import PURE_BUILTINS
from weft.tracing.survey.stored import StoredProgram, stored_program
from weft.tracing.survey.survey import Survey, is_plain
from weft.trees import Structure

_ALLOWED: Final = PURE_BUILTINS | {"print"}
"""A program prints when it runs, not when it is read."""


class ProgramMetadata(Struct, frozen=True):
    """What is kept of a program: of each array that it captures the number in the survey, the name,
    dtype and shape; the numbers and hashes of arrays that are part of its code; the form and the
    leaves of its result; and what became of its statements.
    """

    captured: tuple[tuple[int, str, np.dtype[Any], tuple[int, ...]], ...]
    constants: tuple[tuple[int, str], ...]
    form: Structure
    leaves: tuple[Static | Result, ...]
    notes: tuple[str, ...]


def chosen_options(function: Callable[..., Any], options: Mapping[str, Any]) -> Options:
    """Those of a compilation, without those of `jit` itself."""
    own = ("options", "threads", "trap_nan", "watch", "max_recursion")
    changes: Any = {name: value for name, value in options.items() if name not in own}
    return options_for(function, "source", options.get("options"), changes)


def entry_of(
    function: Callable[..., Any], options: Mapping[str, Any], kept: Sequence[Any], form: Structure
) -> StoredProgram | None:
    """The entry of a function for arguments: a Spec for each tensor among them. None for one that
    no key tells apart.
    """
    if options.get("trap_nan") or options.get("watch"):
        return None
    chosen = chosen_options(function, options)
    values = {"function": function, "arguments": tuple(kept), "form": form}
    return stored_program("jit", values, chosen, contents=False, allowed=_ALLOWED)


def found_program(stored: StoredProgram, threads: int | None) -> tuple[Program, Executable] | None:
    """The program of an entry, if it is there and arrays that are part of its code are the same."""
    metadata, survey = stored.find_metadata(), stored.survey
    if metadata is None:
        return None
    if any(_digest(survey.arrays[number]) != digest for number, digest in metadata.constants):
        return None
    compiled = stored.find_code(*map(str, metadata.constants))
    if compiled is None:
        return None
    observations = list(survey.observations.values())
    captured = tuple(
        Captured(name, observations[n].read, *rest) for n, name, *rest in metadata.captured
    )
    guards = tuple(Guard(each.name, each.read, each.value) for each in observations if each.guarded)
    keys = tuple(survey.observations)
    own = tuple(keys[number] for number, *_ in metadata.captured)
    program = Program(captured, guards, metadata.form, metadata.leaves, metadata.notes, (), own, ())
    return program, compiled.executable(threads)


def keep_program(stored: StoredProgram, program: Program, now: StoredProgram | None) -> None:
    """Keeps what is known of a program that was compiled under the key of an entry, unless it is
    more than can be kept: states of modules, objects as results, arrays from elsewhere.
    """
    survey = stored.survey
    numbers = {key: number for number, key in enumerate(survey.observations)}
    plain = all(is_plain(each.value) for each in program.leaves if isinstance(each, Static))
    if program.states or program.written or not plain or not numbers.keys() >= {*program.keys}:
        return
    captured = tuple(
        (numbers[key], each.name, each.dtype, each.shape)
        for key, each in zip(program.keys, program.captured, strict=True)
    )
    constants = constants_of(survey, program)
    metadata = ProgramMetadata(captured, constants, program.form, program.leaves, program.notes)
    stored.keep(metadata, now)


def constants_of(survey: Survey, program: Program) -> tuple[tuple[int, str], ...]:
    """The arrays that a program does not read anew in each call, by number, with their hashes:
    elements of them are part of its code.
    """
    observations = (survey.observations.get(key) for key in program.keys)
    held = [observation.value for observation in observations if observation is not None]
    alone = [each for each in held if id(each) not in survey.shared]
    read = {
        id(part)
        for each in alone
        for part in (each.parts if isinstance(each, Complex) else (each,))
    } - survey.shared
    arrays = enumerate(survey.arrays)
    return tuple((number, _digest(array)) for number, array in arrays if id(array) not in read)


def _digest(array: Any) -> str:
    return digest_of(array_of(array) if isinstance(array, Tensor) else array)
