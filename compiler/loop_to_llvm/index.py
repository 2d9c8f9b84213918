"""Integer expressions as LLVM IR: i64 arithmetic, each part emitted in the outermost scope that
knows its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import reduce

from llvmlite import ir
from msgspec import Struct, field

from weft.compiler.loop_to_llvm.frame import Frame, IndexValue, LaneNumber, LaneValues
from weft.compiler.loop_to_llvm.scalar.elements import I64, intrinsic, lanes_of, splat
from weft.dialects.expr import Atom, Expr, Extremum, Monomial, Quotient, Remainder, Symbol

Terms = Mapping[Monomial, int]


def varies(expr: Expr) -> bool:
    """Whether the value differs from lane to lane."""
    return not _OF_LANES.isdisjoint(map(type, expr.atoms()))


_OF_LANES = frozenset((LaneNumber, LaneValues))


class Digit(Struct, eq=False):
    """A counter's remainder and quotient by a divisor, which count with it: `step` is what the
    dividend goes up by in an iteration, None for one; `carry` what the quotient does, once known.
    """

    divisor: ir.Value
    remainder: ir.PhiInstr
    quotient: ir.PhiInstr
    first: ir.Value
    """The quotient in the first iteration."""
    step: Digit | None
    carry: ir.Value | None = None


class Counter(Struct, eq=False):
    """A counter of a loop, from which value on it goes, its blocks, and the digits of it."""

    begin: ir.Value
    header: ir.Block
    before: ir.Block
    digits: dict[tuple[Atom, Expr], Digit] = field(default_factory=dict[tuple[Atom, Expr], Digit])

    def advance(self, builder: ir.IRBuilder) -> None:
        """Emits the next values of all digits, at the end of the loop's body."""
        one, zero = ir.Constant(I64, 1), ir.Constant(I64, 0)
        for digit in self.digits.values():
            step = one if digit.step is None else digit.step.carry
            following = builder.add(digit.remainder, step)
            wraps = builder.icmp_signed("==", following, digit.divisor)
            digit.carry = builder.zext(wraps, I64)
            digit.remainder.add_incoming(builder.select(wraps, zero, following), builder.block)
            digit.quotient.add_incoming(builder.add(digit.quotient, digit.carry), builder.block)


