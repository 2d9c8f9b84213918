"""A scheduled kernel -> the proof that it may write a result over one of its operands.

A kernel works in place where no iteration stores an element of the result that a later or
concurrent one still loads as the operand's. The proof looks at each pair of a load and a store and
solves for the iterations in which both touch one element: every loop around both must then be in
one iteration, in which the load comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Block, Operation, SSAValue

from dialects.errors import PlanError
from dialects.expr import Atom, Expr, Extremum, Symbol, atom_expr
from dialects.interval import Range
from dialects.loop.ops import AccessOp, ForOp, IfOp, IndexOp, LoadOp, PrefetchOp, StoreOp
from dialects.loop.program import KernelOp, size_ranges
from dialects.loop.types import buffer_type


@dataclass(frozen=True)
class _Distance:
    """By how much the store's index of a loop exceeds the load's."""

    loop: ForOp


@dataclass(frozen=True)
class _Other:
    """A value that the store may see in another iteration than the load."""

    value: SSAValue


@dataclass(frozen=True)
class _Bound:
    """An atom and the expressions that it is at least and at most, each of which holds."""

    atom: Atom
    least: tuple[Expr, ...]
    greatest: tuple[Expr, ...]


def prove_in_place(kernel: KernelOp, operand: int, result: int) -> None:
    """Proves that argument `result` of a kernel may have the memory of argument `operand`.

    Raises PlanError with the accesses for which there is no proof.
    """
    arguments = kernel.body.block.args
    read, written = arguments[operand], arguments[result]
    if operand == result or buffer_type(read) != buffer_type(written):
        raise PlanError(
            f"kernel @{kernel.sym_name.data} requires an operand and a result of one type to work "
            f"in place, got {read.type} and {written.type}"
        )
    sizes = size_ranges(kernel)
    loads = _accesses(kernel, read, LoadOp)
    stores = [op for op in _accesses(kernel, written, AccessOp) if isinstance(op, StoreOp)]
    for load in _distinct(loads):
        for store in _distinct(stores):
            if not _loads_first(load, store, sizes):
                raise PlanError(
                    f"kernel @{kernel.sym_name.data} requires every element of argument {operand} "
                    f"to be loaded before argument {result} overwrites it, got "
                    f"{_shown(load)} and {_shown(store)}"
                )


def _accesses(kernel: KernelOp, buffer: SSAValue, kind: type[AccessOp]) -> list[AccessOp]:
    """The loads and stores of an argument. Raises PlanError where anything else uses it, or what
    is only read is written.
    """
    found: list[AccessOp] = []
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, PrefetchOp):
            continue
        if not isinstance(op, kind):
            raise PlanError(
                f"kernel @{kernel.sym_name.data} requires loads and stores alone of what it works "
                f"on in place, got {op.name}"
            )
        found.append(op)
    return found


def _distinct(accesses: Iterable[AccessOp]) -> list[AccessOp]:
    """One access of each block and index: of loads the last, of stores the first."""
    found: dict[object, AccessOp] = {}
    for access in accesses:
        key = (access.parent, access.index)
        other = found.setdefault(key, access)
        if other.is_before_in_block(access) == isinstance(access, LoadOp):
            found[key] = access
    return list(found.values())


def _loads_first(load: AccessOp, store: AccessOp, sizes: Mapping[Atom, Range]) -> bool:
    """Whether the store never overwrites what the load still reads."""
    around_load, around_store = _loops(load), _loops(store)
    if around_load is None or around_store is None:
        return False
    shared = [loop for loop in around_load if loop in around_store]
    pair = _Pair(load, store, around_load, around_store, shared, sizes)
    apart = pair.distances_that_are_not_zero()
    return apart is None or (not apart and _precedes(load, store))


def _loops(op: Operation) -> list[ForOp] | None:
    """The loops around an operation, the outermost first; None in control flow of another kind."""
    loops: list[ForOp] = []
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, KernelOp):
        if isinstance(parent, ForOp):
            loops.insert(0, parent)
        elif not isinstance(parent, IfOp):
            return None
        parent = parent.parent_op()
    return loops


def _precedes(load: Operation, store: Operation) -> bool:
    """Whether the load runs first, or one of both does not run, in one iteration of the loops
    around both.
    """
    ancestors: dict[Block | None, Operation] = {}
    op: Operation | None = load
    while op is not None:
        ancestors[op.parent] = op
        op = op.parent_op()
    op = store
    while op is not None and op.parent not in ancestors:
        op = op.parent_op()
    assert op is not None, "both lie in one kernel"
    first = ancestors[op.parent]
    if first is op:  # the regions of one branch, of which one runs
        return isinstance(op, IfOp)
    return first.is_before_in_block(op)


class _Pair:
    """A load and a store, and the equations that hold where both touch one element."""

    def __init__(
        self,
        load: AccessOp,
        store: AccessOp,
        around_load: Sequence[ForOp],
        around_store: Sequence[ForOp],
        shared: Sequence[ForOp],
        sizes: Mapping[Atom, Range],
    ):
        self.shared = shared
        self.sizes = sizes
        private = [loop for loop in around_store if loop not in shared]
        moved: dict[Atom, Expr] = {
            loop.index: atom_expr(loop.index) + atom_expr(_Distance(loop)) for loop in shared
        }
        own = {loop.index for loop in (*around_load, *private)}
        # Outermost first: what bounds an atom mentions only those in front of it.
        self.bounds = [_index_bound(loop) for loop in around_load]
        self.bounds += [_distance_bound(loop, moved) for loop in shared]
        self.bounds += [_substituted(_index_bound(loop), moved) for loop in private]
        ranges = self._ranges()
        here = _elements(load, ranges)
        there = _elements(store, ranges)
        self.equations: list[Expr] = [
            _as_seen_elsewhere(right, own).substitute(moved) - left
            for left, right in zip(here, there, strict=True)
        ]

    def _ranges(self) -> dict[Atom, Range]:
        """The bounds of indices as numbers, as far as they are."""
        ranges = dict(self.sizes)
        for bound in self.bounds:
            lows = [low for expr in bound.least if (low := expr.range(ranges)[0]) is not None]
            highs = [high for each in bound.greatest if (high := each.range(ranges)[1]) is not None]
            ranges[bound.atom] = (max(lows, default=None), min(highs, default=None))
        return ranges

    def distances_that_are_not_zero(self) -> list[ForOp] | None:
        """The loops around both that may be in two iterations when both touch one element; None
        where they never touch one.
        """
        left = list(self.shared)
        zero: dict[Atom, Expr] = {}
        equations: list[Expr] = self.equations
        while True:
            if any(self._is_positive(each) or self._is_positive(-each) for each in equations):
                return None
            found = [loop for loop in left if any(self._is_zero(loop, e) for e in equations)]
            if not found:
                return left
            left = [loop for loop in left if loop not in found]
            zero.update((_Distance(loop), Expr.of(0)) for loop in found)
            equations = [each.substitute(zero) for each in equations]
            self.bounds = [_substituted(bound, zero) for bound in self.bounds]

    def _is_zero(self, loop: ForOp, equation: Expr) -> bool:
        """Whether an equation holds in one iteration of a loop alone: all other terms together are
        less than what a step of the loop adds.
        """
        distance = _Distance(loop)
        factor = equation.coefficient(distance)
        if not factor.terms or not equation.is_affine_in(distance):
            return loop.extent == 1
        rest = equation - factor * atom_expr(distance)
        step = factor * loop.step.data
        return any(
            self._is_positive(size - rest) and self._is_positive(size + rest)
            for size in (step, -step)
        )

    def _is_positive(self, expr: Expr) -> bool:
        """Whether an expression is above 0 for all indices within their bounds."""
        return self._reaches(expr, len(self.bounds))

    def _reaches(self, expr: Expr, count: int) -> bool:
        """The same, of the first `count` atoms with bounds; the innermost one is replaced first."""
        for number in range(count - 1, -1, -1):
            bound = self.bounds[number]
            if bound.atom not in set(expr.atoms()):
                continue
            factor = expr.coefficient(bound.atom)
            if not expr.is_affine_in(bound.atom):
                return False
            low, high = factor.range(self.sizes)
            if low is not None and low >= 0:
                values = bound.least
            elif high is not None and high <= 0:
                values = bound.greatest
            else:
                return False
            return any(
                self._reaches(expr.substitute({bound.atom: value}), number) for value in values
            )
        if not all(isinstance(atom, Symbol) for atom in expr.atoms()):
            return False
        low, _ = expr.range(self.sizes)
        return low is not None and low > 0


def _elements(access: AccessOp, ranges: Mapping[Atom, Range]) -> list[Expr]:
    """What tells the element of an access from others: its subscripts, and its position in storage,
    which puts the digits of coalesced loops together again.
    """
    index = [_expanded(expr) for expr in access.index]
    return [*(each.simplify(ranges) for each in index),
            access.buffer_type.address(index).simplify(ranges)]  # fmt: skip


def _expanded(expr: Expr) -> Expr:
    """The expression over loop indices in place of the `loop.index` operations between."""
    computed: dict[Atom, Expr] = {
        atom: _expanded(atom.owner.value)
        for atom in _values(expr)
        if isinstance(atom.owner, IndexOp)
    }
    return expr.substitute(computed) if computed else expr


def _values(expr: Expr) -> list[SSAValue]:
    return [cast(SSAValue, atom) for atom in expr.atoms() if isinstance(atom, SSAValue)]


def _as_seen_elsewhere(expr: Expr, indices: Iterable[Atom]) -> Expr:
    """The expression with values that are no indices, such as loaded ones, told apart from those
    that the load sees.
    """
    own = set(indices)
    others: dict[Atom, Expr] = {
        value: atom_expr(_Other(value)) for value in _values(expr) if value not in own
    }
    return expr.substitute(others)


def _index_bound(loop: ForOp) -> _Bound:
    lower, upper = _expanded(loop.lower), _expanded(loop.upper)
    greatest = tuple(each - 1 for each in _operands(upper, "min"))
    return _Bound(loop.index, _operands(lower, "max"), greatest)


def _distance_bound(loop: ForOp, moved: Mapping[Atom, Expr]) -> _Bound:
    """How far the index that the store sees may be from the load's, whose own bounds may be those
    of other iterations around.
    """
    here = _index_bound(loop)
    there = _substituted(here, moved)
    least = tuple(low - high for low in there.least for high in here.greatest)
    greatest = tuple(high - low for high in there.greatest for low in here.least)
    return _Bound(_Distance(loop), least, greatest)


def _substituted(bound: _Bound, values: Mapping[Atom, Expr]) -> _Bound:
    least = tuple(each.substitute(values) for each in bound.least)
    return _Bound(bound.atom, least, tuple(each.substitute(values) for each in bound.greatest))


def _operands(expr: Expr, kind: str) -> tuple[Expr, ...]:
    """What a `min` is at most, or a `max` at least: each of its operands, with what is added."""
    for monomial, factor in expr.terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if factor == 1 and isinstance(atom, Extremum) and atom.kind == kind:
            rest = expr - atom_expr(atom)
            return tuple(each + rest for each in sorted(atom.operands, key=_mentions_values))
    return (expr,)


def _mentions_values(expr: Expr) -> bool:
    return bool(_values(expr))


def _shown(access: AccessOp) -> str:
    index = ", ".join(expr.format(_name) for expr in access.index)
    return f"{access.name} of [{index}]"


def _name(atom: Atom) -> str:
    return f"%{atom.name_hint or '?'}" if isinstance(atom, SSAValue) else str(atom)
