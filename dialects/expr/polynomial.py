"""Polynomials over atoms in one canonical form: arithmetic, ranges, substitution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from itertools import chain

from weft.dialects import interval
from weft.dialects.errors import WeftError
from weft.dialects.expr.atoms import (
    OPERATORS,
    Extremum,
    Operand,
    Quotient,
    Remainder,
    Symbol,
    atom_range,
    children_of,
    evaluate_atom,
    format_sum,
)
from weft.dialects.expr.joins import join_quotients, multiply_terms
from weft.dialects.expr.terms import (
    Atom,
    Monomial,
    add_terms,
    common_factors,
    distance,
    split_multiples,
)
from weft.dialects.interval import Range


class Expr:
    """A polynomial over atoms; immutable, hashable, with Python's arithmetic operators."""

    __slots__ = ("_atoms", "_hash", "_operators", "_text", "constant", "terms")

    terms: Mapping[Monomial, int]
    constant: int | None
    """The value of an expression without atoms, else None."""

    def __init__(self, terms: Mapping[Monomial, int], *, operators: bool | None = None):
        self.terms = terms
        self.constant = (terms.get(()) if len(terms) == 1 else None) if terms else 0
        self._hash: int | None = None
        self._operators = operators
        self._atoms: tuple[Atom, ...] | None = None
        self._text: str | None = None

    @staticmethod
    def of(value: ExprLike) -> Expr:
        """The expression that an int, a symbol's name or an atom stands for."""
        if type(value) is Expr:
            return value
        if isinstance(value, int):
            return _NUMBERS.get(value) or (Expr({(): int(value)}) if value else _ZERO)
        if isinstance(value, str):
            return Expr({(Symbol(value),): 1})
        return Expr({(value,): 1})

    @staticmethod
    def atom(atom: Atom) -> Expr:
        """The expression of one atom of any kind, an SSA value for instance."""
        return Expr({(atom,): 1})

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is Expr:
            return self.terms == other.terms
        return isinstance(other, int) and self.constant == other

    def __add__(self, other: ExprLike) -> Expr:
        if type(other) is not Expr:
            other = Expr.of(other)
        return self._plus(other, 1)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return Expr({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: ExprLike) -> Expr:
        return self._plus(Expr.of(other), -1)

    def _plus(self, other: Expr, times: int) -> Expr:
        if not other.terms:
            return self
        if not self.terms:
            return other._times(times)
        terms = dict(self.terms)
        add_terms(terms, other.terms, times)
        joined = self.has_operators() or other.has_operators()
        return rejoin(terms) if joined else Expr(terms, operators=False)

    def __rsub__(self, other: ExprLike) -> Expr:
        return Expr.of(other) - self

    def __mul__(self, other: ExprLike) -> Expr:
        if type(other) is not Expr:
            other = Expr.of(other)
        if self.constant is not None:
            return other._times(self.constant)
        if other.constant is not None:
            return self._times(other.constant)
        return rejoin(multiply_terms(self.terms, other.terms))

    __rmul__ = __mul__

    def _times(self, number: int) -> Expr:
        if number == 1:
            return self
        if number == 0:
            return _ZERO
        return Expr({monomial: factor * number for monomial, factor in self.terms.items()})

    def __floordiv__(self, divisor: ExprLike) -> Expr:
        return _divide(self, Expr.of(divisor))[0]

    def __mod__(self, divisor: ExprLike) -> Expr:
        return _divide(self, Expr.of(divisor))[1]

    def ceildiv(self, divisor: ExprLike) -> Expr:
        """The quotient rounded up."""
        return -(-self // divisor)

    def __str__(self) -> str:
        if self._text is None:
            self._text = self.format(str)
        return self._text

    def __repr__(self) -> str:
        return f"Expr({self})"

    def atoms(self) -> Iterator[Atom]:
        """Every atom, the ones inside quotients, remainders and extrema too; may repeat."""
        if self._atoms is None:
            found: list[Atom] = []
            self._collect(found)
            self._atoms = tuple(found)
        return iter(self._atoms)

    def _collect(self, found: list[Atom]) -> None:
        for monomial in self.terms:
            for atom in monomial:
                if type(atom) in OPERATORS:
                    for child in children_of(atom):
                        child._collect(found)
                else:
                    found.append(atom)

    def symbols(self) -> list[str]:
        """The names of the sizes in the expression, each once, in order of appearance."""
        return list(dict.fromkeys(atom.name for atom in self.atoms() if isinstance(atom, Symbol)))

    def coefficient(self, atom: Atom) -> Expr:
        """What the atom is multiplied with outside of quotients, remainders and extrema."""
        terms: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            if atom in monomial:
                rest = list(monomial)
                rest.remove(atom)
                terms[tuple(rest)] = factor
        return Expr(terms)

    def is_affine_in(self, atom: Atom) -> bool:
        """Whether the expression is `coefficient(atom) * atom + rest`,
        neither of which mentions the atom.
        """
        if not self.has_operators():
            return not any(monomial.count(atom) > 1 for monomial in self.terms)
        return not any(
            monomial.count(atom) > 1 or any(_is_within(atom, other) for other in monomial)
            for monomial in self.terms
        )

    def has_operators(self) -> bool:
        """Whether there is a quotient, a remainder or an extremum in the expression."""
        if self._operators is None:
            self._operators = not OPERATORS.isdisjoint(map(type, chain.from_iterable(self.terms)))
        return self._operators

    def substitute(
        self, values: Mapping[Atom, Expr], ranges: Mapping[Atom, Range] | None = None
    ) -> Expr:
        """The expression with atoms replaced, simplified anew; as far as `ranges` of the atoms
        allow, if there are any.
        """
        if self.constant is not None:
            return self
        if not self.has_operators():
            return self._substituted(values, ranges)
        if not values or not self._mentions(values):
            return self if ranges is None else self.simplify(ranges)
        return self._map(lambda atom: _replace(atom, values, ranges))

    def _substituted(
        self, values: Mapping[Atom, Expr], ranges: Mapping[Atom, Range] | None
    ) -> Expr:
        """The expression, which has no operators, with atoms replaced: as most are, in one pass."""
        terms: dict[Monomial, int] = {}
        replaced, plain = False, True
        for monomial, factor in self.terms.items():
            if values.keys().isdisjoint(monomial):
                add_terms(terms, {monomial: factor}, 1)
                continue
            factors = [values.get(atom) or Expr.atom(atom) for atom in monomial]
            if ranges is not None:
                factors = [each.simplify(ranges) for each in factors]
            product = reduce(lambda left, right: right * left, factors)
            replaced, plain = True, plain and not product.has_operators()
            add_terms(terms, product.terms, factor)
        if not replaced:
            return self
        return Expr(terms, operators=False) if plain else rejoin(terms)

    def _mentions(self, values: Mapping[Atom, Expr]) -> bool:
        if any(atom in values for atom in self.atoms()):
            return True
        return any(type(atom) in OPERATORS for atom in values) and self._has_operator_of(values)

    def _has_operator_of(self, values: Mapping[Atom, Expr]) -> bool:
        operators = [atom for each in self.terms for atom in each if type(atom) in OPERATORS]
        return any(
            atom in values or any(child._has_operator_of(values) for child in children_of(atom))
            for atom in operators
        )

    def simplify(self, ranges: Mapping[Atom, Range]) -> Expr:
        """The expression with quotients, remainders and extrema resolved as
        far as the atoms' ranges allow.
        """
        if not self.has_operators():
            return self
        return self._simplified(_known(self.atoms(), ranges))

    @lru_cache(maxsize=1 << 12)  # noqa: B019  what it keeps are expressions, as the one below does
    def _simplified(self, known: Known) -> Expr:
        ranges = _of_known(known)
        return self._map(lambda atom: _resolve(atom, lambda child: child.simplify(ranges), ranges))

    def map_inner(self, change: Callable[[Expr], Expr]) -> Expr:
        """The expression with changes to what is inside of quotients, remainders and extrema."""
        return self._map(lambda atom: _resolve(atom, change, {}))

    def _map(self, change: Callable[[Atom], Expr | None]) -> Expr:
        """The expression of what each atom becomes, put together anew; None is the atom itself."""
        terms: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            if len(monomial) == 1:  # as most are: the product is a multiple
                only = change(monomial[0])
                add_terms(terms, {monomial: 1} if only is None else only.terms, factor)
                continue
            changed = [change(atom) for atom in monomial]
            product = Expr({monomial: factor})
            if any(each is not None for each in changed):
                product = Expr.of(factor)
                for atom, each in zip(monomial, changed, strict=True):
                    product = (Expr.atom(atom) if each is None else each) * product
            add_terms(terms, product.terms, 1)
        return rejoin(terms)

    def range(self, ranges: Mapping[Atom, Range]) -> Range:
        """Bounds of the value, given bounds of the atoms; a symbol without one is at least 0."""
        if (constant := self.constant) is not None:
            return constant, constant
        total: Range = (0, 0)
        for monomial, factor in self.terms.items():
            term: Range = (1, 1)
            for position, atom in enumerate(monomial):
                own = ranges.get(atom) or atom_range(atom, ranges)
                term = interval.multiply(term, own) if position else own
            total = interval.add(total, interval.multiply(term, (factor, factor)))
        return total

    def evaluate(self, values: Mapping[Atom, int]) -> int:
        """The value under an assignment of every atom."""
        total = 0
        for monomial, factor in self.terms.items():
            for atom in monomial:
                factor *= evaluate_atom(atom, values)
            total += factor
        return total

    def format(self, name: Callable[[Atom], str]) -> str:
        """The text of the expression, with `name` giving that of an atom that is no operator."""
        return format_sum(self.terms, name)


ExprLike = Expr | int | str | Symbol | Operand | Quotient | Remainder | Extremum

_NUMBERS = {number: Expr({(): number}) for number in range(-64, 1025) if number}
"""Expressions that are made over and over."""

_ZERO = Expr({})


Known = tuple[tuple[Atom, Range | None], ...]
"""The ranges of an expression's atoms: emission asks for few of them, each a hundred times."""


def _known(atoms: Iterable[Atom], ranges: Mapping[Atom, Range]) -> Known:
    return tuple([(atom, ranges.get(atom)) for atom in dict.fromkeys(atoms)])


def _of_known(known: Known) -> dict[Atom, Range]:
    return {atom: own for atom, own in known if own is not None}


def forget_expressions() -> None:
    """Lets go of what is kept of expressions, and with it of the IR that their atoms are in."""
    Expr._simplified.cache_clear()  # pyright: ignore[reportFunctionMemberAccess, reportPrivateUsage]
    _divided.cache_clear()


def _is_within(atom: Atom, other: Atom) -> bool:
    """Whether an atom stands inside of another one."""
    return type(other) in OPERATORS and any(atom in each.atoms() for each in children_of(other))


def _replace(
    atom: Atom, values: Mapping[Atom, Expr], ranges: Mapping[Atom, Range] | None
) -> Expr | None:
    value = values.get(atom)
    if value is not None:
        return value if ranges is None else value.simplify(ranges)
    if type(atom) not in OPERATORS:
        return None
    present = children_of(atom)
    children = [child.substitute(values, ranges) for child in present]
    if ranges is None and all(new is old for new, old in zip(children, present, strict=True)):
        return None
    return _rebuild(atom, children, ranges or {})


def _resolve(
    atom: Atom, change: Callable[[Expr], Expr], ranges: Mapping[Atom, Range]
) -> Expr | None:
    changed = [change(child) for child in children_of(atom)]
    return _rebuild(atom, changed, ranges) if changed else None


def _rebuild(atom: Atom, children: list[Expr], ranges: Mapping[Atom, Range]) -> Expr:
    if isinstance(atom, Quotient):
        return _divide(children[0], children[1], ranges)[0]
    if isinstance(atom, Remainder):
        return _divide(children[0], children[1], ranges)[1]
    assert isinstance(atom, Extremum), "one of OPERATORS"
    return extremum(atom.operator, children, ranges)


def _divide(
    dividend: Expr, divisor: Expr, ranges: Mapping[Atom, Range] | None = None
) -> tuple[Expr, Expr]:
    """Quotient and remainder: the terms that the divisor divides leave the quotient at once."""
    if dividend.constant is not None and divisor.constant:
        quotient, remainder = divmod(dividend.constant, divisor.constant)
        return Expr.of(quotient), Expr.of(remainder)
    known = _known((*dividend.atoms(), *divisor.atoms()), ranges) if ranges else ()
    return _divided(dividend, divisor, known)


@lru_cache(maxsize=1 << 12)
def _divided(dividend: Expr, divisor: Expr, of_atoms: Known) -> tuple[Expr, Expr]:
    if divisor.constant == 0:
        raise WeftError(f"division requires a divisor other than zero, got {dividend} / 0")
    if divisor.constant is not None and divisor.constant < 0:
        quotient, remainder = _divided(-dividend, -divisor, of_atoms)
        return quotient, -remainder
    whole, rest = map(Expr, split_multiples(dividend.terms, divisor.terms))
    if not rest.terms:
        return whole, rest
    # What is left may still be below the divisor for all indices, as in (16 * io + ii) floordiv 16
    # with ii < 16: then it is the remainder, and no division is computed.
    number, known = divisor.constant, _of_known(of_atoms)
    (low, high), (upper, _) = rest.range(known), (divisor - 1).range(known)
    if low is not None and high is not None and upper is not None and low >= 0 and high <= upper:
        return whole, rest
    if number and low is not None and high is not None and low // number == high // number:
        steps = low // number  # for all values fall between the same two multiples
        return whole + steps, rest - steps * number
    for factor in common_factors(rest.terms, number or 1):
        multiples, small = map(Expr, split_multiples(rest.terms, {(): factor}))
        low, high = small.range(known)
        if low is not None and high is not None and low >= 0 and high < factor:
            # As in (4 * k + i) floordiv 16 with i < 4, which is k floordiv 4.
            steps, left = _divide(multiples, Expr.of((number or 1) // factor), known)
            return whole + steps, left * factor + small
    return whole + Expr.atom(Quotient(rest, divisor)), Expr.atom(Remainder(rest, divisor))


def extremum(operator: str, operands: Iterable[ExprLike], ranges: Mapping[Atom, Range]) -> Expr:
    """The greatest (`max`) or least (`min`) of the operands, without those that never are."""
    kept: list[Expr] = []
    for candidate in dict.fromkeys(Expr.of(operand) for operand in operands):
        if any(_dominates(operator, other, candidate, ranges) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(operator, candidate, other, ranges)]
        kept.append(candidate)
    if len(kept) == 1:
        return kept[0]
    return Expr.of(Extremum(operator, tuple(sorted(kept, key=str))))


def _dominates(operator: str, winner: Expr, loser: Expr, ranges: Mapping[Atom, Range]) -> bool:
    """Whether the winner is always the max (or min) of the two."""
    low, _ = ((winner - loser) if operator == "max" else (loser - winner)).range(ranges)
    return low is not None and low >= 0


def rejoin(terms: dict[Monomial, int]) -> Expr:
    """The sum, put together where it has quotients, remainders or extrema."""
    kinds = set(map(type, chain.from_iterable(terms)))
    if Quotient not in kinds and Extremum not in kinds:
        return Expr(terms, operators=Remainder in kinds)
    pair = join_quotients(together := _with_extrema(terms))
    return Expr(together) if pair is None else Expr(pair[0]) + Expr(pair[1])


def _with_extrema(terms: Mapping[Monomial, int]) -> Mapping[Monomial, int]:
    """The sum, with terms that cancel one of an operand added to all of the operands, as
    `max(256, n)` for `max(256 - n, 0) + n`: its bounds are tighter. Extrema that differ by such
    terms alone cancel each other.
    """
    extrema = [
        (monomial, factor, extreme)
        for monomial, factor in terms.items()
        if len(monomial) == 1 and isinstance(extreme := monomial[0], Extremum)
    ]
    for number, (monomial, factor, extreme) in enumerate(extrema):
        for other, counter, second in extrema[:number]:
            if factor * counter < 0 and extreme.operator == second.operator:
                apart = distance(*([x.terms for x in e.operands] for e in (second, extreme)))
                if apart is not None:
                    least = min(factor, -counter, key=abs)
                    rest = dict(terms)
                    add_terms(rest, {monomial: least, other: -least}, -1)
                    return (Expr(rest) + least * Expr(apart)).terms
        for operand in extreme.operands:
            for other, share in operand.terms.items():
                if other and terms.get(other) == -share * factor:
                    rest = {m: count for m, count in terms.items() if m not in (monomial, other)}
                    added = [each + Expr({other: -share}) for each in extreme.operands]
                    return (Expr(rest) + factor * extremum(extreme.operator, added, {})).terms
    return terms
