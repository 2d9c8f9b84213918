"""Where the time of calls went: what each thread did and when, and by kernel, operator and node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median_low
from typing import Any, Final, Self

from msgspec import Struct

from weft.compiler.abi.constants import SpanNumber
from weft.compiler.machine.artifact.dims import size_of

IDLE: Final = -4
"""The number of a span in which a thread does nothing for the call."""

NAMES: Final[Mapping[int, str]] = {
    SpanNumber.CALL: "call",
    SpanNumber.OTHER: "between kernels",
    SpanNumber.WAIT: "waiting",
    IDLE: "idle",
}
"""What spans are that have no kernel."""

_HASH: Final = re.compile(r"_[0-9a-f]{8}$")


class Span(Struct, frozen=True):
    """What a thread did from `begin` to `end`, in nanoseconds since its call began. The number is
    that of a `KernelCall`, or one of `NAMES`; thread 0 is the one that called.
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
        return _HASH.sub("", self.kernel)


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


class Row(Struct, frozen=True):
    """Kernels that go by one name in one call: how often they ran, the nanoseconds in which a
    thread was at them or waited for others in them, those of all threads added up, and the work.
    """

    name: str
    runs: int
    wall: int
    busy: int
    flops: int | None
    bytes: int | None


class Profile(Struct, frozen=True):
    """Several calls of a model on the same inputs. `memory` is the metadata's memory plan, with
    numbers for sizes.
    """

    prefix: str
    kernel_calls: tuple[KernelCall, ...]
    memory: tuple[Mapping[str, Any], ...]
    calls: tuple[CallProfile, ...]

    @property
    def median(self) -> CallProfile:
        """The call of median duration."""
        middle = median_low(call.duration for call in self.calls)
        return next(call for call in self.calls if call.duration == middle)

    def name(self, span: Span) -> str:
        """The kernel of a span, or what else it is."""
        kernel = self.kernel_call(span)
        return NAMES[span.number] if kernel is None else kernel.kernel

    def kernel_call(self, span: Span) -> KernelCall | None:
        """The kernel's call that a span is of."""
        return self.kernel_calls[span.number] if span.number >= 0 else None

    def by_kernel(self) -> list[Row]:
        """The median call by kernel, the longest first; what is no kernel is listed as well."""
        return self._rows(lambda call: call.kernel)

    def by_operator(self) -> list[Row]:
        """The same by what kernels compute."""
        return self._rows(lambda call: call.operator)

    def by_node(self) -> list[Row]:
        """The same by the nodes of the model that a kernel computes together."""
        return self._rows(lambda call: ", ".join(call.nodes) or call.kernel)

    def _rows(self, name: Callable[[KernelCall], str]) -> list[Row]:
        groups: dict[str, list[_Work]] = {}
        for work in _works(self.median):
            key = name(self.kernel_calls[work.number]) if work.number >= 0 else NAMES[work.number]
            groups.setdefault(key, []).append(work)
        rows = [self._row(key, works) for key, works in groups.items()]
        return sorted(rows, key=lambda row: -row.wall)

    def _row(self, name: str, works: Sequence[_Work]) -> Row:
        runs = [self.kernel_calls[each.number] for each in works if each.is_run]
        return Row(
            name,
            len(runs),
            _union((each.begin, each.end) for each in works),
            sum(each.busy for each in works),
            _total(call.flops for call in runs),
            _total(call.bytes for call in runs),
        )


class _Work(Struct):
    """A stretch of a thread at one thing, with the waiting in it; not a run of a kernel where it is
    a part of a loop of another thread's.
    """

    number: int
    begin: int
    end: int
    busy: int
    is_run: bool

    @classmethod
    def of(cls, span: Span, *, is_run: bool) -> Self:
        return cls(span.number, span.begin, span.end, span.end - span.begin, is_run)


def _works(call: CallProfile) -> list[_Work]:
    """The spans of a call, those of a kernel and the waiting in it as one."""
    found: list[_Work] = []
    for thread in call.threads:
        waits = False
        own: list[_Work] = []
        for span in call.timeline(thread):
            if span.number == IDLE:
                continue
            last = own[-1] if own and own[-1].end == span.begin else None
            if last is not None and (span.number == SpanNumber.WAIT or waits):
                last.end = span.end
                waits = span.number == SpanNumber.WAIT
                last.busy += 0 if waits else span.end - span.begin
            else:
                is_run = span.number >= 0 and last is not None
                own.append(_Work.of(span, is_run=is_run))
        found += own
    return found


def _union(intervals: Iterable[tuple[int, int]]) -> int:
    """How much the intervals cover."""
    covered, reached = 0, 0
    for begin, end in sorted(intervals):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def _total(numbers: Iterable[int | None]) -> int | None:
    listed = list(numbers)
    known = [each for each in listed if each is not None]
    return sum(known) if len(known) == len(listed) else None


def kernel_calls_of(
    calls: Sequence[Mapping[str, Any]], symbols: Mapping[str, int]
) -> tuple[KernelCall, ...]:
    """The calls that an artifact's metadata lists, for these sizes."""
    return tuple(
        KernelCall(
            number,
            call["kernel"],
            tuple(call["nodes"]),
            _size(call["flops"], symbols),
            _size(call["bytes"], symbols),
            call.get("step"),
        )
        for number, call in enumerate(calls)
    )


def memory_of(
    plan: Sequence[Mapping[str, Any]], symbols: Mapping[str, int]
) -> tuple[Mapping[str, Any], ...]:
    """The buffers of a memory plan whose place and size are known for these sizes."""
    sized = (
        {**each, **{key: _size(each[key], symbols) for key in ("offset", "bytes")}} for each in plan
    )
    return tuple(each for each in sized if None not in each.values())


def _size(dim: int | str, symbols: Mapping[str, int]) -> int | None:
    try:
        return size_of(dim)(symbols)
    except KeyError:  # a size that the call finds
        return None
