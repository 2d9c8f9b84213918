"""program -> program: where rows of a weight are looked up that a product reads as well, both read
the layout that the product is compiled for, and the weight is stored once.

    %t = loop.weight "table" : [5000, 64]
    %w = loop.weight "table.transposed" : [64, 5000]
    loop.call @gather(%t, %indices, %y)       loop.call @product(%y, %w, %z)    // %w in panels
    ->
    %s = loop.weight "table" : [5000, 64], [(d0 floordiv 64), d1, (d0 mod 64)] in [79, 64, 64]
    %v = loop.view %s to [64, 5000], [(d1 floordiv 64), d0, (d1 mod 64)] in [79, 64, 64]
    loop.call @gather~1(%s, %indices, %y)     loop.call @product(%y, %v, %z)

Elements that were neighbours are a line of the cache each then: a model weighs the bytes that are
stored against the time that this takes. Runs when all kernels but those that look up are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from weft.compiler.program.call_time import CallTime
from weft.compiler.program.layouts.kernel_table import KernelTable, name_variants
from weft.dialects.expr import Atom, Expr, Operand, Symbol, product
from weft.dialects.loop.ops import LoadOp, enclosing_loops
from weft.dialects.loop.program import (
    STANDS_FOR,
    WEIGHTS,
    CallOp,
    KernelOp,
    ProgramOp,
    ViewOp,
    WeightOp,
)
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type
from weft.dialects.weights import WeightStore

LEAST_BYTES = 1 << 18
"""Of a weight that is worth a kernel of its own."""

MOST_TIME = 0.01
"""Of what a program takes, by which looking up may be slower."""

LINE = 5.0
"""Nanoseconds of an element that is in a line of the cache of its own."""

LIKELY_SIZE = 64
"""What a size is taken to be that only a call knows."""

Place = tuple[CallOp, int]
"""A call and the position of one of its arguments."""


def lookup_kernels(module: ModuleOp) -> dict[str, KernelOp]:
    """Copies of those naive kernels of a module that look up rows of a weight, by name."""
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    return {each.sym_name.data: each.clone() for each in kernels if _tables(each)}


def _tables(kernel: KernelOp) -> set[int]:
    """The positions of weights that a kernel only reads where loaded values say."""
    marked = kernel.attributes.get(WEIGHTS)
    arguments = kernel.body.block.args
    return {
        position.data
        for position in (marked if isa(marked, ArrayAttr[IntAttr]) else ())
        if all(_is_lookup(use.operation) for use in arguments[position.data].uses)
    }


def _is_lookup(user: Operation) -> bool:
    """Whether an operation loads from where something else says than the loops around it."""
    if not isinstance(user, LoadOp):
        return False
    indices: set[SSAValue] = {loop.index for loop in enclosing_loops(user)}
    return any(operand not in indices for operand in user.operands_)


@dataclass(frozen=True)
class LayoutSharing:
    """What the pass decides by: the kernels that look up, as they were before they were scheduled;
    the tensors of the weights; about what a call takes where sizes that vary are LIKELY_SIZE; and
    what gives a variant of a kernel its name.
    """

    lookups: Mapping[str, KernelOp]
    weights: WeightStore
    time: CallTime
    canonicalize: Callable[[KernelOp], str]

    def run(self, module: ModuleOp) -> None:
        """Rewrites each program; variants of kernels come into the module as they are handed in."""
        if not self.lookups:
            return
        table = KernelTable(module)
        for program in [op for op in module.ops if isinstance(op, ProgramOp)]:
            _Sharing(self, program, table).run()
        table.drop_unused()
        name_variants(module, self.canonicalize)


@dataclass
class _Sharing:
    """The decisions for the weights of one program."""

    rules: LayoutSharing
    program: ProgramOp
    table: KernelTable

    def run(self) -> None:
        calls = [op for op in self.program.walk() if isinstance(op, CallOp)]
        self.total = sum(self.rules.time(call) or 0.0 for call in calls)
        self.tables: dict[str, list[Place]] = {}
        self.others: dict[str, list[Place]] = {}
        for call in calls:
            for position, value in enumerate(call.arguments):
                if isinstance(value.owner, WeightOp):
                    known = self.tables if self._looks_up((call, position)) else self.others
                    known.setdefault(value.owner.key.data, []).append((call, position))
        for key, places in self.tables.items():
            if self._fits(key, places):
                self._share(key, places)

    def _fits(self, key: str, places: Sequence[Place]) -> bool:
        """Whether a table is large enough, has one shape, and looking it up may be slower."""
        kinds = {_given(place) for place in places}
        shape, whole = next(iter(kinds)).shape, self.rules.weights[key].shape
        if len(kinds) > 1 or shape != tuple(map(Expr.of, whole)):
            return False
        large = self.rules.weights[key].nbytes >= LEAST_BYTES
        return large and sum(map(self._added, places)) <= MOST_TIME * self.total

    def _looks_up(self, place: Place) -> bool:
        call, position = place
        kernel = self.rules.lookups.get(call.kernel)
        return kernel is not None and position in _tables(kernel)

    def _share(self, key: str, places: Sequence[Place]) -> None:
        """Shares a table with the first weight that has its elements and one layout."""
        for other, readers in self.others.items():
            wanted = {self._wanted(place) for place in readers}
            axes = self.rules.weights.transposition(key, other)
            if len(wanted) > 1 or axes is None:
                continue
            (kind,) = wanted
            if kind.shape == tuple(_given(places[0]).shape[axis] for axis in axes):
                self._rewrite(key, other, readers, kind, axes)
                return

    def _wanted(self, place: Place) -> BufferType:
        """The type in which a kernel wants an argument, over the program's sizes."""
        call, position = place
        kernel = self.table[call.kernel]
        return buffer_type(kernel.body.block.args[position]).substitute(_sizes(call, kernel))

    def _added(self, place: Place) -> float:
        """Nanoseconds by which a call takes longer."""
        call, position = place
        kernel = self.rules.lookups[call.kernel]
        uses = kernel.body.block.args[position].uses
        reads = sum((_executions(use.operation) for use in uses), Expr.of(0))
        return LINE * likely(reads.substitute(_sizes(call, kernel)))

    def _rewrite(
        self,
        key: str,
        other: str,
        readers: Sequence[Place],
        wanted: BufferType,
        axes: Sequence[int],
    ) -> None:
        """Puts the weight into the layout that the readers of the other want, for all calls."""
        places = self.tables[key]
        kind = _transposed(wanted, _given(places[0]), axes)
        weight = WeightOp.of(key, kind)
        view = ViewOp.of(weight.result, wanted)
        view.attributes[STANDS_FOR] = StringAttr(other)
        first = self.program.body.block.first_op
        assert first is not None, "a program that reads weights has operations"
        self.program.body.block.insert_ops_before([weight, view], first)
        for call, position in readers:
            call.operands[position] = view.result
        for call, position in places:
            call.operands[position] = weight.result
            make = partial(_with_kind, self.rules.lookups[call.kernel], position, kind)
            name = self.table.variant((call.kernel, position, kind), make)
            call.properties["callee"] = SymbolRefAttr(name)


