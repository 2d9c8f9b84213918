"""What is required of sizes -> LLVM IR, and the hidden function that checks those of a call before
anything else uses them:

    i32 <prefix>.check_sizes(ptr ctx, ptr dims)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.index import IndexEmitter
from weft.compiler.loop_to_llvm.program.size_rules import (
    bound_rule,
    equal_rule,
    extent_rule,
    origin,
)
from weft.compiler.loop_to_llvm.scalar.elements import I64, intrinsic
from weft.dialects.expr import Atom, Expr, Extremum, Quotient, Remainder, Symbol
from weft.dialects.extent import MOST
from weft.dialects.loop.dynamic import BindSymbolOp
from weft.dialects.loop.equal_sizes import noted_equal_sizes
from weft.dialects.loop.extents import (
    EXACT,
    RequireExtentsOp,
    Volume,
    is_exact,
    is_extent,
    not_implied,
    parts,
    size_limits,
)
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import ProgramOp, size_ranges
from weft.dialects.loop.types import buffer_type_of

DOUBLE = ir.DoubleType()

Fail = Callable[[Status, str, Sequence[ir.Value]], None]
"""Ends the function with a status and a text where the builder stands."""


class SizeChecks:
    """Emits checks into a function of a program; `fail` leaves it."""

    def __init__(self, program: ProgramOp, index: IndexEmitter, fail: Fail):
        self.program = program
        self.index = index
        self.frame: Frame = index.frame
        self.fail = fail
        bound = (op.size.data for op in program.walk() if isinstance(op, BindSymbolOp))
        self.limits = size_limits([*program.symbol_names, *bound], size_ranges(program))

    def all_of_call(self) -> None:
        """Everything that is about the sizes of the call alone."""
        self.require_bounds()
        for volume, rule in self._of_call():
            self._require_volume(volume, Status.BAD_DIMS, *rule)
        for pair, node in noted_equal_sizes(self.program).items():
            self.require_equal(pair, Status.BAD_DIMS, origin([node] if node else []))

    def _of_call(self) -> list[tuple[Volume, tuple[str, list[Expr]]]]:
        """The volumes of tensors, and of the arena's buffers in their layouts, with what is said
        where one is too large.
        """
        free, rules = set(self.program.symbol_names), {}
        for op in self.program.body.block.ops:
            if isinstance(op, RequireExtentsOp):
                rules.setdefault(Volume.of(op.buffer_type), extent_rule(op))
        for op in self.program.walk():
            if isinstance(op, AllocOp) and op.scope.data == "workspace":
                buffer_type = buffer_type_of(op.result)
                required = RequireExtentsOp.of(buffer_type, "a buffer", op.location)
                rules.setdefault(Volume.of(buffer_type), extent_rule(required))
        volumes = (volume for volume in rules if volume.names() <= free)
        return [(each, rules[each]) for each in not_implied(volumes, self.limits)]

    def require_bounds(self) -> None:
        """That sizes are within the bounds that were given."""
        builder = self.frame.builder
        for atom, (low, high) in size_ranges(self.program).items():
            assert isinstance(atom, Symbol), "bounds are of named sizes"
            value = self.index.sizes[atom.name]
            below = builder.icmp_signed("<", value, ir.Constant(I64, low))
            above = builder.icmp_signed(">", value, ir.Constant(I64, high))
            self._refuse(
                [below, above], Status.BAD_DIMS, *bound_rule(self.program, atom, low, high)
            )

    def require_equal(self, pair: Sequence[Expr], status: Status, where: str = "") -> None:
        """That two sizes are equal."""
        text, shown = equal_rule(self.program, *pair)
        first, second = (self.index.uniform(size) for size in pair)
        differ = self.frame.builder.icmp_signed("!=", first, second)
        self._refuse([differ], status, text + where, shown)

    def require_size(self, value: ir.Value, expr: Expr, text: str) -> None:
        """That a size that is found is an extent."""
        if not is_extent(expr, self.frame.ranges):
            with self.frame.builder.if_then(self._is_no_extent(value), likely=False):
                self.fail(Status.BAD_VALUE, text, [value])

    def require_extents(self, op: RequireExtentsOp, where: str) -> None:
        """That a buffer whose sizes are found is not too large."""
        volume = Volume.of(op.buffer_type)
        if not volume.names() <= set(self.program.symbol_names):
            text, shown = extent_rule(op)
            self._require_volume(volume, Status.BAD_VALUE, text + where, shown)

    # How it is computed -----------------------------------------------------------------------

    def _require_volume(
        self, volume: Volume, status: Status, text: str, shown: Sequence[Expr]
    ) -> None:
        self._require_computable(volume.dims, status, text, shown)
        dims = [dim for dim in volume.dims if not is_extent(dim, self.limits)]
        builder = self.frame.builder
        refused = [self._is_no_extent(self.index.uniform(dim)) for dim in dims]
        factors = [self._at_least_one(dim) for dim in volume.dims]
        total = reduce(builder.fmul, factors, ir.Constant(DOUBLE, float(volume.bytes)))
        most = ir.Constant(DOUBLE, float(MOST))
        refused.append(builder.fcmp_unordered(">", total, most))
        self._refuse(refused, status, text, shown)

    def _require_computable(
        self, dims: Sequence[Expr], status: Status, text: str, shown: Sequence[Expr]
    ) -> None:
        """That nothing on the way to these dims leaves 64 bits, as far as that is not proved."""
        every = dict.fromkeys(part for dim in dims for part in parts(dim))
        risky = [part for part in every if not is_exact(part, self.limits)]
        if risky:
            most = ir.Constant(DOUBLE, float(EXACT))
            values = [self._estimate(part) for part in risky]
            beyond = [self.frame.builder.fcmp_unordered(">", value, most) for value in values]
            self._refuse(beyond, status, text, shown)

    def _refuse(
        self, reasons: Sequence[ir.Value], status: Status, text: str, shown: Sequence[Expr]
    ) -> None:
        builder = self.frame.builder
        # In front of the branch, for what is computed once may be used behind it.
        values = [self.index.uniform(size) for size in shown]
        with builder.if_then(reduce(builder.or_, reasons), likely=False):
            self.fail(status, text, values)

    def _is_no_extent(self, value: ir.Value) -> ir.Value:
        return self.frame.builder.icmp_unsigned(">", value, ir.Constant(I64, MOST))

    def _at_least_one(self, dim: Expr) -> ir.Value:
        """A dim as a double, 1 for 0."""
        builder, value = self.frame.builder, self.index.uniform(dim)
        low, _ = dim.range(self.limits)
        if low is None or low < 1:
            value = intrinsic(builder, "smax", I64, [value, ir.Constant(I64, 1)], I64)
        return builder.sitofp(value, DOUBLE)

    def _estimate(self, expr: Expr) -> ir.Value:
        """How far the value, and every sum of some of its terms, may be from 0, as a double: these
        are too many to overflow.
        """
        builder = self.frame.builder
        terms = [self._term(monomial, factor) for monomial, factor in expr.terms.items()]
        return reduce(builder.fadd, terms, ir.Constant(DOUBLE, 0.0))

    def _term(self, monomial: Iterable[Atom], factor: int) -> ir.Value:
        values = [self._estimate_atom(atom) for atom in sorted(monomial, key=str)]
        product = ir.Constant(DOUBLE, float(abs(factor)))
        return reduce(self.frame.builder.fmul, values, product)

    def _estimate_atom(self, atom: Atom) -> ir.Value:
        builder = self.frame.builder
        if isinstance(atom, Quotient):
            return self._estimate(atom.dividend)
        if isinstance(atom, Remainder):
            return self._estimate(atom.divisor)
        if isinstance(atom, Extremum):
            values = [self._estimate(each) for each in atom.operands]
            return reduce(builder.fadd, values)
        return builder.sitofp(self.index.uniform(Expr.atom(atom)), DOUBLE)
