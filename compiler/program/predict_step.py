"""program -> numbers: what a call takes on each rank of a mesh, by a model of calls and of a wire.

Ranks that differ in their stage alone are simulated, as all others do what these do: each goes
through its operations in order, computes calls, waits for messages until they are there, and for
collectives for as long as a ring would take. Those that were started go on meanwhile, one behind
the other, but ranks add up and copy themselves, when they wait for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from msgspec import Struct
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.program.call_time import bandwidth, call_bounds
from weft.compiler.program.memory.plan_memory import buffer_bytes, kernels_of
from weft.compiler.program.parallelize_calls import ThreadModel
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.compiler.target.wire import Wire, ring
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.mesh.attributes import STAGE, MeshAttr
from weft.dialects.loop.communication import (
    CommunicationOp,
    MessageOp,
    RankOp,
    SendOp,
    StartOp,
)
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dynamic import CopyOp, root
from weft.dialects.loop.ops import ForOp, IfOp, LoadOp, StoreOp, WhileOp
from weft.dialects.loop.program import (
    MESSAGES_BACK,
    CallOp,
    KernelOp,
    ProgramOp,
    WeightOp,
    output_ranks,
)
from weft.dialects.loop.types import buffer_type_of

CALLS: Final = 32
"""Behind each other. From the first half on ranks are in a steady state, up to the last call, in
which they wait for what is on its way.
"""

_NANO: Final = 1e-9


class RankTimes(Struct):
    """Seconds of all calls on one rank, by what it does, and what it sends."""

    computing: float = 0.0
    memory: float = 0.0
    latency: float = 0.0
    bytes: float = 0.0
    stages: float = 0.0
    sent: int = 0
    messages: int = 0

    @property
    def parts(self) -> dict[str, float]:
        """The seconds by what bounds them."""
        return {
            "arithmetic": self.computing,
            "memory": self.memory,
            "latency of the wire": self.latency,
            "bandwidth of the wire": self.bytes,
            "waiting for other stages": self.stages,
        }


class Prediction(Struct):
    """Seconds of the first call, and of each further one; and by stage what ranks do in one call,
    and the bytes of the weights that they read.
    """

    first: float
    step: float
    ranks: list[RankTimes]
    weights: list[int]


class Program(Struct, frozen=True):
    """What is predicted: a planned program and its kernels, on threads of a target."""

    program: ProgramOp
    kernels: dict[str, KernelOp]
    mesh: MeshAttr | None
    target: Target
    threads: int = 1
    results: Sequence[Sequence[int]] = ()
    """By output the stages that have it, and first the one that computes it; none for all."""
    one_way: bool = True
    scale: float = 1.0
    """How many times as long as the model of the CPU says calls take."""


def program_of(module: ModuleOp, mesh: MeshAttr | None, threads: int = 1) -> Program:
    """The program of a planned module for a mesh, with its kernels and target."""
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    one_way = MESSAGES_BACK not in program.attributes
    kernels, ranks = kernels_of(module), output_ranks(program)
    return Program(program, kernels, mesh, target_of(module), threads, ranks, one_way)


def predict_step(what: Program, wire: Wire) -> Prediction:
    """Raises UnsupportedError for sizes that vary, and loops whose iterations only a call knows."""
    stages = what.mesh.sizes.get(STAGE, 1) if what.mesh else 1
    ranks = [_Rank(what, number) for number in range(stages)]
    first, _ = _simulated(ranks, wire, 1)
    _, ends = _simulated(ranks, wire, CALLS)
    under_way = 1 + ranks[0].lookahead()
    window = max(1, CALLS // 2 // under_way) * under_way  # as many come at once as are under way
    step = max((each[-2] - each[-2 - window]) / window for each in ends)
    times = [_shared(rank.times, CALLS) for rank in ranks]
    return Prediction(first, step, times, [rank.weight_bytes() for rank in ranks])


def _shared(times: RankTimes, calls: int) -> RankTimes:
    """What one call has of all."""
    values = {name: getattr(times, name) / calls for name in RankTimes.__struct_fields__}
    return RankTimes(**{**values, "sent": times.sent // calls, "messages": times.messages // calls})


def _simulated(
    ranks: Sequence[_Rank], wire: Wire, calls: int
) -> tuple[float, Sequence[Sequence[float]]]:
    """When all ranks are done, and for each when it was with each call."""
    channels: dict[tuple[int, int], deque[float]] = {}
    running = [rank.run(wire, calls, channels) for rank in ranks]
    left = list(running)
    while left:
        before = sum(rank.steps for rank in ranks)
        left = [each for each in left if next(each, None) is not None]
        assert not left or sum(r.steps for r in ranks) > before, "messages have an order"
    return max(rank.time for rank in ranks), [rank.ends for rank in ranks]


class _Rank:
    """A rank of the simulation, and the operations that it comes to, in order."""

    def __init__(self, what: Program, stage: int):
        self.what, self.stage = what, stage
        self.known: dict[SSAValue, int] = {}
        self.bounds = call_bounds(what.kernels, what.target)
        self.operations = list(self._block(what.program.body.block, 1))
        self.begin()

    def begin(self) -> None:
        """Sets the clock to zero."""
        self.time, self.steps = 0.0, 0
        self.times, self.ends = RankTimes(), list[float]()
        self.brought: dict[SSAValue, float] = {}
        self.free: dict[int, float] = {}
        self.wire_free = 0.0

    def weight_bytes(self) -> int:
        """The bytes of the weights that the rank reads, each once."""
        found: dict[str, int] = {}
        for op, _ in self.operations:
            for value in op.operands:
                owner = root(value).owner
                if isinstance(owner, WeightOp):
                    found[owner.key.data] = _bytes(value)
        return sum(found.values())

    def _block(self, block: Block, times: int) -> Iterator[tuple[Operation, int]]:
        """Each operation that takes time, and how often it runs."""
        for op in block.ops:
            match op:
                case ForOp():
                    count = (op.upper - op.lower).ceildiv(op.step.data)
                    yield from self._block(op.body.block, times * _size(count))
                case IfOp():
                    chosen = self._chosen(op)
                    yield from self._block(chosen, times)
                case ConcurrentOp():
                    for branch in op.branches:
                        yield from self._block(branch.block, times)
                case WhileOp():
                    raise UnsupportedError("plan requires loops of known length, got loop.while")
                case CallOp() | CopyOp() | CommunicationOp() | MessageOp():
                    yield op, times
                case _:
                    self._scalar(op)

    def _scalar(self, op: Operation) -> None:
        """Follows the index of the rank, by which branches are chosen."""
        mesh = self.what.mesh
        match op:
            case RankOp():
                stride = mesh.strides.get(STAGE) if mesh else None
                own = [axis for axis in op.axes if axis[1] == stride]
                self.known[op.result] = self.stage if len(own) == len(op.axes) else 0
            case StoreOp() if op.value in self.known:
                self.known[op.buffer] = self.known[op.value]
            case LoadOp() if op.buffer in self.known:
                self.known[op.result] = self.known[op.buffer]
            case _:
                pass

    def _chosen(self, op: IfOp) -> Block:
        """The branch of the rank, or the longer one where values choose."""
        test = op.condition.owner
        if isinstance(test, arith.CmpiOp) and test.lhs in self.known:
            number = test.rhs.owner
            if isinstance(number, arith.ConstantOp) and isinstance(number.value, IntegerAttr):
                same = self.known[test.lhs] == number.value.value.data
                return (op.then if same else op.otherwise).block
        blocks = [op.then.block, op.otherwise.block]
        if any(isinstance(each, CommunicationOp | MessageOp) for each in op.walk()):
            raise UnsupportedError("plan requires communication outside of branches, got some")
        return max(blocks, key=lambda block: sum(map(self._seconds, self._block(block, 1))))

    def _seconds(self, each: tuple[Operation, int]) -> float:
        return sum(self._costs(*each))

    def run(
        self, wire: Wire, calls: int, channels: dict[tuple[int, int], deque[float]]
    ) -> Generator[bool]:
        """Goes through calls; stops where a message is not sent yet."""
        self.begin()
        lookahead = self.lookahead() if calls > 1 else 0
        for call in range(calls):
            for op, times in self.operations:
                if isinstance(op, MessageOp) and not isinstance(op, SendOp):
                    yield from self._receive(op.peer.value.data, channels)
                elif isinstance(op, SendOp):
                    self._send(op.peer.value.data, _bytes(op.buffer), wire, channels)
                else:
                    self._operation(op, times, wire)
                self.steps += 1
            yield from self._exchange(
                call, wire, channels, lookahead=lookahead, last=call == calls - 1
            )
            self.ends.append(self.time)

    def _operation(self, op: Operation, times: int, wire: Wire) -> None:
        if isinstance(op, CommunicationOp):
            self._communicate(op, times, wire)
            return
        computing, memory = self._costs(op, times)
        self.times.computing += computing
        self.times.memory += memory
        self.time += computing + memory

    def _costs(self, op: Operation, times: int) -> tuple[float, float]:
        """Seconds that arithmetic bounds, and those that memory does."""
        target = self.what.target
        if not isinstance(op, CallOp):
            moved = 2 * _bytes(op.operands[0]) if isinstance(op, CopyOp) else 0
            return 0.0, times * self._moving(moved)
        bounds = self.bounds(op)
        if bounds is None:
            raise UnsupportedError("plan requires sizes that are numbers, got others (--dim)")
        computed, moved = bounds
        spread = ThreadModel.of(target.cost).parallel(max(bounds), self.what.threads)
        shared = times * _NANO * self.what.scale * (target.cost.call_ns + spread)
        return (shared, 0.0) if computed >= moved else (0.0, shared)

    def _moving(self, size: int) -> float:
        """The seconds in which a core reads or writes so many bytes."""
        return self.what.scale * _NANO * size / bandwidth(max(1, size), self.what.target)

    # Communication ----------------------------------------------------------------------------

    def _communicate(self, op: CommunicationOp, times: int, wire: Wire) -> None:
        scatter = op.operation.data == "reduce_scatter"
        part = _bytes(op.target if scatter else op.source)
        messages, sent = ring(op.operation.data, op.members, part)
        if isinstance(op, StartOp):
            begin = max(self.time, self.wire_free)
            self.brought[op.target] = self.wire_free = begin + times * wire.time(messages, sent)
            return
        end = self.brought.pop(op.target)
        adding = times * self._moving(_bytes(op.source) + _bytes(op.target))
        self.times.memory += adding
        self.time += adding
        self._wait(end, messages, sent, wire)
        self.times.sent += times * sent
        self.times.messages += times * messages

    def _wait(self, end: float, messages: int, sent: int, wire: Wire) -> None:
        """Waits for a wire, by what of it takes the time."""
        waited, whole = max(0.0, end - self.time), wire.time(messages, sent)
        late = waited * messages * wire.alpha / whole if whole else 0.0
        self.times.latency += late
        self.times.bytes += waited - late
        self.time += waited

    def _send(
        self, peer: int, size: int, wire: Wire, channels: dict[tuple[int, int], deque[float]]
    ) -> None:
        """A message goes when the wire to the other is free; the rank goes on at once."""
        self.free[peer] = max(self.time, self.free.get(peer, 0.0)) + size / wire.beta
        ready = self.free[peer] + wire.alpha
        channels.setdefault((self.stage, peer), deque()).append(ready)
        self.times.sent += size
        self.times.messages += 1

    def _receive(self, peer: int, channels: dict[tuple[int, int], deque[float]]) -> Generator[bool]:
        channel = channels.setdefault((peer, self.stage), deque())
        while not channel:
            yield True
        waited = max(0.0, channel.popleft() - self.time)
        self.times.stages += waited
        self.time += waited

    # Results ----------------------------------------------------------------------------------

    def _owners(self) -> Iterator[tuple[int, int]]:
        """The stage and the bytes of each result that others get."""
        arguments = self.what.program.body.block.args[self.what.program.inputs.data :]
        for value, ranks in zip(arguments, self.what.results, strict=False):
            if ranks:
                yield ranks[0], _bytes(value)

    def lookahead(self) -> int:
        """How many calls the rank runs ahead of those that compute results."""
        last = max((owner for owner, _ in self._owners()), default=0)
        return 2 * max(0, last - self.stage) if self.what.one_way else 0

    def _exchange(
        self,
        call: int,
        wire: Wire,
        channels: dict[tuple[int, int], deque[float]],
        *,
        lookahead: int,
        last: bool,
    ) -> Generator[bool]:
        """Sends results to the other stages, and takes those of earlier calls."""
        owners = list(self._owners())
        stages = self.what.mesh.sizes.get(STAGE, 1) if self.what.mesh else 1
        for owner, size in owners:
            if owner == self.stage:
                for other in range(stages):
                    if other != owner:
                        self._send(other, size, wire, channels)
        for owner, _ in owners:
            if owner < self.stage:
                yield from self._receive(owner, channels)
        due = int(call >= lookahead) + (min(lookahead, call + 1) if last else 0)
        for _ in range(due):
            for owner, _ in owners:
                if owner > self.stage:
                    yield from self._receive(owner, channels)


def _size(expr: Expr) -> int:
    if expr.constant is None:
        raise UnsupportedError(f"plan requires sizes that are numbers, got {expr} (--dim)")
    return expr.constant


def _bytes(value: SSAValue) -> int:
    return _size(buffer_bytes(buffer_type_of(value)))