def likely(size: Expr) -> float:
    """A size where those that only a call knows are LIKELY_SIZE."""
    atoms: list[Atom] = [Symbol(name) for name in size.symbols()]
    atoms += [atom for atom in size.atoms() if isinstance(atom, SSAValue)]
    return float(size.evaluate(dict.fromkeys(atoms, LIKELY_SIZE)))


def _given(place: Place) -> BufferType:
    call, position = place
    return buffer_type(call.arguments[position])


def _sizes(call: CallOp, kernel: KernelOp) -> dict[Atom, Expr]:
    pairs = zip(kernel.symbol_names, call.sizes.data, strict=True)
    return {Symbol(name): size for name, size in pairs}


def _executions(op: Operation) -> Expr:
    """How often an operation of a naive kernel runs, over its symbols."""
    return product(loop.extent for loop in enclosing_loops(op))


def _transposed(kind: BufferType, like: BufferType, axes: Sequence[int]) -> BufferType:
    """The type of the other shape with the storage of `kind`, whose axis `n` is the other's
    `axes[n]`.
    """
    turned = [Expr.of(Operand(axis)) for axis in axes]
    if isinstance(kind.layout, LayoutAttr):
        own: dict[Atom, Expr] = {Operand(n): axis for n, axis in enumerate(turned)}
        turned = [place.substitute(own) for place in kind.layout.subscripts.data]
    layout = LayoutAttr(ExprsAttr(tuple(turned)), ExprsAttr(kind.storage))
    return BufferType(like.dims, kind.element, layout)


def _with_kind(kernel: KernelOp, position: int, kind: BufferType) -> KernelOp:
    """A copy of a kernel with one argument of another type."""
    copy = kernel.clone()
    Rewriter.replace_value_with_new_type(copy.body.block.args[position], kind)
    return copy
