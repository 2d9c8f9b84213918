"""Changes to memory plans and to claims that kernels work in place, of which most are faults.

A mutant that computes anything else than its program has to be refused. Whether it does is found
out by running it: in a process of its own, since it may write anywhere.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from tests.validation.subjects import Arrays, Subject
from weft.compiler.driver.assemble import CompiledLevel, assemble
from weft.compiler.driver.compile_kernels import KernelCompiler
from weft.compiler.driver.kernel_makers import CompiledKernels
from weft.compiler.driver.lowering import lower
from weft.compiler.driver.pipeline import optimize_graph
from weft.compiler.driver.session import Session
from weft.compiler.graph_to_loop.lower_graph import MAIN
from weft.compiler.program.memory.plan_memory import kernels_of, plan_memory
from weft.compiler.validation.in_place import claims_of, prove_claims
from weft.compiler.validation.plan import Meaning
from weft.dialects.context import WeftContext
from weft.dialects.errors import PlanError
from weft.dialects.expr import Expr
from weft.dialects.loop.dynamic import CopyOp
from weft.dialects.loop.ops import AllocOp, StoreOp
from weft.dialects.loop.program import COPIES, IN_PLACE, CallOp, KernelOp, ProgramOp
from weft.dialects.loop.types import ExprsAttr
from weft.dialects.weights import WeightStore

SECONDS = 20
"""After which a mutant is stopped: it differs."""


@dataclass
class Planned:
    """A program with its plan, kernels with their bodies and code, and what it means."""

    subject: Subject
    session: Session
    module: ModuleOp
    weights: WeightStore
    code: dict[str, bytes]
    meaning: Meaning
    expected: list[bytes] = field(default_factory=list[bytes])

    def prove(self, module: ModuleOp) -> None:
        """Proves a module as compiling does. Raises PlanError."""
        kernels = kernels_of(module)
        for kernel in kernels.values():
            prove_claims(kernel)
        self.meaning.prove(program_of(module), kernels)


def program_of(module: ModuleOp) -> ProgramOp:
    """The module's program."""
    return next(op for op in module.ops if isinstance(op, ProgramOp))


class KeepingSession(Session):
    """Keeps the kernels' bodies, as one that dumps them does, and writes nothing."""

    def dump(self, name: str, text: object) -> None:
        """What each stage gives is of no interest here."""


@cache
def plan(subject: Subject) -> Planned:
    """Compiles a program up to its plan, and runs it once; mutants are made of copies."""
    imported, options = subject.imported(), subject.options
    session = KeepingSession(options, dump_dir=Path(os.devnull))
    optimize_graph(imported.module, WeftContext(imported.weights), session)
    kernels = CompiledKernels(KernelCompiler(()), session)
    meaning = lower(imported.module, imported.weights, kernels, session)[MAIN]
    session.dump_dir = None
    planned = Planned(subject, session, imported.module, imported.weights, kernels.code, meaning)
    planned.prove(planned.module)
    ran = run(planned, planned.module)
    assert ran is not None, f"{subject.name} runs as it was planned"
    planned.expected = ran
    return planned


