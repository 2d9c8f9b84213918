"""A profiled call -> a trace in Chrome's JSON, which Perfetto's page opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from weft.compiler.machine.python.spans import NAMES, CallProfile, KernelCall, Stretch, name_of

Event = dict[str, Any]

_PROCESS: Final = 1


def chrome_trace(
    prefix: str,
    call: CallProfile,
    kernel_calls: Sequence[KernelCall],
    memory: Sequence[Mapping[str, Any]],
    together: Sequence[str] = (),
) -> dict[str, Any]:
    """A slice for each kernel with its nodes, flops and bytes, the waiting in it as a slice within,
    and a counter of the arena's bytes in use. Times are microseconds since the call began.
    """
    stretches = call.stretches()
    slices = [event for each in stretches for event in _slices(each, kernel_calls, together)]
    counters = _memory_counters(call, stretches, kernel_calls, memory)
    return {
        "displayTimeUnit": "ns",
        "otherData": {"model": prefix, "nanoseconds": call.duration},
        "traceEvents": [*_names(prefix, call), *slices, *counters],
    }


def _names(prefix: str, call: CallProfile) -> Iterator[Event]:
    yield _event("M", 0, name="process_name", args={"name": prefix})
    for thread in call.threads:
        name = "caller" if thread == 0 else f"worker {thread}"
        yield _event("M", thread, name="thread_name", args={"name": name})
        yield _event("M", thread, name="thread_sort_index", args={"sort_index": thread})


def _event(phase: str, thread: int, **members: Any) -> Event:
    return {"ph": phase, "pid": _PROCESS, "tid": thread, **members}


def _slices(
    stretch: Stretch, kernel_calls: Sequence[KernelCall], together: Sequence[str]
) -> Iterator[Event]:
    category, args = "program", {}
    if stretch.number < 0:
        name = name_of(stretch.number, together)
    else:
        kernel = kernel_calls[stretch.number]
        name, category, args = kernel.kernel, "kernel", _arguments(stretch, kernel)
    yield _slice(stretch.thread, name, category, stretch.begin, stretch.end, args)
    for wait in stretch.waits:
        yield _slice(wait.thread, NAMES[wait.number], "wait", wait.begin, wait.end, {})


def _slice(
    thread: int, name: str, category: str, begin: int, end: int, args: dict[str, Any]
) -> Event:
    times = {"ts": begin / 1e3, "dur": (end - begin) / 1e3}
    return _event("X", thread, name=name, cat=category, **times, args=args)


def _arguments(stretch: Stretch, kernel: KernelCall) -> dict[str, Any]:
    """What Perfetto shows of a kernel; work only where all of the run is in the slice."""
    args: dict[str, Any] = {
        "nodes": ", ".join(kernel.nodes),
        "operators": kernel.operator,
        "call": kernel.number,
    }
    work = {"flops": kernel.flops, "bytes": kernel.bytes}
    if not stretch.is_run:
        return args | {"part of": "a loop of another thread"}
    rates = {
        f"G{name[0].upper()}/s": round(count / max(1, stretch.end - stretch.begin), 3)
        for name, count in work.items()
        if count is not None
    }
    return args | work | rates


def _memory_counters(
    call: CallProfile,
    stretches: Sequence[Stretch],
    kernel_calls: Sequence[KernelCall],
    memory: Sequence[Mapping[str, Any]],
) -> Iterator[Event]:
    """The bytes of the arena in use, where a kernel begins that changes them, and 0 at the end."""
    before = None
    for stretch in sorted(stretches, key=lambda each: each.begin):
        step = kernel_calls[stretch.number].step if stretch.is_run else None
        if step is None:
            continue
        used = sum(each["bytes"] for each in memory if each["first"] <= step <= each["last"])
        if used != before:
            yield _counter(stretch.begin, used)
        before = used
    if before is not None:
        yield _counter(call.duration, 0)


def _counter(time: int, used: int) -> Event:
    return _event("C", 0, name="memory of the arena", ts=time / 1e3, args={"bytes": used})
