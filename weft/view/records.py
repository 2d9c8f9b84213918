"""What a page shows, as plain records: the JSON of `weft view --json`."""

from __future__ import annotations

from msgspec import Struct

from weft.compiler.driver.observing.kernel_texts import KernelTexts

Size = int | str
"""A number, or an expression over sizes that calls bring along."""


class Tensor(Struct, frozen=True):
    """An input or output by name."""

    name: str
    dtype: str
    dims: tuple[Size, ...]


class Value(Struct, frozen=True, array_like=True):
    """A value of the graph by name, and its type as text."""

    name: str
    type: str


class Region(Struct, frozen=True):
    """What an operator holds: arguments, operators by their numbers in `Build.nodes`, and the names
    of the values that it hands back.
    """

    arguments: tuple[Value, ...]
    nodes: tuple[int, ...]
    results: tuple[str, ...]


class Node(Struct, frozen=True, omit_defaults=True):
    """An operator: its name, results, the values that it reads, attributes as text, the node of the
    model or the line of the program that it comes from, and its regions.
    """

    op: str
    results: tuple[Value, ...] = ()
    operands: tuple[str, ...] = ()
    attributes: str = ""
    origin: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()


class Stage(Struct, frozen=True):
    """The graph behind a pass: which of `Build.graphs` it is, the pass's seconds, operators before
    and after, by how many each changed, and notes.
    """

    name: str
    graph: int
    seconds: float = 0.0
    before: int = 0
    after: int = 0
    changes: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class Apart(Struct, frozen=True, array_like=True):
    """Why the operator of a number in `Build.nodes` is not one kernel with what computes a value
    that it reads.
    """

    reader: int
    value: str
    reasons: tuple[str, ...]


class Call(Struct, frozen=True):
    """A call of a kernel: its position in the program, as buffers' lives have it, the nodes of the
    model or lines of the program that it computes, what it computes and moves, the operator of the
    optimised graph by its number, and the nanoseconds that the model of the CPU expects of one
    thread.
    """

    kernel: str
    position: int
    origin: tuple[str, ...]
    flops: Size
    bytes: Size
    node: int | None = None
    expected_ns: float | None = None


class InnerLoop(Struct, frozen=True):
    """An innermost loop of a kernel's assembly: its lines, the widest vectors in bits, instructions
    of an iteration, multiply-adds, loads and stores of vectors among them, and the fewest cycles
    that ports allow.
    """

    first: int
    last: int
    vector_bits: int
    instructions: int
    multiply_adds: int
    loads: int
    stores: int
    cycles: float


class Kernel(Struct, frozen=True):
    """A kernel: schedules that it got and that refused it, calls, what all of them compute and
    move, how it was made, its innermost loops, and how often registers are spilled and reloaded.
    """

    name: str
    schedules: tuple[str, ...]
    refused: tuple[str, ...]
    calls: int
    flops: Size
    bytes: Size
    texts: KernelTexts | None = None
    loops: tuple[InnerLoop, ...] = ()
    spills: int = 0


class Buffer(Struct, frozen=True):
    """A buffer of the arena from the first to the last position that needs it; whose memory it
    takes over, by name, where it is computed in place.
    """

    name: str
    offset: Size
    bytes: Size
    first: int
    last: int
    in_place_of: str | None = None


class Weight(Struct, frozen=True):
    """A weight as it is stored."""

    name: str
    bytes: int


class Memory(Struct, frozen=True):
    """The arena's bytes and buffers, the weights, and pairs of an input and the output that takes
    its memory.
    """

    workspace: Size
    buffers: tuple[Buffer, ...]
    weights: tuple[Weight, ...]
    donated: tuple[tuple[str, str], ...] = ()


class Bandwidth(Struct, frozen=True):
    """GB/s of a level of memory, measured."""

    level: str
    gbs: float


class Limits(Struct, frozen=True):
    """What the machine can do on so many threads, measured."""

    threads: int
    gflops: float
    bandwidths: tuple[Bandwidth, ...]


class Span(Struct, frozen=True, array_like=True):
    """What a thread did: a call by its number in `Build.calls`, or None, and the kernel or what
    else it was, in nanoseconds from the beginning of the model's call.
    """

    thread: int
    name: str
    call: int | None
    begin_ns: int
    end_ns: int


class Row(Struct, frozen=True):
    """A part of the median call by name: runs, and nanoseconds in which any thread was at it."""

    name: str
    runs: int
    ns: int


class Time(Struct, frozen=True):
    """Nanoseconds of several calls of the model; of the median one the spans, and what it is made
    of by kernel, operator and node of the model. `kernels_ns` are medians over all calls.
    """

    threads: int
    calls_ns: tuple[int, ...]
    median_ns: int
    spans: tuple[Span, ...]
    by_kernel: tuple[Row, ...]
    by_operator: tuple[Row, ...]
    by_node: tuple[Row, ...]
    kernels_ns: dict[str, float]


class Histogram(Struct, frozen=True):
    """A watched tensor: range and moments of its finite elements, how many are zero, NaN or
    infinite, the index of the first that is not finite, and counts between edges.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    zeros: int
    nans: int
    infinities: int
    first_not_finite: tuple[int, ...] | None
    least: float | None = None
    most: float | None = None
    mean: float | None = None
    deviation: float | None = None
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


class Build(Struct, frozen=True):
    """A compiled model: who it is; the graph behind each pass; calls, kernels and memory; and what
    was measured. What an artifact does not hold is empty, and `missing` says why, by the panel.
    """

    name: str
    file: str
    weft: str
    triple: str
    cpu: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    kernels: tuple[Kernel, ...]
    memory: Memory
    nodes: tuple[Node, ...] = ()
    graphs: tuple[Region, ...] = ()
    stages: tuple[Stage, ...] = ()
    apart: tuple[Apart, ...] = ()
    calls: tuple[Call, ...] = ()
    limits: Limits | None = None
    time: Time | None = None
    values: tuple[Histogram, ...] = ()
    missing: dict[str, str] = {}


class OutputDifference(Struct, frozen=True):
    """How far an output of two builds differs: at most, and as a share of its largest magnitude."""

    name: str
    absolute: float
    of_scale: float


class Parting(Struct, frozen=True):
    """The outputs of two builds for the same inputs, and the first value inside that differs, with
    its node, where both have a graph.
    """

    outputs: tuple[OutputDifference, ...]
    value: str | None = None
    node: str | None = None


class View(Struct, frozen=True):
    """What a page shows: one build, or two and how their outputs differ, where both could run."""

    version: int
    builds: tuple[Build, ...]
    parting: Parting | None = None