def run(planned: Planned, module: ModuleOp) -> list[bytes] | None:
    """The outputs' bytes of a module in a process of its own; None where that ends otherwise."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_here(planned, module, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if status == 0 else None


def _run_here(planned: Planned, module: ModuleOp, writer: int) -> None:
    """Runs a module and ends this process."""
    faulthandler.disable()
    signal.alarm(SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what an allocator says of a heap that broke
    try:
        session = planned.session
        level = CompiledLevel(session.options, module, planned.code, session.report)
        compiled = assemble(
            [level], planned.weights, planned.session.options, planned.session.report
        )
        executable = compiled.executable(2)
        arrays: Arrays = planned.subject.arrays()
        outputs = [executable(*arrays) for _ in range(2)][1]  # the workspace is dirty by then
        with os.fdopen(writer, "wb") as stream:
            stream.write(pickle.dumps([np.asarray(each).tobytes() for each in outputs]))
    except BaseException:
        os._exit(1)
    os._exit(0)


@dataclass(frozen=True)
class Mutant:
    """A changed module, and what was changed."""

    change: str
    module: ModuleOp


def mutants(planned: Planned, seed: int) -> Iterator[Mutant]:
    """Changed copies of a plan, without end."""
    pick = random.Random(seed)
    while True:
        module = planned.module.clone()
        made = pick.choice(CHANGES)(module, pick)
        if made is not None:
            yield Mutant(made, module)


def _allocations(module: ModuleOp, scope: str = "workspace") -> list[AllocOp]:
    program = program_of(module)
    return [op for op in program.walk() if isinstance(op, AllocOp) and op.scope.data == scope]


def _offset(alloc: AllocOp) -> Expr:
    assert alloc.offset is not None, "a plan has a place for each buffer"
    return alloc.offset.data[0]


def _place(alloc: AllocOp, offset: Expr) -> None:
    alloc.properties["offset"] = ExprsAttr((offset,))


def _shift(module: ModuleOp, pick: random.Random) -> str | None:
    """Moves a buffer a little."""
    found = _allocations(module)
    if not found:
        return None
    alloc = pick.choice(found)
    by = pick.choice([-256, -128, -64, -4, 4, 16, 64, 128, 256, 4096])
    least, _ = (_offset(alloc) + by).range({})
    if least is None or least < 0:
        return None
    _place(alloc, _offset(alloc) + by)
    return f"offset shifted by {by}"


def _join(module: ModuleOp, pick: random.Random) -> str | None:
    """Puts a buffer where another one lies."""
    found = _allocations(module, pick.choice(["workspace", "workspace", "growable"]))
    if len(found) < 2:
        return None
    one, other = pick.sample(found, 2)
    if _offset(one) == _offset(other):
        return None
    _place(one, _offset(other))
    return "buffers joined"


def _drop_copy(module: ModuleOp, pick: random.Random) -> str | None:
    """Leaves a copy out."""
    copies = [
        op
        for op in program_of(module).walk()
        if isinstance(op, CopyOp) or (isinstance(op, CallOp) and COPIES in op.attributes)
    ]
    if not copies:
        return None
    Rewriter.erase_op(pick.choice(copies))
    return "copy dropped"


def _swap(module: ModuleOp, pick: random.Random) -> str | None:
    """Lets a call use one buffer for another of its type, and that for the first."""
    calls = [op for op in program_of(module).walk() if isinstance(op, CallOp)]
    call = pick.choice(calls)
    near = [each for each in calls if each.parent is call.parent]
    values = dict.fromkeys(value for each in near for value in each.operands)
    pairs = [
        (one, other)
        for one in dict.fromkeys(call.operands)
        for other in values
        if one is not other and one.type == other.type and _is_before(other, call)
    ]
    if not pairs:
        return None
    one, other = pick.choice(pairs)
    swapped = {one: other, other: one}
    call.operands = [swapped.get(value, value) for value in call.operands]
    return "buffers swapped"


def _is_before(value: SSAValue, op: Operation) -> bool:
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not op.parent:
        return not isinstance(owner, Operation)
    return owner.is_before_in_block(op)


def _claim(module: ModuleOp, pick: random.Random) -> str | None:
    """Claims of a kernel that it works in place where it does not say so, and plans anew: the first
    claim, in any order, that moves a buffer.
    """
    found = [
        (kernel, pair)
        for kernel in kernels_of(module).values()
        if IN_PLACE in kernel.attributes
        for pair in _unclaimed(kernel)
    ]
    pick.shuffle(found)
    return "in-place claim" if any(_moves(module, *each) for each in found) else None


def _unclaimed(kernel: KernelOp) -> list[tuple[int, int]]:
    """Pairs of an operand and a result of one type that a kernel does not claim."""
    written = [
        each for each in kernel.body.block.args
        if any(isinstance(use.operation, StoreOp) for use in each.uses)
    ]  # fmt: skip
    return [
        (one.index, other.index)
        for other in written
        for one in kernel.body.block.args
        if one is not other and one.type == other.type
        if (one.index, other.index) not in claims_of(kernel)
    ]


def _moves(module: ModuleOp, kernel: KernelOp, pair: tuple[int, int]) -> bool:
    """Whether a plan in which a kernel claims one more pair differs; the module is left with it."""
    noted = kernel.attributes[IN_PLACE]
    claims = [*claims_of(kernel), pair]
    kernel.attributes[IN_PLACE] = DenseArrayBase.from_list(
        i64, [n for each in claims for n in each]
    )
    before = {alloc: _offset(alloc) for alloc in _allocations(module)}
    for alloc in before:
        del alloc.properties["offset"]
    plan_memory(program_of(module), kernels_of(module))
    moved = any(_offset(alloc) != offset for alloc, offset in before.items())
    if not moved:
        kernel.attributes[IN_PLACE] = noted
    return moved


CHANGES = (_shift, _join, _drop_copy, _swap, _claim)


@dataclass
class Score:
    """How many mutants of each kind there were, computed something else, and were refused."""

    made: dict[str, int] = field(default_factory=dict[str, int])
    different: dict[str, int] = field(default_factory=dict[str, int])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    missed: list[str] = field(default_factory=list[str])

    def add(self, planned: Planned, mutant: Mutant) -> None:
        """Proves and runs a mutant."""
        kind = mutant.change.split(" by ")[0]
        self.made[kind] = self.made.get(kind, 0) + 1
        try:
            planned.prove(mutant.module)
            refused = False
        except PlanError:
            refused = True
        if run(planned, mutant.module) != planned.expected:
            self.different[kind] = self.different.get(kind, 0) + 1
            self.refused[kind] = self.refused.get(kind, 0) + refused
            if not refused:
                self.missed.append(f"{planned.subject.name}: {mutant.change}")

    @property
    def share(self) -> float:
        """The share of mutants that are refused among those that compute something else."""
        return sum(self.refused.values()) / max(1, sum(self.different.values()))


def score(
    subjects: Sequence[Subject],
    count: int,
    seed: int,
    on_done: Callable[[int], None] = lambda done: None,
) -> Score:
    """Tries so many mutants of programs in turn; `on_done` is told how many are done."""
    found = Score()
    planned = [plan(each) for each in subjects]
    made = [mutants(each, seed + number) for number, each in enumerate(planned)]
    for number in range(count):
        own = number % len(planned)
        found.add(planned[own], next(made[own]))
        on_done(number + 1)
    return found
