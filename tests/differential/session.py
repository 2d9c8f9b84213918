"""Programs by seed in a process of their own, so that a crash or hang of one is seen as such."""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tests.differential.families import families
from tests.differential.judge import Failure, Outcome, judge, modes_for
from tests.differential.program import Program
from tests.differential.writer import write_program

PATIENCE = 240.0
"""Seconds of computing in silence after which a program counts as hanging."""

WAITING = 10
"""Times as long a program may wait for a processor, or for itself."""


def program_of(seed: int) -> Program:
    """The program of a seed."""
    return write_program(seed, families)


def outcome_of(seed: int, modes: int) -> Outcome:
    """What running it in so many modes shows."""
    program = program_of(seed)
    return judge(program, modes_for(program, modes))


def outcomes(first: int, modes: int, until: float) -> Iterator[tuple[int, Outcome]]:
    """Outcomes of one seed after the other, until the clock says so."""
    seed = first
    while time.monotonic() < until:
        for number, outcome in _from_process(seed, modes, until):
            yield number, outcome
            seed = number
        seed += 1


def apart(function: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What a function gives in another process; an Exception where that crashes or hangs."""
    found = next(_messages(lambda send: send(function()), patience), None)
    return found if found is not None else RuntimeError("the process ended without an answer")


def _from_process(first: int, modes: int, until: float) -> Iterator[tuple[int, Outcome]]:
    """Outcomes from one process on, the last of which may be its end."""

    def work(send: Callable[[Any], None]) -> None:
        seed = first
        while time.monotonic() < until:
            send(outcome_of(seed, modes))
            seed += 1

    seed = first
    for outcome in _messages(work, PATIENCE):
        if isinstance(outcome, Exception):
            yield seed, Outcome([Failure(seed, "process", "crash", str(outcome))])
            return
        yield seed, outcome
        seed += 1


def _messages(work: Callable[[Callable[[Any], None]], None], patience: float) -> Iterator[Any]:
    """What a process that does the work sends; last an Exception where it does not end well."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    try:
        while _hears(reading, process, patience):
            message = _received(reading)
            if message is None:
                break
            yield message
        else:
            yield TimeoutError(f"a program computes for more than {patience:g} seconds")
            return
        cause = _cause(os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT))
        if cause:
            yield RuntimeError(f"the process ended by {cause}")
    finally:  # whoever listens may have heard enough
        os.close(reading)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _hears(reading: int, process: int, patience: float) -> bool:
    """Whether a message comes, or the end, before a process has computed for so many seconds."""
    start, before = time.monotonic(), _computed(process)
    while not select.select([reading], [], [], min(1.0, patience))[0]:
        waited = time.monotonic() - start
        if _computed(process) - before > patience or waited > WAITING * patience:
            return False
    return True


def _computed(process: int) -> float:
    """The seconds of a processor that a process has taken; where nobody says so, those that have
    passed.
    """
    facts = Path(f"/proc/{process}/stat")
    if not facts.exists():
        return time.monotonic()
    fields = facts.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cause(ended: os.waitid_result | None) -> str:
    """How a process ended; nothing where it ended well."""
    assert ended is not None, "it waits until the process has ended"
    if ended.si_code == os.CLD_EXITED:
        return f"exit code {ended.si_status}" if ended.si_status else ""
    return f"signal {signal.Signals(ended.si_status).name}"


def _work(work: Callable[[Callable[[Any], None]], None], writing: int) -> None:
    """The other process: does the work, sends what it finds, and ends."""
    faulthandler.enable()
    if hasattr(os, "sched_setaffinity"):  # one processor: kernels are compiled in this process
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    code = 1
    try:
        with os.fdopen(writing, "wb") as pipe:
            work(lambda message: _send(pipe, message))
        code = 0
    finally:
        os._exit(code)


def _send(pipe: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def _received(reading: int) -> Any:
    """The next message; None at the end."""
    head = _bytes(reading, 8)
    return pickle.loads(_bytes(reading, struct.unpack("<Q", head)[0])) if len(head) == 8 else None


def _bytes(reading: int, count: int) -> bytes:
    """So many bytes, or fewer at the end."""
    found = b""
    while len(found) < count and (more := os.read(reading, count - len(found))):
        found += more
    return found


def as_json(failure: Failure, program: Program) -> str:
    """A failure as a line of JSON."""
    return json.dumps({**vars(failure), "sizes": dict(failure.sizes), "program": program.text})
