"""`for` and `while`: known rounds are read one by one, others become loops of the graph."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct
from xdsl.ir import Block, SSAValue

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr
from weft.dialects.graph import ConditionOp, ForOp, WhileOp, YieldOp
from weft.source.calls.generators import ADVICE, Generated, Left, generate, yields
from weft.source.expressions.conditions import as_condition
from weft.source.expressions.iteration import Iterations, iterations_of
from weft.source.expressions.operators import both, either, negated
from weft.source.run import RETURNED, Frame, Run
from weft.source.statements.branches import attempt, branch, region, trial
from weft.source.statements.loop_carried import State
from weft.source.syntax import Location
from weft.source.undo_log import NameSlot
from weft.source.values import Number

MOST_UNROLLED = 16
"""A loop whose body would be read more often becomes a loop of the graph, where it can."""

MOST_WITH_EXITS = 8
"""The same for loops that may end early: each round is a branch within that of the one before."""

Loop: TypeAlias = ast.For | ast.While
Test = Callable[[], "bool | Number"]


class Flags(Struct):
    """The names of a loop's flags among the variables of a call."""

    run: Run
    frame: Frame
    name: str

    @property
    def broken(self) -> str:
        return f"<broken {self.name}>"

    @property
    def continued(self) -> str:
        return f"<continued {self.name}>"

    def set(self, name: str, value: bool) -> None:
        """Sets a flag."""
        self.run.undo_log.assign(NameSlot(self.frame.names, name), value)

    def begin_iteration(self) -> None:
        """In a round, no flag is set yet."""
        for name in (self.continued, self.broken, RETURNED):
            if self.frame.names.get(name) is not False:
                self.set(name, False)

    def stopped(self) -> bool | Number:
        """Whether no further round runs."""
        flags = (self.run.flag(self.frame, each) for each in (self.broken, RETURNED))
        return either(self.run.recording, *flags)


@contextmanager
def _loop(run: Run, frame: Frame, node: Loop) -> Generator[Flags]:
    flags = Flags(run, frame, f"{node.lineno}:{len(frame.loops)}")
    frame.loops.append(flags.name)
    flags.set(flags.broken, False)
    try:
        yield flags
    finally:
        frame.loops.pop()


def _flags_here(frame: Frame) -> list[str]:
    names = [f"<{flag} {frame.loops[-1]}>" for flag in ("broken", "continued") if frame.loops]
    return [RETURNED, *names]


def stopped_here(run: Run, frame: Frame) -> bool | Number:
    """Whether the statements behind the one that ran are left out."""
    stopped: bool | Number = False
    for name in _flags_here(frame):
        stopped = either(run.recording, stopped, run.flag(frame, name))
    return stopped


def unless_stopped(
    run: Run, frame: Frame, stopped: Number, rest: Callable[[], None], location: Location
) -> None:
    """Runs the rest of a block where it is not left. Where one flag alone may say that it is, that
    flag is known to be set on the other way.
    """
    flags = [each for each in _flags_here(frame) if run.flag(frame, each) is not False]

    def going_on() -> None:
        for flag in flags:
            run.undo_log.assign(NameSlot(frame.names, flag), False)
        rest()

    def nothing() -> None:
        if len(flags) == 1:
            run.undo_log.assign(NameSlot(frame.names, flags[0]), True)

    branch(run, negated(run.recording, stopped), going_on, nothing, location)


def for_(run: Run, frame: Frame, node: ast.For) -> None:
    """A loop over something: `else` runs unless it was left with `break`."""
    location = Location(frame.code.file, node)
    source = Location(frame.code.file, node.iter)
    value = run.evaluate(run, frame, node.iter)
    iterations = None if isinstance(value, Generated) else iterations_of(run, value, source)
    with _loop(run, frame, node) as flags:
        if iterations is None:
            _for_generated(run, frame, node, value, flags, location)
        else:
            _for_iterations(run, frame, node, iterations, flags, location)
        leaves = run.flag(frame, flags.broken)
    _otherwise(run, frame, node, leaves, location)


def _for_generated(
    run: Run, frame: Frame, node: ast.For, generated: Generated, flags: Flags, location: Location
) -> None:
    """The body in place of each `yield`, until a flag that is known stops the loop."""

    def body(value: Any) -> None:
        flags.begin_iteration()
        run.store(run, frame, node.target, value)
        run.execute(run, frame, node.body)
        stopped = flags.stopped()
        if isinstance(stopped, Number):
            rule = "a loop over a generator requires an end that no tensor decides"
            raise location.refuse(rule, "a break or return under a condition on one", ADVICE)
        if stopped:
            raise Left

    with suppress(Left):
        generate(run, generated, body, location)


