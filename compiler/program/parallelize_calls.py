"""program -> program: calls that do not depend on each other run at the same time, if that pays.

A run of calls that falls apart into branches becomes `loop.concurrent`: each branch is one
thread's, so that the pool is woken once for all of them, and kernels too small for two threads fill
several. A model decides: what calls take on one thread and on several, and what waking threads
costs. It decides for each group how many threads a context has to have. Calls whose sizes vary
stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from weft.compiler.program.call_time import CallTime, call_time
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.compiler.target.cost import CostModel
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.dialects.loop.communication import RankOp
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dynamic import SubviewOp, root, weight_of
from weft.dialects.loop.ops import AllocOp, LoadOp, PrefetchOp
from weft.dialects.loop.program import (
    WRITES,
    CallOp,
    KernelOp,
    ProgramOp,
    ViewOp,
    WeightOp,
    donated_pairs,
)

LONGEST_GROUP = 32
"""Calls that are looked at together; bounds the search."""

MOST_BRANCHES = 8
"""Shorter ones are put behind each other."""

MODELLED_THREADS = (2, 4, 8, 16, 32)
"""Numbers of threads that are compared; those between two are like the lower one."""

MOST_THREADS = 1024
"""Of a context."""

LEAST_GAIN = 1.2
"""Less than this in the model is within its error."""

LEAST_SAVED = 3000.0
"""Nanoseconds; waking threads that sleep takes that much longer."""


class ThreadModel(Struct, frozen=True):
    """What the threads of a pool cost, in nanoseconds."""

    wake: float = 1500.0
    wake_each: float = 100.0
    share: float = 4000.0

    @staticmethod
    def of(cost: CostModel) -> ThreadModel:
        """With what parallel sections take on this CPU."""
        return ThreadModel(wake=cost.parallel_ns, wake_each=cost.parallel_each_ns)

    def parallel(self, alone: float, threads: int) -> float:
        """What a call takes on so many threads: no thread gets less than a share of the work."""
        used = min(threads, int(alone / self.share))
        return alone if used < 2 else alone / used + self.fork(used)

    def fork(self, threads: int) -> float:
        """What waking threads and waiting for them costs."""
        return self.wake + self.wake_each * threads


class Group(Struct, frozen=True):
    """Branches of calls by name of kernel; the threads for which they run side by side; and by
    number of threads what they take one after the other, and side by side, in nanoseconds.
    """

    branches: list[list[str]]
    least: int
    most: int
    modelled: dict[int, tuple[int, int]]


class ParallelizeCallsPass(ModulePass):
    """Groups calls of the program for the cores of the module's target, by what kernels compute."""

    name = "weft-parallelize-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels, target = kernels_of(op), target_of(op)
        for program in op.ops:
            if isinstance(program, ProgramOp):
                time, model = call_time(kernels, target), ThreadModel.of(target.cost)
                parallelize_calls(program, kernels, time, target.cores, model)


def parallelize_calls(
    program: ProgramOp,
    kernels: Mapping[str, KernelOp],
    time: CallTime,
    threads: int,
    model: ThreadModel | None = None,
) -> None:
    """Groups calls in every block of the program, for contexts of about so many threads."""
    writes = {name: writes_of(kernel) for name, kernel in kernels.items()}
    arguments, read = program.body.block.args, program.inputs.data
    shared: dict[SSAValue, SSAValue] = {
        arguments[read + out]: arguments[into] for into, out in donated_pairs(program)
    }
    search = _Overlap(writes, shared, time, max(2, threads), model or ThreadModel())
    blocks = {op.parent: None for op in program.walk() if isinstance(op, CallOp)}
    for block in blocks:
        if block is not None:
            search.run(block)


def describe_concurrent(
    program: ProgramOp, kernels: Mapping[str, KernelOp], target: Target
) -> list[dict[str, Any]]:
    """The groups of a program as plain data."""
    time, model = call_time(kernels, target), ThreadModel.of(target.cost)
    return [asdict(group) for group in concurrent_groups(program, time, model)]


def concurrent_groups(
    program: ProgramOp, time: CallTime, model: ThreadModel | None = None
) -> list[Group]:
    """The groups of a program, and what the model says of them."""
    ops = (op for op in program.walk() if isinstance(op, ConcurrentOp))
    return [_group(op, time, model or ThreadModel()) for op in ops]


