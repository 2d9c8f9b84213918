"""Python's signals during a call: what the contexts of this process ask now and then, in LLVM IR.

A signal's handler in Python runs only in the main thread, and only when the interpreter gets a
turn. So a call of the main thread that runs for long gives it one every so often; what a handler
raises, such as KeyboardInterrupt, is kept here until the call has ended.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import Final

POLL: Final = "weft_python_poll"

_INTERVAL: Final = 20_000_000
"""Nanoseconds between two turns: well below what a person notices, and seldom enough for threads
that contend for the interpreter's lock.
"""

_COARSE_CLOCK: Final = 6

SIGNALS_IR: Final = f"""
%signals = type {{ i64, i64, ptr, ptr, ptr }} ; main thread, next turn, what a handler raised

declare i64 @PyThread_get_thread_ident()
declare i32 @clock_gettime(i32, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)

define i32 @$poll(ptr %signals) {{
entry:
  %time = alloca [2 x i64], align 8
  %thread = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr %signals
  %is.main = icmp eq i64 %thread, %main
  br i1 %is.main, label %look, label %continue
look:
  %told = call i32 @clock_gettime(i32 {_COARSE_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  %next.at = getelementptr %signals, ptr %signals, i64 0, i32 1
  %next = load i64, ptr %next.at
  %early = icmp slt i64 %now, %next
  br i1 %early, label %continue, label %turn
turn:
  %later = add i64 %now, {_INTERVAL}
  store i64 %later, ptr %next.at
  %state = call i32 @PyGILState_Ensure()
  %failed = call i32 @PyErr_CheckSignals()
  %raised = icmp ne i32 %failed, 0
  br i1 %raised, label %keep, label %release
keep:
  %type.at = getelementptr %signals, ptr %signals, i64 0, i32 2
  %value.at = getelementptr %signals, ptr %signals, i64 0, i32 3
  %traceback.at = getelementptr %signals, ptr %signals, i64 0, i32 4
  call void @PyErr_Fetch(ptr %type.at, ptr %value.at, ptr %traceback.at)
  br label %release
release:
  call void @PyGILState_Release(i32 %state)
  ret i32 %failed
continue:
  ret i32 0
}}
"""


class _Signals(ctypes.Structure):
    _fields_ = (("main", ctypes.c_int64), ("next", ctypes.c_int64), ("raised", ctypes.c_void_p * 3))


@cache
def _signals() -> _Signals:
    """What the function is given: as long as the process lives, as contexts may."""
    signals = _Signals()

    def note_main_thread() -> None:
        signals.main = threading.main_thread().ident or 0

    note_main_thread()
    os.register_at_fork(after_in_child=note_main_thread)
    return signals


def signals_address() -> int:
    """The argument of the function."""
    return ctypes.addressof(_signals())


def raise_pending() -> None:
    """Raises what a handler raised during this thread's call, if that was why it ended."""
    signals = _signals()
    if threading.get_ident() != signals.main:
        return
    raised = list(signals.raised)
    signals.raised[:] = [None] * 3
    if raised[0] is not None:
        restore = ctypes.pythonapi.PyErr_Restore
        restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
        restore(*raised)