class IndexEmitter:
    """Emits expressions into a frame; `sizes` are the values of the symbols."""

    def __init__(self, frame: Frame, sizes: Mapping[str, ir.Value]):
        self.frame = frame
        self.sizes = dict(sizes)
        self._counters: dict[Atom, Counter] = {}
        # By a symbol that was bound: what was computed from it since, and where that is known.
        self._computed: dict[Atom, list[tuple[dict[Hashable, ir.Value], Hashable]]] = {}

    def bind(self, name: str, value: ir.Value) -> None:
        """Gives a symbol its value, from here on and in scopes inside this one."""
        symbol = Symbol(name)
        assert name not in self.sizes or symbol in self._computed, "a call's sizes stay as they are"
        self.sizes[name] = value
        self.frame.depths[symbol] = len(self.frame.scopes) - 1
        for known, key in self._computed.get(symbol, ()):
            known.pop(key, None)
        self._computed[symbol] = []

    @property
    def binds(self) -> bool:
        """Whether symbols get their values while code is emitted: what is known may change then."""
        return bool(self._computed)

    def depth(self, atom: Atom) -> int:
        """The scope from which on an atom is known."""
        if isinstance(atom, (Quotient, Remainder)):
            return max(self.expr_depth(atom.dividend), self.expr_depth(atom.divisor))
        if isinstance(atom, Extremum):
            return max(self.expr_depth(operand) for operand in atom.operands)
        return self.frame.depths.get(atom, 0)

    def expr_depth(self, expr: Expr) -> int:
        """The scope from which on a whole expression is known."""
        return max((self.depth(atom) for monomial in expr.terms for atom in monomial), default=0)

    def by_depth(self, expr: Expr) -> tuple[list[tuple[int, Expr]], int]:
        """The sums of the terms that are known from each depth on, outermost first, and the
        constant term.
        """
        groups: dict[int, dict[Monomial, int]] = {}
        for monomial, factor in _in_order(expr.terms):
            if monomial:
                depth = max(self.depth(atom) for atom in monomial)
                groups.setdefault(depth, {})[monomial] = factor
        ordered = sorted(groups.items())
        return [(depth, Expr(terms)) for depth, terms in ordered], expr.terms.get((), 0)

    def uniform(self, expr: Expr) -> ir.Value:
        """The value of an expression that is the same in all lanes."""
        groups, offset = self.by_depth(expr)
        if not groups:
            return ir.Constant(I64, offset)
        prefix = Expr({})
        total: ir.Value | None = None
        for depth, group in groups:
            prefix = prefix + group
            total = self.remember(depth, prefix, self._adder(total, group))
        assert total is not None
        if not offset:
            return total
        constant = ir.Constant(I64, offset)
        return self.remember(groups[-1][0], expr, lambda builder: builder.add(total, constant))

    def remember(
        self, depth: int, key: Hashable, emit: Callable[[ir.IRBuilder], ir.Value]
    ) -> ir.Value:
        """What `emit` gives in the scope of that depth, emitted once there."""
        known = self.frame.scopes[depth].known
        if key not in known:
            with self.frame.hoisted(depth) as builder:
                known[key] = emit(builder)
            for atom in _atoms(key) if self._computed else ():
                if atom in self._computed:
                    self._computed[atom].append((known, key))
        return known[key]

    def _adder(self, total: ir.Value | None, group: Expr) -> Callable[[ir.IRBuilder], ir.Value]:
        def add(builder: ir.IRBuilder) -> ir.Value:
            value = self._sum(builder, group.terms)
            return value if total is None else builder.add(total, value)

        return add

    def _sum(self, builder: ir.IRBuilder, terms: Terms) -> ir.Value:
        return reduce(builder.add, [self._term(builder, *term) for term in terms.items()])

    def _term(self, builder: ir.IRBuilder, monomial: Monomial, factor: int) -> ir.Value:
        values = [self._atom(atom) for atom in sorted(monomial, key=str)]
        if factor != 1:
            values.append(ir.Constant(I64, factor))
        return reduce(builder.mul, values)

    def _atom(self, atom: Atom) -> ir.Value:
        if isinstance(atom, Symbol):
            assert atom.name in self.sizes, f"a kernel takes the size {atom.name} that it uses"
            return self.frame.local(self.sizes[atom.name])
        if isinstance(atom, IndexValue):
            return self.frame.local(atom.value)
        assert isinstance(atom, (Quotient, Remainder, Extremum)), f"no value is known for {atom}"
        return self.remember(self.depth(atom), atom, lambda builder: self._operator(builder, atom))

    def counted(self, atom: Atom, begin: ir.Value, before: ir.Block) -> Counter:
        """An atom as a counter from `begin` on, of the loop that starts where the builder is."""
        counter = self._counters[atom] = Counter(begin, self.frame.builder.block, before)
        return counter

    def _digit(self, atom: Quotient | Remainder) -> Digit | None:
        """What counts the quotient or remainder of a counter, or of a quotient of one that is
        counted, by what does not change in its loop: the first iteration alone divides.
        """
        dividend, divisor = _only_atom(atom.dividend), atom.divisor
        root = dividend
        while isinstance(root, Quotient):
            root = _only_atom(root.dividend)
        counter = self._counters.get(root) if root is not None else None
        if dividend is None or counter is None or divisor.constant is not None:
            return None
        depth = self.depth(root)
        least, _ = divisor.range(self.frame.ranges)
        if self.expr_depth(divisor) >= depth or least is None or least < 0:
            return None
        if (dividend, divisor) not in counter.digits:
            step = self._digit(dividend) if isinstance(dividend, Quotient) else None
            if isinstance(dividend, Quotient) and step is None:
                return None
            self._count_digit(counter, depth, (dividend, divisor), step)
        return counter.digits[dividend, divisor]

    def _count_digit(
        self, counter: Counter, depth: int, key: tuple[Atom, Expr], step: Digit | None
    ) -> None:
        here, start = self.frame.builder.block, counter.begin if step is None else step.first
        with self.frame.hoisted(depth - 1) as builder:
            divisor = _nonzero(builder, self.uniform(key[1]))
            first, left = builder.udiv(start, divisor), builder.urem(start, divisor)
        self.frame.builder.position_at_start(counter.header)
        remainder, quotient = self.frame.builder.phi(I64), self.frame.builder.phi(I64)
        remainder.add_incoming(left, counter.before)
        quotient.add_incoming(first, counter.before)
        self.frame.enter(here)
        counter.digits[key] = Digit(divisor, remainder, quotient, first, step)

    def _operator(self, builder: ir.IRBuilder, atom: Quotient | Remainder | Extremum) -> ir.Value:
        if isinstance(atom, Extremum):
            values = [self.uniform(operand) for operand in atom.operands]
            return _extremum(builder, atom.operator, values)
        if (digit := self._digit(atom)) is not None:
            return digit.quotient if isinstance(atom, Quotient) else digit.remainder
        dividend, divisor = self.uniform(atom.dividend), self.uniform(atom.divisor)
        return self._divide(builder, atom, dividend, divisor)

    def _divide(
        self,
        builder: ir.IRBuilder,
        atom: Quotient | Remainder,
        dividend: ir.Value,
        divisor: ir.Value,
    ) -> ir.Value:
        low, _ = atom.dividend.range(self.frame.ranges)
        least, _ = atom.divisor.range(self.frame.ranges)
        if low is not None and low >= 0 and least is not None and least >= 0:
            unsigned = builder.udiv if isinstance(atom, Quotient) else builder.urem
            return unsigned(dividend, _nonzero(builder, divisor))
        return _floor_divide(builder, isinstance(atom, Quotient), dividend, divisor)

    def is_positive(self, expr: Expr) -> ir.Value:
        """Whether an expression is greater than 0."""
        return self.frame.builder.icmp_signed(">", self.uniform(expr), ir.Constant(I64, 0))

    def lanes(self, expr: Expr, lanes: int) -> ir.Value:
        """The values of an expression as a vector, one a lane."""
        uniform = Expr({m: f for m, f in expr.terms.items() if not varies(Expr({m: 1}))})
        rest = _in_order((expr - uniform).terms)
        varying = [self._lane_term(monomial, factor, lanes) for monomial, factor in rest]
        if uniform.terms or not varying:
            varying.append(splat(self.frame.builder, self.uniform(uniform), lanes))
        return reduce(self.frame.builder.add, varying)

    def _lane_term(self, monomial: Monomial, factor: int, lanes: int) -> ir.Value:
        builder = self.frame.builder
        atoms = [self._lane_atom(atom, lanes) for atom in sorted(monomial, key=str)]
        values = [splat(builder, atom, lanes) for atom in atoms]
        if factor != 1:
            values.append(splat(builder, ir.Constant(I64, factor), lanes))
        return reduce(builder.mul, values)

    def _lane_atom(self, atom: Atom, lanes: int) -> ir.Value:
        if isinstance(atom, LaneNumber):
            return ir.Constant(ir.VectorType(I64, lanes), list(range(lanes)))
        if isinstance(atom, LaneValues):
            return self.frame.local(atom.value)
        if isinstance(atom, Extremum):
            operands = [self.lanes(operand, lanes) for operand in atom.operands]
            return _extremum(self.frame.builder, atom.operator, operands)
        if isinstance(atom, (Quotient, Remainder)):
            dividend, divisor = self.lanes(atom.dividend, lanes), self.lanes(atom.divisor, lanes)
            return self._divide(self.frame.builder, atom, dividend, divisor)
        return self._atom(atom)


