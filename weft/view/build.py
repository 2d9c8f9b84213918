"""A compilation that was looked at, or an artifact's metadata -> what a page shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from weft.compiler.driver.options import Options
from weft.compiler.driver.report import Report
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.python.profile import Profile
from weft.compiler.program.call_time import call_time
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.dialects.loop.program import number_calls
from weft.view.assembly import innermost_loops, spills
from weft.view.observe import Observer
from weft.view.records import (
    Buffer,
    Build,
    Call,
    Kernel,
    Memory,
    Size,
    Stage,
    Tensor,
    Weight,
)

NO_GRAPH: Final = "an artifact holds no graph and no texts of kernels: view the model it is made of"


def build_of_metadata(metadata: Mapping[str, Any], file: str) -> Build:
    """What an artifact says of itself."""
    return Build(
        name=metadata.get("prefix", file),
        file=file,
        weft=metadata["weft"],
        triple=metadata["triple"],
        cpu=metadata["cpu"],
        inputs=_tensors(metadata["inputs"]),
        outputs=_tensors(metadata["outputs"]),
        kernels=tuple(_kernel(each) for each in metadata.get("kernels", ())),
        memory=_memory(metadata),
        calls=tuple(_call(each) for each in metadata.get("calls", ())),
        missing={"graph": NO_GRAPH, "kernel": NO_GRAPH},
    )


def build_of_compilation(
    compiled: Compiled, observer: Observer, report: Report, options: Options, file: str
) -> Build:
    """What a compilation showed and says of itself."""
    plain = build_of_metadata(compiled.metadata, file)
    return replace(
        plain,
        kernels=tuple(_with_texts(each, observer, options) for each in plain.kernels),
        nodes=tuple(observer.table.nodes),
        graphs=tuple(observer.table.graphs),
        stages=_stages(observer, report),
        apart=tuple(observer.apart),
        calls=_calls(plain.calls, observer, options),
        missing={},
    )


def at_sizes(build: Build, recorded: Profile) -> Build:
    """The build with numbers in place of what depends on sizes that the recorded calls had."""
    calls = tuple(
        replace(
            call,
            flops=call.flops if known.flops is None else known.flops,
            bytes=call.bytes if known.bytes is None else known.bytes,
        )
        for call, known in zip(build.calls, recorded.kernel_calls, strict=True)
    )
    of_kernel = {
        each.name: [call for call in calls if call.kernel == each.name] for each in build.kernels
    }
    kernels = tuple(
        replace(
            kernel,
            flops=_total(kernel.flops, [call.flops for call in of_kernel[kernel.name]]),
            bytes=_total(kernel.bytes, [call.bytes for call in of_kernel[kernel.name]]),
        )
        for kernel in build.kernels
    )
    buffers = _buffers(recorded.memory)
    workspace: Size = build.memory.workspace
    if isinstance(workspace, str) and len(buffers) == len(build.memory.buffers):
        ends = [int(each.offset) + int(each.bytes) for each in buffers]
        workspace = max(ends, default=0)
    memory = replace(build.memory, buffers=buffers, workspace=workspace)
    return replace(build, calls=calls, kernels=kernels, memory=memory)


def _total(symbolic: Size, sizes: Sequence[Size]) -> Size:
    numbers = [each for each in sizes if isinstance(each, int)]
    return sum(numbers) if len(numbers) == len(sizes) else symbolic


def _tensors(described: Sequence[Mapping[str, Any]]) -> tuple[Tensor, ...]:
    return tuple(Tensor(each["name"], each["dtype"], tuple(each["dims"])) for each in described)


def _kernel(described: Mapping[str, Any]) -> Kernel:
    schedules, refused = described["schedules"], described.get("refused", ())
    counts = described["calls"], described["flops"], described["bytes"]
    return Kernel(described["name"], tuple(schedules), tuple(refused), *counts)


def _with_texts(kernel: Kernel, observer: Observer, options: Options) -> Kernel:
    texts = observer.kernels.get(kernel.name)
    if texts is None:
        return kernel
    loops = innermost_loops(texts.assembly, options.target.cost)
    return replace(kernel, texts=texts, loops=loops, spills=spills(texts.assembly))


def _stages(observer: Observer, report: Report) -> tuple[Stage, ...]:
    """The graph that was imported, and that behind each pass."""
    left = list(report.passes)
    found: list[Stage] = []
    for name, graph in observer.graphs:
        record = next((each for each in left if each.name == name), None)
        if record is None:
            found.append(Stage(name, graph))
            continue
        left.remove(record)
        counts = record.seconds, record.before, record.after, record.changes, record.notes
        found.append(Stage(name, graph, *counts))
    return tuple(found)


def _call(described: Mapping[str, Any]) -> Call:
    """A call as the metadata lists it; what a bucket's program does has no position."""
    work = described["flops"], described["bytes"]
    return Call(described["kernel"], described.get("step", 0), tuple(described["nodes"]), *work)


def _calls(listed: Sequence[Call], observer: Observer, options: Options) -> tuple[Call, ...]:
    """The calls of the program, with the operators that they come from and what is expected."""
    program, module = observer.program, observer.module
    assert program is not None, "a compilation ends with a program"
    assert module is not None, "which is in a module"
    expected = call_time(kernels_of(module), options.target)
    calls = zip(number_calls([program]), listed, strict=True)
    return tuple(
        replace(call, node=observer.node_of(op), expected_ns=expected(op)) for op, call in calls
    )


def _buffers(described: Sequence[Mapping[str, Any]]) -> tuple[Buffer, ...]:
    """The buffers of a plan; one takes over the bytes of another that its first operation ends."""
    named: list[dict[str, Any]] = [
        {**each, "name": each["name"] or f"buffer {n}"} for n, each in enumerate(described)
    ]
    ends = {(each["offset"], each["last"]): each["name"] for each in named if each["bytes"]}
    return tuple(
        Buffer(**each, in_place_of=None if name == each["name"] else name)
        for each in named
        for name in (ends.get((each["offset"], each["first"])),)
    )


def _memory(metadata: Mapping[str, Any]) -> Memory:
    inputs, outputs = metadata["inputs"], metadata["outputs"]
    donated = tuple(
        (inputs[source]["name"], outputs[result]["name"])
        for source, result in metadata.get("donated", ())
    )
    stored = {each["offset"]: each for each in metadata.get("weights", ())}
    weights = tuple(Weight(each["name"], each["bytes"]) for each in stored.values())
    buffers = _buffers(metadata.get("memory", ()))
    return Memory(metadata.get("workspace_bytes", 0), buffers, weights, donated)