def _for_iterations(
    run: Run, frame: Frame, node: ast.For, iterations: Iterations, flags: Flags, location: Location
) -> None:
    count = iterations.count.constant
    most = MOST_WITH_EXITS if _has_exits(node) else MOST_UNROLLED
    if count is not None and (not iterations.even or count * run.copies <= most):
        unroll(run, frame, node, iterations, flags, location)
        return
    roll = partial(roll_for, run, frame, node, iterations, flags, location)
    if count is None:
        roll()
        return
    refusal = attempt(run, roll)
    if refusal is not None:
        run.note(location, f"no loop of the graph: {str(refusal).splitlines()[0]}")
        unroll(run, frame, node, iterations, flags, location)


def _has_exits(node: Loop) -> bool:
    """Whether a statement inside may leave the loop."""
    return any(isinstance(each, ast.Break | ast.Return) for each in ast.walk(node))


def unroll(
    run: Run, frame: Frame, node: ast.For, iterations: Iterations, flags: Flags, location: Location
) -> None:
    """Reads the body for each element, until a flag stops the loop that only a call knows."""
    count = iterations.count.constant
    assert count is not None, "rounds that are read one by one are known"
    with _copied(run, count):
        _unroll(run, frame, node, iterations, flags, location, 0, count)


@contextmanager
def _copied(run: Run, count: int) -> Generator[None]:
    """The statements inside are read that many times."""
    before = run.copies
    run.copies *= max(1, count)
    try:
        yield
    finally:
        run.copies = before


def _unroll(
    run: Run,
    frame: Frame,
    node: ast.For,
    iterations: Iterations,
    flags: Flags,
    location: Location,
    start: int,
    count: int,
) -> None:
    for number in range(start, count):
        run.count_statement(location)
        flags.begin_iteration()
        run.store(run, frame, node.target, iterations.element(Expr.of(number)))
        run.execute(run, frame, node.body)
        stopped = flags.stopped()
        if stopped is True:
            run.note(location, f"{number + 1} rounds, read one by one")
            return
        if stopped is not False and number + 1 < count:
            rest = partial(
                _unroll, run, frame, node, iterations, flags, location, number + 1, count
            )
            unless_stopped(run, frame, stopped, rest, location)
            return
    run.note(location, f"{count} rounds, read one by one")


def roll_for(
    run: Run, frame: Frame, node: ast.For, iterations: Iterations, flags: Flags, location: Location
) -> None:
    """The loop as one of the graph: `graph.while` where a tensor may end it early."""
    r = run.recording
    index = r.fresh(_stem(node.target))
    r.counts[index] = iterations.count

    def body() -> None:
        flags.begin_iteration()
        run.store(run, frame, node.target, iterations.element(Expr.of(index)))
        run.execute(run, frame, node.body)

    state = State(run, location, _kept_names(frame, node) if _runs_once(run, iterations) else set())
    found = state.read(body)
    names = (flags.broken, RETURNED)
    if all(found.after(NameSlot(frame.names, each)) is False for each in names):
        _finish(
            state, found, lambda b, i, v: ForOp.of(iterations.count, index, v, b, state.sizes, i)
        )
        run.note(location, f"graph.for, carrying {_listed(state)}")
        return

    def test() -> bool | Number:
        more = Number(r, int, expr=Expr.of(index)).apply("less", r.dims(iterations.count))
        return both(r, Number(r, bool, more.value), _unless(run, flags.stopped()))

    _while(run, state, found, index, test, location)


def _runs_once(run: Run, iterations: Iterations) -> bool:
    """Whether a round surely runs."""
    return run.recording.at_least(iterations.count, 1)


