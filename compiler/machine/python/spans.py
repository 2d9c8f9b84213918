"""What is known of single calls: what each thread did, and when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, Self

from msgspec import Struct

from weft.compiler.abi.constants import SpanNumber

IDLE: Final = -4
"""The number of a span in which a thread does nothing for the call."""

NAMES: Final[Mapping[int, str]] = {
    SpanNumber.CALL: "call",
    SpanNumber.OTHER: "between kernels",
    SpanNumber.WAIT: "waiting",
    IDLE: "idle",
}
"""What spans are that have no kernel."""


def name_of(number: int, together: Sequence[str]) -> str:
    """What a span is that has no kernel; `together` are the names of what ranks do together."""
    return together[SpanNumber.RANKS - number] if number <= SpanNumber.RANKS else NAMES[number]


_HASH: Final = re.compile(r"_[0-9a-f]{8}$")


class Span(Struct, frozen=True):
    """What a thread did from `begin` to `end`, in nanoseconds since its call began. The number is
    that of a `KernelCall`, or one that has a `name_of`; thread 0 is the one that called.
    """

    thread: int
    begin: int
    end: int
    number: int


class KernelCall(Struct, frozen=True):
    """A place where the program calls a kernel: the nodes of the model that it computes there, what
    that takes, None where only a call knows, and its position in the memory plan.
    """

    number: int
    kernel: str
    nodes: tuple[str, ...]
    flops: int | None
    bytes: int | None
    step: int | None

    @property
    def operator(self) -> str:
        """The operators that the kernel computes, as its name has them."""
        return operator_of(self.kernel)


def operator_of(kernel: str) -> str:
    """The operators in a kernel's name."""
    return _HASH.sub("", kernel)


class CallProfile(Struct, frozen=True):
    """One call: its begin and end in nanoseconds of CLOCK_MONOTONIC, and its spans by begin."""

    begin: int
    end: int
    spans: tuple[Span, ...]

    @property
    def duration(self) -> int:
        """Nanoseconds of the whole."""
        return self.end - self.begin

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads that took part."""
        return tuple(sorted({span.thread for span in self.spans}))

    def timeline(self, thread: int) -> tuple[Span, ...]:
        """The spans of a thread with the gaps between them as idle ones: together the duration."""
        own = [span for span in self.spans if span.thread == thread]
        edges = [Span(thread, 0, 0, IDLE), *own, Span(thread, self.duration, self.duration, IDLE)]
        filled: list[Span] = []
        for before, after in pairwise(edges):
            if before.end < after.begin:
                filled.append(Span(thread, before.end, after.begin, IDLE))
            if after is not edges[-1]:
                filled.append(after)
        return tuple(filled)

    def stretches(self) -> list[Stretch]:
        """What the threads did, each kernel with the waiting in it as one."""
        return [each for thread in self.threads for each in _stretches(self.timeline(thread))]


class Stretch(Struct):
    """What a thread did from `begin` to `end`, and the spans in which it waited for others in
    that. A part of a loop of another thread's is no run of its kernel.
    """

    thread: int
    number: int
    begin: int
    end: int
    is_run: bool
    waits: list[Span]

    @classmethod
    def of(cls, span: Span, *, is_run: bool) -> Self:
        """One that begins with a span."""
        return cls(span.thread, span.number, span.begin, span.end, is_run, [])

    @property
    def ends_waiting(self) -> bool:
        """Whether the last of it was waiting."""
        return bool(self.waits) and self.waits[-1].end == self.end

    @property
    def busy(self) -> int:
        """Nanoseconds without the waiting."""
        return self.end - self.begin - sum(span.end - span.begin for span in self.waits)

    def add(self, span: Span) -> None:
        """Continues, or waits, with a span that follows."""
        self.end = span.end
        if span.number == SpanNumber.WAIT:
            self.waits.append(span)


def _stretches(timeline: Sequence[Span]) -> list[Stretch]:
    """Those of one thread, which go on behind its waiting."""
    found: list[Stretch] = []
    for span in timeline:
        if span.number == IDLE:
            continue
        last = found[-1] if found and found[-1].end == span.begin else None
        resumes = last is not None and last.ends_waiting
        if last is not None and (span.number == SpanNumber.WAIT or resumes):
            last.add(span)
        else:
            found.append(Stretch.of(span, is_run=span.number >= 0 and last is not None))
    return found
