"""A lowered program, and what passes have made of it -> the proof that both mean the same.

`note_meaning` runs the program as it was lowered, in which every buffer has memory of its own;
`Meaning.prove` runs the program with its memory plan. There every call must read the terms that a
call of its number has read before: whatever passes did to buffers, copies, loops and layouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, cast

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from weft.compiler.validation.execution import Access, Execution
from weft.compiler.validation.in_place import claims_of, prove_claims, prove_in_place
from weft.compiler.validation.outcome import Outcome
from weft.compiler.validation.storage import Planned, Unplanned
from weft.compiler.validation.terms import Terms
from weft.dialects.context import WeftContext
from weft.dialects.errors import PlanError
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.ops import ForOp, LoadOp, PrefetchOp, WhileOp
from weft.dialects.loop.program import (
    COPIES,
    FILLS_BORDER,
    IN_PLACE,
    ORIGIN,
    UPDATES,
    WRITES,
    CallOp,
    KernelOp,
    ProgramOp,
    ViewOp,
    origin_of,
)
from weft.dialects.weights import WeightStore

SAMPLES: Final = (1, 4, 5)
"""What unknown sizes and numbers of iterations are taken for: one, an even and an odd number."""


class ValidationContext(WeftContext):
    """What passes see in a compilation: also what programs meant when they were lowered. That is
    no part of the module, which passes rewrite.
    """

    def __init__(self, weights: WeightStore | None = None):
        super().__init__(weights)
        self.meanings: dict[str, Meaning] = {}


class NoteMeaningPass(ModulePass):
    """Numbers the calls of lowered programs, and notes what these mean where the context can."""

    name = "weft-note-meaning"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {each.sym_name.data: each for each in op.ops if isinstance(each, KernelOp)}
        for program in op.ops:
            if isinstance(program, ProgramOp):
                meaning = note_meaning(program, kernels)
                if isinstance(ctx, ValidationContext):
                    ctx.meanings[program.sym_name.data] = meaning


class ValidatePlanPass(ModulePass):
    """Proves that programs with a memory plan do what they did when they were lowered, or, where
    that is not noted, what they do where each buffer has memory of its own; and that kernels work
    in place where it is noted that they may.
    """

    name = "weft-validate-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {each.sym_name.data: each for each in op.ops if isinstance(each, KernelOp)}
        for kernel in kernels.values():
            if not kernel.body.block.is_empty:
                prove_claims(kernel)
        meanings = ctx.meanings if isinstance(ctx, ValidationContext) else {}
        for program in op.ops:
            if isinstance(program, ProgramOp):
                noted = meanings.get(program.sym_name.data)
                (noted or note_meaning(program, kernels)).prove(program, kernels)


class LoweredCall(Struct, frozen=True):
    """A call as it was lowered: how many arguments it has, and which of them it writes."""

    arguments: int
    written: frozenset[int]


class Meaning(Struct, frozen=True):
    """What a program does before passes decide where its buffers are stored."""

    terms: Terms
    calls: Mapping[int, LoweredCall]
    outcomes: Mapping[int, Outcome]
    """By what unknown integers are taken for."""

    def prove(self, program: ProgramOp, kernels: Mapping[str, KernelOp]) -> None:
        """Proves that a program with a memory plan reads what the lowered one does.

        Raises PlanError naming the call that does not.
        """
        for sample, meant in self.outcomes.items():
            storage = Planned(program)
            _Planned(program, self, storage, sample, meant, kernels).run()


def note_meaning(program: ProgramOp, kernels: Mapping[str, KernelOp]) -> Meaning:
    """Numbers the calls of a program, and notes what it does."""
    written = {name: _written(kernel) for name, kernel in kernels.items()}
    calls: dict[int, LoweredCall] = {}
    loops = False
    for op in program.walk():
        loops = loops or isinstance(op, (ForOp, WhileOp))
        if isinstance(op, CallOp):
            op.attributes.pop(UPDATES, None)
            op.attributes[ORIGIN] = IntAttr(len(calls))
            calls[len(calls)] = LoweredCall(len(op.operands), written[op.kernel])
    terms = Terms()
    samples = SAMPLES if loops else SAMPLES[1:2]
    outcomes = {sample: _Lowered(program, terms, calls, sample).run() for sample in samples}
    return Meaning(terms, calls, outcomes)


def _written(kernel: KernelOp) -> frozenset[int]:
    """The arguments that a kernel may write."""
    noted = kernel.attributes.get(WRITES)
    if isa(noted, ArrayAttr[IntAttr]):
        return frozenset(position.data for position in noted)
    return frozenset(each.index for each in kernel.body.block.args if not _is_only_read(each))


def _is_only_read(buffer: SSAValue) -> bool:
    users = [use.operation for use in buffer.uses]
    return all(
        isinstance(user, LoadOp | PrefetchOp)
        or (isinstance(user, ViewOp) and _is_only_read(user.result))
        for user in users
    )


class _Lowered(Execution):
    """The run of a lowered program: each call fills its results as a whole."""

    def __init__(
        self, program: ProgramOp, terms: Terms, calls: Mapping[int, LoweredCall], sample: int
    ):
        super().__init__(program, terms, Unplanned(), sample)
        self.calls = calls

    def call(self, op: CallOp) -> None:
        number = origin_of(op)
        assert number is not None, "the calls of a lowered program are numbered"
        written = self.calls[number].written
        operands = list(op.operands)
        read = {n: self.read(each) for n, each in enumerate(operands) if n not in written}
        results = {n: self.access(operands[n]) for n in sorted(written)}
        self.outcome.calls.add(self.run_call(op, read, results))


class _Planned(Execution):
    """The run of a program with a plan, which has to do what is `meant`."""

    def __init__(
        self,
        program: ProgramOp,
        meaning: Meaning,
        storage: Planned,
        sample: int,
        meant: Outcome,
        kernels: Mapping[str, KernelOp],
    ):
        super().__init__(program, meaning.terms, storage, sample)
        self.calls = meaning.calls
        self.meant = meant
        self.kernels = kernels
        self._summaries: dict[str, _KernelSummary] = {}

    def run(self) -> Outcome:
        """Runs the program once. Raises PlanError where it does anything else."""
        outcome = super().run()
        if outcome.effects != self.meant.effects:
            raise PlanError(
                "memory plan requires a program to test and print what it means, got other values"
            )
        for number, (meant, got) in enumerate(
            zip(self.meant.outputs, outcome.outputs, strict=False)
        ):
            if meant != got:
                raise PlanError(
                    f"memory plan requires output {number} to be what was computed for it, "
                    f"got {self._shown(got)}"
                )
        return outcome

    def _shown(self, term: int) -> str:
        if term == self.terms.lost:
            return "memory that something else has overwritten"
        if term == self.terms.undefined:
            return "memory that nothing has written"
        return "another value"

    def call(self, op: CallOp) -> None:
        summary = self._summary_of(op.kernel)
        accesses = [self.access(each) for each in op.operands]
        self._require_disjoint(op, summary, accesses)
        number = origin_of(op)
        if number is not None:
            self._lowered_call(op, number, summary, accesses)
            return
        content = self.read(op.operands[0])
        for position in summary.written:
            access = accesses[position]
            if COPIES in op.attributes and position == 1:
                self.write(op, access, content)
            elif FILLS_BORDER in op.attributes:
                self._fill_border(access)
            else:
                self.write(op, access, self.terms.of("unknown", op.kernel))

    def _fill_border(self, access: Access) -> None:
        for other in self.storage.add(access.root):
            self.lose(other)
        self.borders[access.root] = True

    def _lowered_call(
        self, op: CallOp, number: int, summary: _KernelSummary, accesses: list[Access]
    ) -> None:
        """Runs a call that was lowered. What it writes for itself alone holds nothing after it."""
        lowered, held = self.calls[number], _held(op)
        positions = [n for n in range(lowered.arguments) if n != held[0]]
        here = {n: position for position, n in enumerate(positions)}
        if held[1] is not None:
            here[cast(int, held[0])] = here[held[1]]
        read = {
            n: self.read(op.operands[here[n]])
            for n in range(lowered.arguments)
            if n not in lowered.written
        }
        results = {n: accesses[here[n]] for n in sorted(lowered.written)}
        for position in summary.written:
            if position >= len(positions):
                self.write(op, accesses[position], self.terms.undefined)
            elif positions[position] not in lowered.written:
                self.refuse(op, "to write its results alone", f"argument {position}")
        node = self.run_call(op, read, results)
        if node not in self.meant.calls:
            self._refuse_read(op, read, here)

    def _refuse_read(self, op: CallOp, read: Mapping[int, int], here: Mapping[int, int]) -> None:
        faults = (n for n, term in read.items() if term in (self.terms.lost, self.terms.undefined))
        first = next(faults, None)
        rule = "operands that hold what was computed for them"
        if first is None:
            self.refuse(op, rule, "other values")
        self.refuse(op, rule, f"{self._shown(read[first])} as argument {here[first]}")

    def _require_disjoint(
        self, op: CallOp, summary: _KernelSummary, accesses: list[Access]
    ) -> None:
        """Refuses a call that writes where another argument lies, unless the kernel is proved to
        work in place there.
        """
        for result in summary.written:
            for other in range(len(accesses)):
                if other == result or not self.meet(accesses[result], accesses[other]):
                    continue
                together = self.is_same_element(accesses[result], accesses[other])
                if not together or (other, result) not in summary.in_place():
                    got = f"arguments {other} and {result} in memory that they share"
                    self.refuse(op, "results that lie apart from other arguments", got)

    def _summary_of(self, name: str) -> _KernelSummary:
        if name not in self._summaries:
            self._summaries[name] = _KernelSummary(self.kernels[name])
        return self._summaries[name]

    def concurrent(self, op: ConcurrentOp) -> None:
        """Branches at the same time: none writes what another one reads or writes."""
        super().concurrent(op)
        calls = [
            [each for each in branch.block.ops if isinstance(each, CallOp)]
            for branch in op.branches
        ]
        for one, other in combinations(calls, 2):
            for first in one:
                for second in other:
                    self._require_independent(op, first, second)

    def _require_independent(self, op: Operation, first: CallOp, second: CallOp) -> None:
        pairs = [(first, second), (second, first)]
        for writer, reader in pairs:
            for result in self._summary_of(writer.kernel).written:
                written = self.access(writer.operands[result])
                if any(self.meet(written, self.access(each)) for each in reader.operands):
                    got = f"@{writer.kernel} and @{reader.kernel} on memory that they share"
                    self.refuse(op, "branches that lie apart", got)


@dataclass
class _KernelSummary:
    """What is known of a kernel: the arguments that it may write, and the pairs of an operand and a
    result for which it is proved to work in place.
    """

    kernel: KernelOp

    def __post_init__(self) -> None:
        self.written = sorted(_written(self.kernel))
        self._pairs: set[tuple[int, int]] | None = None

    def in_place(self) -> set[tuple[int, int]]:
        """What was proved while the kernel was compiled; what can be, of one that was not."""
        if self._pairs is None:
            if IN_PLACE in self.kernel.attributes:
                self._pairs = set(claims_of(self.kernel))
            else:
                self._pairs = {pair for pair in self._candidates() if self._is_proved(pair)}
        return self._pairs

    def _candidates(self) -> list[tuple[int, int]]:
        arguments = self.kernel.body.block.args
        return [
            (operand.index, result)
            for result in self.written
            for operand in arguments
            if operand.index not in self.written and operand.type == arguments[result].type
        ]

    def _is_proved(self, pair: tuple[int, int]) -> bool:
        try:
            prove_in_place(self.kernel, *pair)
        except PlanError:
            return False
        return True


def _held(op: CallOp) -> tuple[int | None, int | None]:
    """The operand that a call no longer copies, and the result that holds it; None without."""
    if UPDATES not in op.attributes:
        return None, None
    noted = op.attributes[UPDATES]
    assert isa(noted, ArrayAttr[IntAttr]), "a call updates a result that holds an operand"
    operand, result = noted
    return operand.data, result.data