def _kept_names(frame: Frame, node: Loop) -> set[str]:
    """The names that something outside of a loop looks at."""
    inside = set(ast.walk(node))
    return {
        each.id
        for each in ast.walk(frame.code.node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each not in inside
    }


def _stem(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else "round"


def while_(run: Run, frame: Frame, node: ast.While) -> None:
    """A loop on a condition; `else` runs unless it was left with `break`."""
    location = Location(frame.code.file, node)

    def holds() -> bool | Number:
        return as_condition(
            run, run.evaluate(run, frame, node.test), Location(frame.code.file, node.test)
        )

    with _loop(run, frame, node) as flags:
        _while_iterations(run, frame, node, holds, flags, location)
        leaves = run.flag(frame, flags.broken)
    _otherwise(run, frame, node, leaves, location)


def _while_iterations(
    run: Run, frame: Frame, node: ast.While, holds: Test, flags: Flags, location: Location
) -> None:
    def body() -> None:
        flags.begin_iteration()
        run.execute(run, frame, node.body)

    iterations = 0
    while True:
        run.count_statement(location)
        test = both(run.recording, _unless(run, flags.stopped()), True)
        test = both(run.recording, test, holds()) if test is not False else False
        if test is False:
            run.note(location, f"{iterations} rounds, read one by one")
            return
        if not isinstance(test, bool):
            _roll_while(run, frame, node, holds, body, flags, location)
            return
        if not iterations and not yields(node.body) and _becomes_dynamic(run, holds, body, flags):
            roll = partial(_roll_while, run, frame, node, holds, body, flags, location)
            if attempt(run, roll) is None:
                return
        body()  # the first round may give what is carried its form
        iterations += 1


def _unless(run: Run, flag: bool | Number) -> bool | Number:
    return (not flag) if isinstance(flag, bool) else negated(run.recording, flag)


def _becomes_dynamic(run: Run, holds: Test, body: Callable[[], None], flags: Flags) -> bool:
    """Whether it depends on a tensor, behind a round, whether another one runs."""
    found: list[bool] = []

    def round_() -> None:
        body()
        stopped = flags.stopped()
        test = stopped if stopped is True else holds()
        found.append(isinstance(stopped, Number) or isinstance(test, Number))

    trial(run, round_)
    return found[0]


def _roll_while(
    run: Run,
    frame: Frame,
    node: ast.While,
    holds: Test,
    body: Callable[[], None],
    flags: Flags,
    location: Location,
) -> None:
    index = run.recording.fresh("round")
    state = State(run, location, _kept_names(frame, node) if holds() is True else set())
    endless: list[bool] = []

    def test() -> bool | Number:
        known = holds()
        endless.append(known is True)
        return both(run.recording, known, _unless(run, flags.stopped()))

    found = state.read(body)
    _require_state(state, test)
    _while(run, state, found, index, test, location)
    returned, broken = (run.flag(frame, each) for each in (RETURNED, flags.broken))
    if endless[-1] and broken is False and isinstance(returned, Number):
        flags.set(RETURNED, True)  # there is no other way out
    if endless[-1] and returned is False and isinstance(broken, Number):
        flags.set(flags.broken, True)


def _require_state(state: State, test: Test) -> None:
    """Reads the condition once, on what rounds start with, for what it may change."""
    block = state.block()

    def read() -> None:
        state.enter(block)
        state.run.undo_log.begin()
        try:
            test()
        finally:
            changes = state.run.undo_log.undo()
        if changes:
            rule = "the condition of a loop of the graph requires to change nothing"
            raise state.location.refuse(rule, changes[0].slot, "assign in the loop's body")

    region(state.run, block, read)


def _while(run: Run, state: State, found: Any, index: str, test: Test, location: Location) -> None:
    r = run.recording
    block = state.block()
    count = r.fresh("rounds")

    def read() -> None:
        state.enter(block)
        holds = test()
        value = r.scalar(bool, holds) if isinstance(holds, bool) else holds.value
        block.add_op(ConditionOp.create(operands=[value]))

    region(run, block, read)
    _finish(state, found, lambda b, i, v: WhileOp.of(index, count, v, block, b, state.sizes, i))
    run.note(location, f"graph.while, carrying {_listed(state)}")


def _finish(
    state: State, found: Any, make: Callable[[Block, Any, Sequence[SSAValue]], Any]
) -> None:
    r = state.recording
    with r.inside(found.block):
        found.block.add_op(YieldOp.create(operands=state.results_of(found)))
    b = r.builder()
    try:
        op = make(found.block, b.location, state.initial_values())
    except TypeInferenceError as error:
        rule, _, got = str(error).partition(", got ")
        raise state.location.refuse(rule, got, "give what is carried one shape") from error
    r.builder().builder.insert(op)
    state.leave(op.results)


def _listed(state: State) -> str:
    names = [each.what for each in state.carried.values() if not each.what.startswith("<")]
    names += ["a list" for _ in state.rows]
    return ", ".join(names) or "nothing"


def _otherwise(
    run: Run, frame: Frame, node: Loop, broken: bool | Number, location: Location
) -> None:
    """The `else` of a loop."""
    if not node.orelse or broken is True:
        return
    stopped = either(run.recording, broken, stopped_here(run, frame))
    if stopped is False:
        run.execute(run, frame, node.orelse)
    elif isinstance(stopped, Number):
        rest = partial(run.execute, run, frame, node.orelse)
        branch(run, negated(run.recording, stopped), rest, lambda: None, location)
