"""Runs cases in child processes, so that a crash, a hang or a lack of memory ends a child alone."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from tests.guard.cases import Case

MEMORY = 6 << 30
"""Bytes of address space that a child has."""

HANG = 60.0
"""Seconds without news after which a child hangs."""

CASES_PER_CHILD = 100


@dataclass(frozen=True)
class Finding:
    """What went wrong, and in which case."""

    number: int
    title: str
    kind: str
    text: str
    last: str

    def __str__(self) -> str:
        return f"{self.title}: {self.kind}: {self.text}\n    {self.last}"


@dataclass(frozen=True)
class Report:
    """What a case came to: how many calls of each outcome, and perhaps a finding."""

    number: int
    operators: str
    outcomes: Counter[str]
    finding: Finding | None


def run_case(case: Case, note: Callable[[str], None]) -> Report:
    """Runs a case in this process."""
    outcomes: Counter[str] = Counter()
    last = [""]

    def noted(text: str) -> None:
        last[0] = text
        note(text)

    try:
        for outcome in case.run(noted):
            outcomes[outcome] += 1
    except Exception as error:
        kind = type(error).__name__
        where = traceback.format_exc(limit=-1).splitlines()[1].strip()
        finding = Finding(case.number, case.title, kind, f"{error} ({where})", last[0])
        return Report(case.number, case.operators, outcomes, finding)
    return Report(case.number, case.operators, outcomes, None)


def run_cases(cases: Iterator[Case], seconds: float) -> Generator[Report]:
    """Reports of the cases, in order, until the time is over."""
    end = time.monotonic() + seconds
    case = next(cases, None)
    while case is not None and time.monotonic() < end:
        batch = [case, *(each for each, _ in zip(cases, range(CASES_PER_CHILD - 1), strict=False))]
        case = next(cases, None)
        while batch and time.monotonic() < end:
            for report in _run_batch(batch, end):
                batch = [each for each in batch if each.number != report.number]
                yield report


def _run_batch(batch: list[Case], end: float) -> Generator[Report]:
    """Reports of cases out of one child, up to the one that ends it."""
    reading, writing = os.pipe()
    child = os.fork()
    os.setpgid(child, child)  # the same in both, for neither knows who comes first
    if child == 0:
        os.close(reading)
        _serve(batch, writing)
    os.close(writing)
    try:
        yield from _reports(child, reading, batch, end)
    finally:
        os.close(reading)
        os.killpg(child, signal.SIGKILL)  # with the emulators that it has started
        os.waitpid(child, 0)


def _serve(batch: list[Case], writing: int) -> None:
    """Runs cases in a child, which tells what it does next."""
    faulthandler.disable()  # pytest has it on; what a signal ended is told by the parent
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(writing, "wb") as pipe:

        def tell(message: object) -> None:
            data = pickle.dumps(message)
            pipe.write(len(data).to_bytes(4, "little") + data)
            pipe.flush()

        for case in batch:
            tell((case.number, "starting"))
            tell(run_case(case, lambda text, case=case: tell((case.number, text))))
        tell(None)
    os._exit(0)


def _reports(child: int, reading: int, batch: list[Case], end: float) -> Generator[Report]:
    cases = {case.number: case for case in batch}
    last = (batch[0].number, "starting a process")
    while True:
        message = _receive(reading, min(HANG, max(1.0, end + HANG - time.monotonic())))
        if message is None:
            return
        if isinstance(message, Report):
            yield message
            if time.monotonic() > end:
                return
        elif isinstance(message, tuple):
            last = message
        else:
            case, text = cases[last[0]], last[1]
            kind = str(message)
            finding = Finding(case.number, case.title, kind, _how(child, kind), text)
            yield Report(case.number, case.operators, Counter(), finding)
            return


def _how(child: int, kind: str) -> str:
    """By which signal a process ended that said nothing more."""
    if kind == "hang":
        return f"no news for {HANG} s"
    status = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert status is not None, "a child that says nothing more has ended"
    return f"status {status.si_status}, as of {signal.Signals(status.si_status).name}"


def _receive(reading: int, patience: float) -> object:
    """A message, or `hang` or `crash` where none comes."""
    head = _read(reading, 4, patience)
    if not isinstance(head, bytes):
        return head
    body = _read(reading, int.from_bytes(head, "little"), patience)
    return pickle.loads(body) if isinstance(body, bytes) else body


def _read(reading: int, size: int, patience: float) -> bytes | str:
    data = b""
    while len(data) < size:
        ready, _, _ = select.select([reading], [], [], patience)
        if not ready:
            return "hang"
        more = os.read(reading, size - len(data))
        if not more:
            return "crash"
        data += more
    return data