def _group(op: ConcurrentOp, time: CallTime, model: ThreadModel) -> Group:
    calls = [[each for each in b.block.ops if isinstance(each, CallOp)] for b in op.branches]
    times = [[time(call) or 0.0 for call in branch] for branch in calls]
    window = _Window((), tuple(map(sum, times)))
    modelled: dict[int, tuple[int, int]] = {}
    for threads in MODELLED_THREADS:
        one_by_one = sum(model.parallel(each, threads) for each in chain(*times))
        modelled[threads] = round(one_by_one), round(window.together(threads, model))
    names = [[call.kernel for call in branch] for branch in calls]
    return Group(names, op.least.data, op.most.data, modelled)


def writes_of(kernel: KernelOp) -> set[int]:
    """Which of a kernel's arguments it may write, as noted on it or found in its body."""
    noted = kernel.attributes.get(WRITES)
    if isa(noted, ArrayAttr[IntAttr]):
        return {each.data for each in noted}
    return written_arguments(kernel)


def written_arguments(kernel: KernelOp) -> set[int]:
    """The positions of the arguments that are not only read; all without a body."""
    arguments = kernel.body.block.args
    if kernel.body.block.is_empty:
        return set(range(len(arguments)))
    return {
        argument.index
        for argument in arguments
        if not all(isinstance(use.operation, LoadOp | PrefetchOp) for use in argument.uses)
    }


class _Step(Struct, frozen=True, eq=False):
    """A call, what it takes on one thread, and the calls before it that it has to wait for."""

    call: CallOp
    alone: float | None
    waits_for: frozenset[int]


class _Window(Struct, frozen=True):
    """Calls by position that fall apart into branches, those that take longest first, and what each
    branch takes on one thread.
    """

    branches: tuple[tuple[int, ...], ...]
    times: tuple[float, ...]

    def together(self, threads: int, model: ThreadModel) -> float:
        """What the branches take side by side: each goes to the thread that is free first."""
        loads = [0.0] * min(threads, len(self.times))
        for time in self.times:
            least = min(range(len(loads)), key=loads.__getitem__)
            loads[least] += time
        return max(loads) + model.fork(len(loads))


class _Overlap(Struct):
    writes: Mapping[str, set[int]]
    shared: Mapping[SSAValue, SSAValue]
    time: CallTime
    threads: int
    model: ThreadModel

    def run(self, block: Block) -> None:
        for calls in _runs(block):
            steps = self._steps(calls)
            for window in self._choose(steps):
                self._build(window, steps)

    def _steps(self, calls: Sequence[CallOp]) -> list[_Step]:
        """The calls, each with those that it has to wait for: who wrote what it reads or writes,
        and who read what it writes.
        """
        writers: dict[SSAValue, int] = {}
        readers: dict[SSAValue, list[int]] = {}
        steps: list[_Step] = []
        for number, call in enumerate(calls):
            waits: set[int] = set()
            written = self.writes[call.kernel]
            for position, argument in enumerate(call.arguments):
                buffer = self.shared.get(root(argument), root(argument))
                if buffer in writers:
                    waits.add(writers[buffer])
                if position in written:
                    waits.update(readers.pop(buffer, ()))
                    writers[buffer] = number
                else:
                    readers.setdefault(buffer, []).append(number)
            steps.append(_Step(call, self.time(call), frozenset(waits - {number})))
        return steps

    def _choose(self, steps: Sequence[_Step]) -> list[_Window]:
        """The windows with which all calls take the least time, by dynamic programming."""
        best = [0.0, *([inf] * len(steps))]
        last: list[_Window | None] = [None] * (len(steps) + 1)
        for first, step in enumerate(steps):
            single = best[first] + self.model.parallel(step.alone or 0.0, self.threads)
            if single < best[first + 1]:
                best[first + 1], last[first + 1] = single, None
            for end, window in self._windows(steps, first):
                time = best[first] + window.together(self.threads, self.model)
                if time < best[end]:
                    best[end], last[end] = time, window
        windows: list[_Window] = []
        end = len(steps)
        while end:
            window = last[end]
            end -= 1 if window is None else sum(map(len, window.branches))
            windows += [] if window is None else [window]
        return windows[::-1]

    def _windows(self, steps: Sequence[_Step], first: int) -> Iterator[tuple[int, _Window]]:
        """The windows from a call on that pay, and where they end."""
        branches: list[list[int]] = []
        one_by_one = 0.0
        for number in range(first, min(first + LONGEST_GROUP, len(steps))):
            step = steps[number]
            if step.alone is None:
                return
            one_by_one += self.model.parallel(step.alone, self.threads)
            joined = [each for each in branches if not step.waits_for.isdisjoint(each)]
            branches = [each for each in branches if each not in joined]
            branches.append(sorted([number, *(other for each in joined for other in each)]))
            if len(branches) > 1:
                window = _packed(branches, steps)
                if _pays(one_by_one, window.together(self.threads, self.model)):
                    yield number + 1, window

    def _build(self, window: _Window, steps: Sequence[_Step]) -> None:
        """Puts the calls of a window into branches behind the last of them."""
        calls = [[steps[number].call for number in branch] for branch in window.branches]
        modelled = {threads: self._model(window, steps, threads) for threads in MODELLED_THREADS}
        least, most = _range_of_threads(modelled, self.threads)
        final = steps[max(number for branch in window.branches for number in branch)].call
        block = final.parent
        assert block is not None, "a call stands in a block"
        op = ConcurrentOp.of(least, most, [Block() for _ in calls])
        block.insert_op_after(op, final)
        for branch, own in zip(op.branches, calls, strict=True):
            for call in own:
                call.detach()
                branch.block.add_op(call)
        for branch in op.branches:
            _take_buffers(branch.block)

    def _model(self, window: _Window, steps: Sequence[_Step], threads: int) -> tuple[float, float]:
        """What the calls take one after the other, and side by side."""
        alone = [steps[number].alone or 0.0 for branch in window.branches for number in branch]
        one_by_one = sum(self.model.parallel(time, threads) for time in alone)
        return one_by_one, window.together(threads, self.model)


