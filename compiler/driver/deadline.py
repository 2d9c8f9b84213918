"""The time that a compilation may take: where it is over, the error is raised wherever it is."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from weft.dialects.budget import Budget

AGAIN: Final = 5.0
"""Seconds after which a thread that continues is told again: an exception that comes while an
object is finalised is dropped.
"""


@contextmanager
def deadline(budget: Budget) -> Generator[None]:
    """Raises BudgetError in the block once it has taken the budget's time.

    In the main thread a signal does it, which also ends matching of regular expressions and waiting
    for others. Where the program has uses of its own for SIGALRM, and in other threads, a thread
    does. A block within another has the other's time.
    """
    handler = signal.getsignal(signal.SIGALRM)
    if isinstance(handler, _Alarm):
        yield
    elif threading.current_thread() is not threading.main_thread() or handler != signal.SIG_DFL:
        with _watched(budget):
            yield
    else:
        alarm = _Alarm(budget)
        try:  # which a short time ends before the block begins
            signal.signal(signal.SIGALRM, alarm)
            signal.setitimer(signal.ITIMER_REAL, budget.timeout, AGAIN)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if alarm.rang:
            raise budget.expired()


class _Alarm:
    """What the signal does; whether it `rang`, which a block does not notice that continues."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.rang = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.rang = True
        raise self.budget.expired()


class _Expired(BaseException):
    """What is raised in another thread, which cannot be handed an object."""


@contextmanager
def _watched(budget: Budget) -> Generator[None]:
    """A thread waits, and raises in this one: again as long as that continues."""
    thread, done, expired = threading.get_ident(), threading.Event(), threading.Event()

    def watch() -> None:
        seconds = budget.timeout
        while not done.wait(seconds):
            expired.set()
            _raise_in(thread, _Expired)
            seconds = AGAIN

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except _Expired as error:
        raise budget.expired() from error
    finally:
        _end(watcher, done)
    if expired.is_set():
        raise budget.expired()


def _end(watcher: threading.Thread, done: threading.Event) -> None:
    """Ends a watcher, and waits for what it has raised in this thread. To take that back instead
    would leave CPython 3.11 for ever on its slow path, on which a profiler never gets ahead.
    """
    while True:
        try:
            done.set()
            watcher.join()
            for _ in range(2):
                pass  # the end of an iteration is where it arrives
            return
        except _Expired:
            continue


def _raise_in(thread: int, error_type: type[BaseException]) -> None:
    """Raises in another thread when it is next in Python."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    raise_in(ctypes.c_ulong(thread), ctypes.py_object(error_type))
