"""How much work an iteration of a loop is, how much is worth another thread, and what of a kernel
threads share.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from xdsl.ir import Block, Operation

from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.arithmetic import GeluOp, ThreefryOp, is_function
from weft.dialects.loop.ops import ForOp

GRAIN_OPERATIONS = 16384
"""How many operations a thread should get at least: a few microseconds, well above the cost of a
fork and join.
"""

CHUNKS_PER_THREAD = 8
"""How many chunks a parallel loop has for each thread at most."""

BRIEF_OPERATIONS = 16384
"""How many operations of naive kernels, which become vectors of them, take a program less time than
its call does: a microsecond.
"""

FUNCTION_OPERATIONS = 12
"""What a call of a mathematical function counts as."""

GELU_OPERATIONS = FUNCTION_OPERATIONS + 6
"""What GELU counts as: the error function, and the constants, products and sum around it."""

THREEFRY_OPERATIONS = 75
"""What random words count as: three operations in each of 20 rounds, and sums with the key."""


class Section(Struct, frozen=True):
    """What of a kernel runs in parallel: how often, the tasks of which chunks are made, how many of
    them are enough for a thread, and the operations of all runs.
    """

    runs: int
    tasks: int
    grain: int
    operations: int

    def busiest(self, threads: int) -> float:
        """The share of the tasks that the thread has which has the most; 1 for a single chunk."""
        chunks = min(-(-self.tasks // max(1, self.grain)), threads * CHUNKS_PER_THREAD)
        return 1.0 if chunks < 2 or threads < 2 else -(-chunks // threads) / chunks


class Shares(Struct, frozen=True):
    """The operations of a kernel that one thread does, and its parallel sections."""

    serial: int
    sections: list[Section]


def shares_of(block: Block) -> Shares | None:
    """What threads share of a kernel's body; None where sizes vary."""
    parts = list(_parts(block, Expr.of(1)))
    sections = [each for each in parts if isinstance(each, Section)]
    serial = [each for each in parts if isinstance(each, int)]
    known = len(sections) + len(serial) == len(parts) and min(serial, default=0) >= 0
    return Shares(sum(serial), sections) if known else None


def _parts(block: Block, runs: Expr) -> Iterator[Section | int | None]:
    """The sections of a block that runs so often, and the operations beside them; None for those
    that are not known.
    """
    beside = Expr.of(0)
    single = 0
    for op in block.ops:
        if not op.regions:
            single += _operation_cost(op)
        elif isinstance(op, ForOp) and op.parallel is not None:
            yield _section(op, runs)
        elif isinstance(op, ForOp) and _has_sections(op):
            extent = (op.upper - op.lower).ceildiv(op.step.data)
            yield from _parts(op.body.block, runs * extent)
        else:
            beside = beside + _cost(op, {})
    yield (runs * (beside + single)).constant


def _has_sections(op: ForOp) -> bool:
    return any(isinstance(each, ForOp) and each.parallel is not None for each in op.walk())


def _section(op: ForOp, runs: Expr) -> Section | None:
    tasks = (op.upper - op.lower).ceildiv(op.step.data)
    tasks = tasks if op.vector is None else tasks.ceildiv(op.vector.data)
    each = iteration_cost(op)
    numbers = runs.constant, tasks.constant, each.constant
    times, count, cost = (number or 0 for number in numbers)
    if min(times, count, cost) < 1:
        return None
    return Section(times, count, -(-GRAIN_OPERATIONS // cost), times * count * cost)


def block_cost(block: Block) -> Expr:
    """About how many operations a block runs."""
    return _block_cost(block, {})


def iteration_cost(loop: ForOp) -> Expr:
    """About how many operations one iteration runs, at least 1; a vector operation counts once.

    Where an inner loop's extent depends on an index of the nest, that index counts as its upper
    bound.
    """
    return block_cost(loop.body.block) + 1


def _block_cost(block: Block, greatest: dict[Atom, Expr]) -> Expr:
    with_regions = (_cost(op, greatest) for op in block.ops if op.regions)
    single = sum(_operation_cost(op) for op in block.ops if not op.regions)
    return sum(with_regions, Expr.of(single))


def _cost(op: Operation, greatest: dict[Atom, Expr]) -> Expr:
    """What an operation with regions costs."""
    if isinstance(op, ForOp):
        return _loop_cost(op, greatest)
    inside = (_block_cost(region.block, greatest) for region in op.regions)
    return sum(inside, Expr.of(_operation_cost(op)))


def _operation_cost(op: Operation) -> int:
    if isinstance(op, GeluOp):
        return GELU_OPERATIONS
    if isinstance(op, ThreefryOp):
        return THREEFRY_OPERATIONS
    return FUNCTION_OPERATIONS if is_function(op) else 1


def _loop_cost(loop: ForOp, greatest: dict[Atom, Expr]) -> Expr:
    upper = loop.upper.substitute(greatest)
    extent = (upper - loop.lower.substitute(greatest)).ceildiv(loop.step.data)
    if loop.vector is not None:
        extent = extent.ceildiv(loop.vector.data)
    return extent * _block_cost(loop.body.block, greatest | {loop.index: upper})