def _runs(block: Block) -> Iterator[list[CallOp]]:
    """Calls with nothing but buffers between them."""
    calls: list[CallOp] = []
    for op in list(block.ops):
        if isinstance(op, CallOp):
            calls.append(op)
        elif not _is_buffer(op):
            yield calls
            calls = []
    yield calls


def _is_buffer(op: Operation) -> bool:
    if isinstance(op, AllocOp):
        return op.scope.data == "workspace"
    if isinstance(op, SubviewOp):
        return weight_of(op.result) is not None
    return isinstance(op, (ViewOp, WeightOp, RankOp, arith.IndexCastOp))


def _packed(branches: Sequence[Sequence[int]], steps: Sequence[_Step]) -> _Window:
    """The window of these branches, the shortest of them put behind others where there are many."""
    timed = [(sum(steps[number].alone or 0.0 for number in each), each) for each in branches]
    timed.sort(key=lambda pair: (-pair[0], pair[1][0]))
    bins = [(time, list(each)) for time, each in timed[:MOST_BRANCHES]]
    for time, each in timed[MOST_BRANCHES:]:
        least = min(range(len(bins)), key=lambda position: bins[position][0])
        bins[least] = (bins[least][0] + time, sorted([*bins[least][1], *each]))
    bins.sort(key=lambda pair: (-pair[0], pair[1][0]))
    return _Window(tuple(tuple(each) for _, each in bins), tuple(time for time, _ in bins))


def _pays(one_by_one: float, together: float) -> bool:
    return together * LEAST_GAIN <= one_by_one and together + LEAST_SAVED <= one_by_one


def _range_of_threads(modelled: Mapping[int, tuple[float, float]], planned: int) -> tuple[int, int]:
    """The numbers of threads around the planned one for which branches pay."""
    numbers = list(modelled)
    pays = [_pays(*times) for times in modelled.values()]
    low = high = max(at for at, number in enumerate(numbers) if number <= planned)
    while low > 0 and pays[low - 1]:
        low -= 1
    while high + 1 < len(numbers) and pays[high + 1]:
        high += 1
    most = numbers[high + 1] - 1 if high + 1 < len(numbers) else MOST_THREADS
    return numbers[low], max(most, planned)


def _take_buffers(branch: Block) -> None:
    """Moves the buffers that only this branch uses, and the views of them, to its beginning."""
    roots = dict.fromkeys(root(argument).owner for call in branch.ops for argument in call.operands)
    moved: list[Operation] = []
    for alloc in roots:
        if isinstance(alloc, AllocOp) and all(block is branch for block in _users(alloc)):
            moved += [alloc, *_views(alloc)]
    for op in moved:
        op.detach()
    first = branch.first_op
    assert first is not None, "a branch has calls"
    branch.insert_ops_before(moved, first)


def _views(op: Operation) -> list[ViewOp]:
    """The views of an operation's result, and of those, each behind what it views."""
    views = [use.operation for use in op.results[0].uses if isinstance(use.operation, ViewOp)]
    return [each for view in views for each in (view, *_views(view))]


def _users(op: Operation) -> Iterator[Block | None]:
    """The block of each use of a buffer, or of a view of it."""
    for use in op.results[0].uses:
        if isinstance(use.operation, ViewOp):
            yield from _users(use.operation)
        else:
            yield use.operation.parent
