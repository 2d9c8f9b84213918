"""Basic blocks of loops and branches, each body a scope of its frame."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from llvmlite import ir

from weft.compiler.loop_to_llvm.index import IndexEmitter
from weft.compiler.loop_to_llvm.scalar.elements import I64
from weft.dialects.expr import Expr

Iteration = Callable[[Expr], None]


class ControlEmitter:
    """Emits counted loops, branches and while loops of one function."""

    def __init__(self, index: IndexEmitter):
        self.index = index
        self.frame = index.frame

    def count(self, extent: Expr, iteration: Iteration) -> None:
        """A loop that counts from 0 up to the extent."""
        low, high = extent.range(self.frame.ranges)
        if high is not None and high <= 1:
            self._once(extent, iteration)
            return
        bounds = (0, None if high is None else high - 1)
        end = self.index.uniform(extent)
        runs = low is not None and low >= 1
        self.loop(ir.Constant(I64, 0), end, bounds, iteration, runs=runs)

    def _once(self, extent: Expr, iteration: Iteration) -> None:
        if extent.constant is None:
            with self.when(self.index.is_positive(extent), "once"):
                iteration(Expr.of(0))
        elif extent.constant > 0:
            iteration(Expr.of(0))

    def loop(
        self,
        begin: ir.Value,
        end: ir.Value,
        bounds: tuple[int, int | None],
        iteration: Iteration,
        *,
        runs: bool = False,
    ) -> None:
        """A loop from begin up to end; `runs` says that there is an iteration."""
        builder = self.frame.builder
        before, body, after = builder.block, self.frame.block("loop"), self.frame.block("after")
        if runs:
            builder.branch(body)
        else:
            builder.cbranch(builder.icmp_signed("<", begin, end), body, after)
        with self.frame.scope(body):
            counter = builder.phi(I64)
            counter.add_incoming(begin, before)
            atom = self.frame.atom(counter, bounds)
            counted = self.index.counted(atom, begin, before)
            iteration(Expr.atom(atom))
            counted.advance(builder)
            following = builder.add(counter, ir.Constant(I64, 1), flags=("nuw", "nsw"))
            counter.add_incoming(following, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, end), body, after)
        builder.position_at_end(after)

    @contextmanager
    def when(self, condition: ir.Value, name: str) -> Generator[None]:
        """A branch that runs where the condition holds."""
        builder = self.frame.builder
        then, after = self.frame.block(name), self.frame.block("after")
        builder.cbranch(condition, then, after)
        with self.frame.scope(then):
            yield
            builder.branch(after)
        builder.position_at_end(after)

    def repeat(self, condition: Callable[[], ir.Value], body: Callable[[], None]) -> None:
        """A loop that computes its condition anew before each round of the body."""
        builder = self.frame.builder
        head, round_, after = (self.frame.block(name) for name in ("while", "do", "after"))
        builder.branch(head)
        with self.frame.scope(head):
            builder.cbranch(condition(), round_, after)
            with self.frame.scope(round_):
                body()
                builder.branch(head)
        builder.position_at_end(after)
