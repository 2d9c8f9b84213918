"""The search for faster schedules: in each round every kernel that takes long gets a candidate, all
of them are built into one model, and each is timed where it runs, in turns with the best so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, field

from weft.bench.kernels import time_kernels
from weft.bench.rounds import disagreement
from weft.bench.session import Inputs
from weft.compiler.driver.compile_kernels import parse_kernel
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model, naive_kernels
from weft.compiler.driver.session import Session
from weft.compiler.frontend.imported import Source
from weft.compiler.loop.candidates import Steps, neighbours, scheduled_steps, variants
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.tuned_file import Tuned, target_key
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule, WeftError
from weft.dialects.weights import Array

SECONDS: Final = 120.0
"""After which no other round begins."""

ROUND_SECONDS: Final = 0.5
"""Of calls of each build in a round."""

LEAST_SHARE: Final = 0.01
"""Kernels that take less of a call are left as they are."""

LEAST_GAIN: Final = 1.03
"""Smaller gains are noise."""

OnRound = Callable[[str, int, int], None]


class _Kernel(Struct):
    """A kernel that is tuned: its naive text and target, what it is best with, and what is still to
    be timed.
    """

    text: str
    target: Target
    best: Steps
    waiting: list[Steps]
    tried: set[Steps] = field(default_factory=set[Steps])

    def next(self) -> Steps | None:
        """A candidate that was not timed yet."""
        while self.waiting:
            steps = self.waiting.pop(0)
            if steps not in self.tried:
                self.tried.add(steps)
                return steps
        return None

    def accept(self, steps: Steps) -> None:
        """The best so far; what lies near it is timed next."""
        self.best = steps
        self.waiting = neighbours(parse_kernel(self.text), steps, self.target) + self.waiting


class _Memory:
    """Compiled kernels of this search."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def find_kernel(self, key: str) -> bytes | None:
        """What was kept under the key."""
        return self._kept.get(key)

    def keep_kernel(self, key: str, data: bytes) -> None:
        """Keeps bytes under a key."""
        self._kept[key] = data


class Tuner:
    """A model, the inputs that it is timed on, and what was found so far."""

    def __init__(self, model: Source, options: Options, inputs: Inputs, threads: int):
        self._model = model
        self._options = replace(options, timed=True)
        self._inputs = inputs
        self._threads = threads
        self._memory = _Memory()
        self._default = self._build({})

    def run(
        self,
        seconds: float = SECONDS,
        round_seconds: float = ROUND_SECONDS,
        on_round: OnRound = lambda state, done, total: None,
    ) -> list[Tuned]:
        """The schedules that are faster than weft's own, by a last comparison with those."""
        start = time.perf_counter()
        kernels = self._slow_kernels(round_seconds)
        best: Compiled = self._default
        while (spent := time.perf_counter() - start) < seconds:
            tried = {name: steps for name, each in kernels.items() if (steps := each.next())}
            if not tried:
                break
            on_round(f"{len(tried)} kernels", int(spent), int(seconds))
            best = self._round(kernels, tried, best, round_seconds)
        return self._found(kernels, best, round_seconds)

    def _slow_kernels(self, seconds: float) -> dict[str, _Kernel]:
        (times,) = time_kernels([self._default], self._inputs, self._threads, seconds)
        total = sum(each.milliseconds for each in times)
        slow = [each.name for each in times if each.milliseconds >= LEAST_SHARE * total]
        target = self._options.target
        found: dict[str, _Kernel] = {}
        for name, text in naive_kernels(self._model, self._options).items():
            if name in slow:
                kernel = parse_kernel(text)
                own = scheduled_steps(kernel, target)
                others = variants(kernel, target) + neighbours(kernel, own, target)
                found[name] = _Kernel(text, target, own, others, {own})
        return found

    def _round(
        self, kernels: dict[str, _Kernel], tried: dict[str, Steps], best: Compiled, seconds: float
    ) -> Compiled:
        """Times candidates beside the best build; returns the build of what is best then."""
        chosen = {name: each.best for name, each in kernels.items()}
        try:
            build = self._build(chosen | tried)
        except IllegalSchedule:
            return best  # what one kernel may do alone may not fit the layouts of the others
        self._check(best, build)
        before, after = time_kernels([best, build], self._inputs, self._threads, seconds)
        old = {each.name: each.milliseconds for each in before}
        new = {each.name: each.milliseconds for each in after}
        won = [name for name in tried if name in new and old[name] > LEAST_GAIN * new[name]]
        for name in won:
            kernels[name].accept(tried[name])
        if not won:
            return best
        return self._build({name: each.best for name, each in kernels.items()})

    def _found(self, kernels: dict[str, _Kernel], best: Compiled, seconds: float) -> list[Tuned]:
        builds = [self._default, best]
        before, after = time_kernels(builds, self._inputs, self._threads, 2 * seconds)
        new = {each.name: each.milliseconds for each in after}
        return [
            Tuned(
                target_key(self._options.target), each.name, self._threads,
                round(each.milliseconds, 6), round(new[each.name], 6), kernels[each.name].best,
            )
            for each in before
            if each.name in kernels and each.milliseconds > LEAST_GAIN * new[each.name]
        ]  # fmt: skip

    def _build(self, schedules: dict[str, Steps]) -> Compiled:
        forced = tuple(KernelSchedule(name, steps) for name, steps in schedules.items())
        options = replace(self._options, tuned=forced)
        return compile_model(self._model, options, Session(options, store=self._memory))

    def _check(self, best: Compiled, build: Compiled) -> None:
        answers = [self._answers(each) for each in (best, build)]
        problem = disagreement(*answers)
        if problem is not None:
            raise WeftError(f"tune requires equal answers of all schedules, got: {problem}")

    def _answers(self, build: Compiled) -> Sequence[Array]:
        executable = build.executable(self._threads)
        arrays = [self._inputs[spec.name] for spec in executable.inputs]
        return executable(*arrays)[:-1]
