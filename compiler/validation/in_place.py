"""A scheduled kernel -> the proof that it may write a result over one of its operands.

A kernel works in place where no iteration stores an element of the result that a later or
concurrent one still loads as the operand's. The proof looks at each pair of a load and a store and
solves for the iterations in which both touch one element: every loop around both must then be in
one iteration, in which the load comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import cast

from msgspec import Struct
from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from weft.dialects.errors import PlanError
from weft.dialects.expr import Atom, Expr, Extremum, Symbol
from weft.dialects.interval import Range
from weft.dialects.loop.arithmetic import IndexOp
from weft.dialects.loop.ops import AccessOp, ForOp, IfOp, LoadOp, PrefetchOp, StoreOp
from weft.dialects.loop.program import IN_PLACE, KernelOp, size_ranges
from weft.dialects.loop.types import buffer_type_of


class _Distance(Struct, frozen=True):
    """By how much the store's index of a loop exceeds the load's."""

    loop: ForOp


class _Other(Struct, frozen=True):
    """A value that the store may see in another iteration than the load."""

    value: SSAValue


class _Bound(Struct, frozen=True):
    """An atom and the expressions that it is at least and at most, each of which holds."""

    atom: Atom
    least: tuple[Expr, ...]
    greatest: tuple[Expr, ...]


def claims_of(kernel: KernelOp) -> list[tuple[int, int]]:
    """The pairs that are noted on a kernel: an operand, and the result that may have its memory."""
    noted = kernel.attributes.get(IN_PLACE)
    if not isa(noted, DenseArrayBase[IntegerType]):
        return []
    positions = noted.get_values()
    return list(zip(positions[::2], positions[1::2], strict=True))


def prove_claims(kernel: KernelOp) -> None:
    """Proves every pair that is noted on a kernel. Raises PlanError for one without a proof."""
    for operand, result in claims_of(kernel):
        prove_in_place(kernel, operand, result)


def prove_in_place(kernel: KernelOp, operand: int, result: int) -> None:
    """Proves that argument `result` of a kernel may have the memory of argument `operand`.

    Raises PlanError with the accesses for which there is no proof.
    """
    arguments = kernel.body.block.args
    read, written = arguments[operand], arguments[result]
    if operand == result or buffer_type_of(read) != buffer_type_of(written):
        raise PlanError(
            f"kernel @{kernel.sym_name.data} requires an operand and a result of one type to work "
            f"in place, got {read.type} and {written.type}"
        )
    sizes = size_ranges(kernel)
    loads = _accesses(kernel, read, LoadOp)
    stores = [op for op in _accesses(kernel, written, AccessOp) if isinstance(op, StoreOp)]
    stored = [_Element(store, sizes) for store in _distinct(stores)]
    for load in (_Element(load, sizes) for load in _distinct(loads)):
        for store in stored:
            if not _loads_first(load, store):
                raise PlanError(
                    f"kernel @{kernel.sym_name.data} requires every element of argument {operand} "
                    f"to be loaded before argument {result} overwrites it, got "
                    f"{_shown(load.op)} and {_shown(store.op)}"
                )


def _accesses(kernel: KernelOp, buffer: SSAValue, op_class: type[AccessOp]) -> list[AccessOp]:
    """The loads and stores of an argument. Raises PlanError where anything else uses it, or what
    is only read is written.
    """
    found: list[AccessOp] = []
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, PrefetchOp):
            continue
        if not isinstance(op, op_class):
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


class _Element(Struct, eq=False, dict=True):
    """An access, the loops around it, and what tells its element from others."""

    op: AccessOp
    sizes: Mapping[Atom, Range]

    @cached_property
    def loops(self) -> list[ForOp] | None:
        """The loops around it; None in control flow of another kind."""
        return _loops(self.op)

    @cached_property
    def subscripts(self) -> list[Expr]:
        """The subscripts of the element."""
        return [_expanded(each).simplify(self._ranges) for each in self.op.index]

    @cached_property
    def address(self) -> list[Expr]:
        """Its position in storage, which puts the digits of coalesced loops together again."""
        index = [_expanded(each) for each in self.op.index]
        return [self.op.buffer_type.address(index).simplify(self._ranges)]

    @cached_property
    def span(self) -> tuple[Expr, Expr] | None:
        """The least and the greatest address, over sizes; None where they are not known."""
        least, greatest = -self._most(-self.address[0]), self._most(self.address[0])
        known = (isinstance(atom, Symbol) for each in (least, greatest) for atom in each.atoms())
        return (least, greatest) if all(known) else None

    def _most(self, expr: Expr) -> Expr:
        """The expression with indices at the ends of their loops that make it greatest, as far as
        it is seen which these are.
        """
        for bound in map(_index_bound, reversed(self.loops or ())):
            low, high = expr.coefficient(bound.atom).range(self.sizes)
            rises, falls = low is not None and low >= 0, high is not None and high <= 0
            if expr.is_affine_in(bound.atom) and (rises or falls):
                value = bound.greatest[0] if rises else bound.least[0]
                expr = expr.substitute({bound.atom: value})
        return expr

    @cached_property
    def _ranges(self) -> dict[Atom, Range]:
        """The bounds of indices as numbers, as far as they are."""
        ranges = dict(self.sizes)
        for bound in map(_index_bound, self.loops or ()):
            lows = [low for expr in bound.least if (low := expr.range(ranges)[0]) is not None]
            highs = [high for each in bound.greatest if (high := each.range(ranges)[1]) is not None]
            ranges[bound.atom] = (max(lows, default=None), min(highs, default=None))
        return ranges


def _loads_first(load: _Element, store: _Element) -> bool:
    """Whether the store never overwrites what the load still reads."""
    if load.loops is None or store.loops is None:
        return False
    if load.op.parent is not store.op.parent and _are_disjoint(load, store):
        return True
    shared = [loop for loop in load.loops if loop in store.loops]
    return _Pair(load, store, load.loops, store.loops, shared).loads_first()


def _are_disjoint(one: _Element, other: _Element) -> bool:
    """Whether one access only touches addresses behind those of the other."""
    if one.span is None or other.span is None:
        return False
    gaps = one.span[0] - other.span[1], other.span[0] - one.span[1]
    return any((gap.range(one.sizes)[0] or 0) > 0 for gap in gaps)


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
        load: _Element,
        store: _Element,
        around_load: Sequence[ForOp],
        around_store: Sequence[ForOp],
        shared: Sequence[ForOp],
    ):
        self.load = load
        self.store = store
        self.shared = shared
        self.sizes = load.sizes
        private = [loop for loop in around_store if loop not in shared]
        self.moved: dict[Atom, Expr] = {
            loop.index: Expr.atom(loop.index) + Expr.atom(_Distance(loop)) for loop in shared
        }
        self.own = {loop.index for loop in around_store}
        # Outermost first: what bounds an atom mentions only those in front of it.
        self.bounds = [_index_bound(loop) for loop in around_load]
        self.bounds += [_distance_bound(loop, self.moved) for loop in shared]
        self.bounds += [_substituted(_index_bound(loop), self.moved) for loop in private]

    def _equations(self, here: Sequence[Expr], there: Sequence[Expr]) -> list[Expr]:
        """What is 0 where both touch one element."""
        return [
            _as_seen_elsewhere(right, self.own).substitute(self.moved) - left
            for left, right in zip(here, there, strict=True)
        ]

    def loads_first(self) -> bool:
        """Whether both touch one element in one iteration of the loops around both alone, in which
        the load comes first; or never.
        """
        ordered = _precedes(self.load.op, self.store.op)
        left = self._solve(
            list(self.shared), self._equations(self.load.address, self.store.address)
        )
        if left is None or (ordered and not left):
            return True
        subscripts = self._equations(self.load.subscripts, self.store.subscripts)
        left = self._solve(left, subscripts)
        return left is None or (ordered and not left)

    def _solve(self, left: list[ForOp], equations: list[Expr]) -> list[ForOp] | None:
        """Those of the loops that may be in two iterations where equations hold; None where these
        never do.
        """
        alike = self.load.op.index == self.store.op.index
        while True:
            if not alike and any(map(self._is_never_zero, equations)):
                return None
            found = [loop for loop in left if any(self._is_zero(loop, e) for e in equations)]
            if not found:
                return left
            left = [loop for loop in left if loop not in found]
            zero: dict[Atom, Expr] = {_Distance(loop): Expr.of(0) for loop in found}
            equations = [each.substitute(zero) for each in equations]
            self.bounds = [_substituted(bound, zero) for bound in self.bounds]

    def _is_never_zero(self, equation: Expr) -> bool:
        return self._is_positive(equation) or self._is_positive(-equation)

    def _is_zero(self, loop: ForOp, equation: Expr) -> bool:
        """Whether an equation holds in one iteration of a loop alone: all other terms together are
        less than what a step of the loop adds.
        """
        distance = _Distance(loop)
        factor = equation.coefficient(distance)
        if not factor.terms or not equation.is_affine_in(distance):
            return loop.extent == 1
        rest = equation - factor * Expr.atom(distance)
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
        value: Expr.atom(_Other(value)) for value in _values(expr) if value not in own
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


def _operands(expr: Expr, operator: str) -> tuple[Expr, ...]:
    """What a `min` is at most, or a `max` at least: itself and each of its operands, with what is
    added; those without indices come first.
    """
    found = [expr]
    for monomial, factor in expr.terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if factor == 1 and isinstance(atom, Extremum) and atom.operator == operator:
            rest = expr - Expr.atom(atom)
            found += [each + rest for each in atom.operands]
    return tuple(sorted(found, key=_mentions_values))


def _mentions_values(expr: Expr) -> bool:
    return bool(_values(expr))


def _shown(access: AccessOp) -> str:
    index = ", ".join(expr.format(_name) for expr in access.index)
    return f"{access.name} of [{index}]"


def _name(atom: Atom) -> str:
    return f"%{atom.name_hint or '?'}" if isinstance(atom, SSAValue) else str(atom)
