"""What happens while a model is compiled: times, counts and choices, for those who ask."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace


class PassRecord(Struct, frozen=True):
    """What a pass did to a module: operators before and after it, seconds, by how many each name
    changed, and what the pass says that it had to leave.
    """

    name: str
    before: int
    after: int
    seconds: float
    changes: dict[str, int]
    notes: tuple[str, ...] = ()


class Report(Struct):
    """What happened while compiling: seconds by stage, what each pass did, operators
    by name in the optimised graph; the schedules of each kernel, those that refused it, and steps.
    `clock` returns seconds; `counted` has the operators behind the last pass, and its module.
    Where nobody `reads_passes` they are timed alone.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    passes: list[PassRecord] = field(default_factory=list[PassRecord])
    graph: Counter[str] = field(default_factory=Counter[str])
    schedules: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    refused: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    steps: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    clock: Callable[[], float] = time.perf_counter
    counted: tuple[object, Counter[str]] = (None, Counter())
    reads_passes: bool = True

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Adds the time until the end of the block to a stage."""
        start = self.clock()
        yield
        self.add(name, self.clock() - start)

    @contextmanager
    def module_pass(
        self,
        name: str,
        module: object,
        count: Callable[[], Counter[str]],
        notes: list[str],
    ) -> Generator[None]:
        """Records the pass that runs on a module until the end of the block; `count` counts its
        operators, unless they were behind the pass before, and `notes` are what passes add to.
        """
        if not self.reads_passes:
            with self.stage(name):
                yield
            return
        told = len(notes)
        last, before = self.counted
        if last is not module:
            before = count()
        start = self.clock()
        yield
        seconds, after = self.clock() - start, count()
        self.counted = module, after
        self.add(name, seconds)
        differ = {each: after[each] - before[each] for each in sorted({*before, *after})}
        changes = {each: by for each, by in differ.items() if by}
        said = tuple(notes[told:])
        self.passes.append(PassRecord(name, before.total(), after.total(), seconds, changes, said))

    def end_passes(self) -> None:
        """Lets go of the module that the last pass ran on."""
        self.counted = (None, Counter())

    def note(
        self, kernel: str, used: Sequence[str], refused: Sequence[str], steps: Sequence[str] = ()
    ) -> None:
        """Keeps what was done to a kernel, and which schedules refused it."""
        self.schedules[kernel] = list(used)
        self.refused[kernel] = list(refused)
        self.steps[kernel] = tuple(steps)

    def add(self, name: str, seconds: float) -> None:
        """Adds time to a stage."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def level(self) -> Report:
        """One for a CPU level: what is known of the graph, and the same times."""
        return replace(self, schedules={}, refused={}, steps={}, counted=(None, Counter()))