def _only_atom(expr: Expr) -> Atom | None:
    """The atom that an expression is; None for another one."""
    (monomial, factor), *others = expr.terms.items() if expr.terms else [((), 0)]
    return monomial[0] if not others and factor == 1 and len(monomial) == 1 else None


def _atoms(key: Hashable) -> Iterator[Atom]:
    """The atoms of an expression, of one that is an atom itself, or of what keys join to these."""
    for part in key if isinstance(key, tuple) else (key,):
        yield from (part if isinstance(part, Expr) else Expr({(part,): 1})).atoms()


def _in_order(terms: Terms) -> Iterable[tuple[Monomial, int]]:
    """The terms in an order that does not depend on where atoms are in this process's memory."""
    if len(terms) < 2:
        return terms.items()
    return sorted(terms.items(), key=lambda term: sorted(map(str, term[0])))


def _extremum(builder: ir.IRBuilder, operator: str, values: Iterable[ir.Value]) -> ir.Value:
    def choose(left: ir.Value, right: ir.Value) -> ir.Value:
        return intrinsic(builder, f"s{operator}", left.type, [left, right], left.type)

    return reduce(choose, values)


def _nonzero(builder: ir.IRBuilder, divisor: ir.Value) -> ir.Value:
    """The divisor, or 1 for 0: a hoisted division runs even where no iteration needs it."""
    if isinstance(divisor, ir.Constant):
        return divisor
    lanes = lanes_of(divisor)
    zero, one = (splat(builder, ir.Constant(I64, number), lanes) for number in (0, 1))
    return builder.select(builder.icmp_signed("==", divisor, zero), one, divisor)


def _floor_divide(
    builder: ir.IRBuilder, quotient: bool, dividend: ir.Value, divisor: ir.Value
) -> ir.Value:
    """Rounds towards minus infinity; the remainder has the divisor's sign."""
    divisor = _nonzero(builder, divisor)
    lanes = lanes_of(dividend)
    zero = splat(builder, ir.Constant(I64, 0), lanes)
    remainder = builder.srem(dividend, divisor)
    inexact = builder.icmp_signed("!=", remainder, zero)
    opposite = builder.icmp_signed("<", builder.xor(remainder, divisor), zero)
    adjust = builder.and_(inexact, opposite)
    if quotient:
        steps = builder.sext(adjust, dividend.type)
        return builder.add(builder.sdiv(dividend, divisor), steps)
    return builder.add(remainder, builder.select(adjust, divisor, zero))
