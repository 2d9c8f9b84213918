"""Calls of an executable -> their profile: a function in LLVM IR writes down the spans that the run
time tells, on whatever thread, without Python's lock.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Protocol

import numpy as np

from weft.compiler.abi.constants import SpanNumber
from weft.compiler.abi.structs import SPAN
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import LoadedCode, load_objects
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.python.profile import Profile, kernel_calls_of, memory_of
from weft.compiler.machine.python.spans import CallProfile, Span
from weft.dialects.errors import ArtifactError, OptionError
from weft.dialects.weights import Array

WARM_CALLS: Final = 100
WARM_SECONDS: Final = 0.3
"""What is called in front of a profile, whichever is less."""

WARM_CALLS_OF_RANKS: Final = 3
"""All ranks have to call as often."""

_RECORD: Final = "weft_python_record"
_WORDS: Final = SPAN.size // 8

_IR: Final = f"""
%recorder = type {{ i64, i64, ptr }} ; room for so many spans, spans so far, their memory
%span = type [{_WORDS} x i64]

define void @{_RECORD}(ptr %recorder, ptr %span) {{
entry:
  %room = load i64, ptr %recorder
  %count.at = getelementptr %recorder, ptr %recorder, i64 0, i32 1
  %number = atomicrmw add ptr %count.at, i64 1 monotonic
  %fits = icmp ult i64 %number, %room
  br i1 %fits, label %keep, label %leave
keep:
  %memory.at = getelementptr %recorder, ptr %recorder, i64 0, i32 2
  %memory = load ptr, ptr %memory.at
  %place = getelementptr %span, ptr %memory, i64 %number
  %copy = load %span, ptr %span
  store %span %copy, ptr %place
  br label %leave
leave:
  ret void
}}
"""

_DTYPE: Final = np.dtype(
    {
        "names": ["begin", "end", "thread", "number"],
        "formats": ["<i8", "<i8", "<u8", "<i4"],
        "offsets": [
            next(each.offset for each in SPAN.members if each.name == name)
            for name in ("begin", "end", "thread", "number")
        ],
        "itemsize": SPAN.size,
    }
)


class _Recorder(ctypes.Structure):
    _fields_ = (
        ("room", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
    )


class Profiled(Protocol):
    """A context of a model, by the functions of its run time."""

    @property
    def context(self) -> int: ...

    def address(self, name: str) -> int:
        """Where a function of the run-time ABI lies."""
        ...


@cache
def _recording_code() -> LoadedCode:
    target = host_target(calibrated=False)
    text = f'target triple = "{target.triple}"\n{_IR}'
    return load_objects([compile_object(text, target)], [_RECORD])


@contextmanager
def _recording(profiled: Profiled, prefix: str) -> Generator[_Recorder]:
    """The recorder that a context's calls meanwhile write to."""
    try:
        address = profiled.address("set_profile")
    except ArtifactError as error:
        rule = "requires an artifact with m_set_profile"
        raise OptionError(f"profile {rule}, got {prefix} of a weft that had none") from error
    pointers = [ctypes.c_void_p] * 3
    set_profile = ctypes.CFUNCTYPE(None, *pointers)(address)
    recorder = _Recorder()
    code = _recording_code()  # held here: another thread may have compiled it, too
    set_profile(profiled.context, code.address(_RECORD), ctypes.addressof(recorder))
    try:
        yield recorder
    finally:
        set_profile(profiled.context, None, None)


def record_profile(
    profiled: Profiled,
    prefix: str,
    metadata: Mapping[str, Any],
    symbols: Mapping[str, int],
    call: Callable[[], object],
    calls: int,
) -> Profile:
    """The profile of so many calls, which come after those that bring the clock and the caches up.
    Raises OptionError for less than one call, and for an artifact that is too old.
    """
    if calls < 1:
        raise OptionError(f"profile requires at least one call, got {calls}")
    described = _described(profiled, metadata)
    recorded: list[Array] = []
    together = described_communications(metadata)
    begin = time.monotonic()
    for _ in range(WARM_CALLS_OF_RANKS if together else WARM_CALLS):
        call()
        if not together and time.monotonic() - begin > WARM_SECONDS:
            break
    with _recording(profiled, prefix) as recorder:
        call()
        memory = np.empty(0, _DTYPE)
        while len(recorded) <= calls:
            recorder.count = 0
            call()
            if recorder.count > len(memory):
                memory = np.empty(2 * recorder.count + 1024, _DTYPE)
                recorder.room, recorder.memory = len(memory), memory.ctypes.data
            else:
                recorded.append(memory[: recorder.count].copy())
    threads: dict[int, int] = {}
    return Profile(
        prefix,
        kernel_calls_of(described["calls"], symbols),
        memory_of(described["memory"], symbols),
        tuple(_call_profile(each, threads) for each in recorded[1:]),
        together,
    )


def described_communications(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of what the program does together with other ranks, in its order."""
    return tuple(
        f"{each['operation']} for {each['node']}" if each["node"] else each["operation"]
        for each in metadata.get("mesh", {}).get("collectives", ())
    )


def _described(profiled: Profiled, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the metadata says of the level that runs."""
    if "levels" not in metadata:
        return metadata
    level = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(profiled.address("level"))
    return metadata["levels"][level(profiled.context)]


def _call_profile(spans: Array, threads: dict[int, int]) -> CallProfile:
    """The spans of one call; threads are numbered as they appear, the caller first."""
    whole = spans[spans["number"] == SpanNumber.CALL][-1]
    begin = int(whole["begin"])
    threads.setdefault(int(whole["thread"]), len(threads))
    inside = spans[spans["number"] != SpanNumber.CALL]
    made = (
        Span(
            threads.setdefault(int(each["thread"]), len(threads)),
            int(each["begin"]) - begin,
            int(each["end"]) - begin,
            int(each["number"]),
        )
        for each in inside[np.argsort(inside["begin"], kind="stable")]
    )
    return CallProfile(begin, int(whole["end"]), tuple(made))
