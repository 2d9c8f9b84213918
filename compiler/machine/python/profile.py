"""Where the time of calls went: what each thread did and when, and by kernel, operator and node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Any

from msgspec import Struct

from weft.compiler.machine.artifact.dims import size_of
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.python.chrome_trace import chrome_trace
from weft.compiler.machine.python.spans import CallProfile, KernelCall, Span, Stretch, name_of


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
    numbers for sizes, and `together` names what the program does with other ranks.
    """

    prefix: str
    kernel_calls: tuple[KernelCall, ...]
    memory: tuple[Mapping[str, Any], ...]
    calls: tuple[CallProfile, ...]
    together: tuple[str, ...] = ()

    @property
    def median(self) -> CallProfile:
        """The call of median duration."""
        middle = median_low(call.duration for call in self.calls)
        return next(call for call in self.calls if call.duration == middle)

    def name(self, span: Span) -> str:
        """The kernel of a span, or what else it is."""
        kernel = self.kernel_call(span)
        return name_of(span.number, self.together) if kernel is None else kernel.kernel

    def kernel_call(self, span: Span) -> KernelCall | None:
        """The kernel's call that a span is of."""
        return self.kernel_calls[span.number] if span.number >= 0 else None

    def save_trace(self, path: str | Path) -> None:
        """Writes the median call in Chrome's JSON, which ui.perfetto.dev opens: a track for each
        thread, and the memory of the arena that is in use.
        """
        with replacing(Path(path)) as out:
            out.write(json.dumps(self.trace()).encode())

    def trace(self) -> dict[str, Any]:
        """The median call as an object of that JSON."""
        parts = self.kernel_calls, self.memory, self.together
        return chrome_trace(self.prefix, self.median, *parts)

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
        groups: dict[str, list[Stretch]] = {}
        for each in self.median.stretches():
            kernel = self.kernel_calls[each.number] if each.number >= 0 else None
            key = name_of(each.number, self.together) if kernel is None else name(kernel)
            groups.setdefault(key, []).append(each)
        rows = [self._row(key, stretches) for key, stretches in groups.items()]
        return sorted(rows, key=lambda row: -row.wall)

    def _row(self, name: str, stretches: Sequence[Stretch]) -> Row:
        runs = [self.kernel_calls[each.number] for each in stretches if each.is_run]
        return Row(
            name,
            len(runs),
            _union((each.begin, each.end) for each in stretches),
            sum(each.busy for each in stretches),
            _total(call.flops for call in runs),
            _total(call.bytes for call in runs),
        )


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
