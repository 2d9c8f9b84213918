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
stored against the time that this takes. Kernels that look up are scheduled once it is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from weft.compiler.program.call_time import CallTime, call_time
from weft.compiler.program.layouts.kernel_table import KernelTable
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.compiler.target.module_target import target_of
from weft.dialects.context import weights_of
from weft.dialects.expr import Atom, Expr, Operand, Symbol, product
from weft.dialects.loop.ops import LoadOp, enclosing_loops
from weft.dialects.loop.program import (
    AWAITS_LAYOUT,
    STANDS_FOR,
    TRANSPOSED,
    WEIGHTS,
    CallOp,
    KernelOp,
    ProgramOp,
    ViewOp,
    WeightOp,
)
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type_of
from weft.dialects.weights import WeightStore

LEAST_BYTES = 1 << 18
"""Of a weight that is worth a kernel of its own."""

MOST_TIME = 0.01
"""Of what a program takes, by which looking up may be slower."""

LINE = 5.0
"""Nanoseconds of an element that is in a line of the cache of its own."""

LIKELY_SIZE = 64
"""What a size is taken to be that only a call knows."""

Use = tuple[CallOp, int]
"""A call and the position of one of its arguments."""


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


class FindTransposedPass(ModulePass):
    """Notes which large weights that kernels look up rows of are others of the program, transposed;
    such kernels are not scheduled before `weft-share-layouts`.
    """

    name = "weft-find-transposed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in op.ops:
            if isinstance(program, ProgramOp):
                _find_transposed(program, kernels_of(op), weights_of(ctx))


def _find_transposed(
    program: ProgramOp, kernels: Mapping[str, KernelOp], weights: WeightStore
) -> None:
    """Notes transposed weights of a program."""
    tables = {name: _tables(kernel) for name, kernel in kernels.items()}
    lookups: list[tuple[WeightOp, KernelOp]] = []
    others: dict[str, None] = {}
    for call in (op for op in program.walk() if isinstance(op, CallOp)):
        for position, value in enumerate(call.operands):
            weight, kernel = value.owner, kernels[call.kernel]
            if isinstance(weight, WeightOp) and position in tables[call.kernel]:
                lookups.append((weight, kernel))
            elif isinstance(weight, WeightOp):
                others[weight.key.data] = None
    for weight, kernel in lookups:
        found = _axes_of_others(weight, others, weights)
        if found:
            weight.attributes[TRANSPOSED] = DictionaryAttr(found)
            kernel.attributes[AWAITS_LAYOUT] = UnitAttr()


def _axes_of_others(
    weight: WeightOp, others: Iterable[str], weights: WeightStore
) -> dict[str, Attribute]:
    """The axes with which a large weight is others, by their keys."""
    key, shape = weight.key.data, buffer_type_of(weight.result).shape
    if key not in weights or weights.bytes(key) < LEAST_BYTES:
        return {}
    if shape != tuple(map(Expr.of, weights.shape(key))):
        return {}
    found = {other: weights.transposition(key, other) for other in others}
    return {
        other: ExprsAttr(tuple(map(Expr.of, axes)))
        for other, axes in found.items()
        if axes is not None
    }


class ShareLayoutsPass(ModulePass):
    """Lets kernels look up rows of weights in the layout that other kernels want, where that takes
    about as long by the model of the module's target.
    """

    name = "weft-share-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        table = KernelTable(op)
        if not any(AWAITS_LAYOUT in kernel.attributes for kernel in table.kernels.values()):
            return
        time = call_time(table.kernels, target_of(op), likely)
        for program in [each for each in op.ops if isinstance(each, ProgramOp)]:
            _Sharing(program, table, time).run()
        table.drop_unused()
        for kernel in table.kernels.values():
            kernel.attributes.pop(AWAITS_LAYOUT, None)


@dataclass
class _Sharing:
    """The decisions for the weights of one program."""

    program: ProgramOp
    table: KernelTable
    time: CallTime

    def run(self) -> None:
        calls = [op for op in self.program.walk() if isinstance(op, CallOp)]
        self.tables: dict[str, list[Use]] = {}
        self.others: dict[str, list[Use]] = {}
        for call in calls:
            for position, value in enumerate(call.arguments):
                if isinstance(value.owner, WeightOp):
                    known = self.tables if self._looks_up((call, position)) else self.others
                    known.setdefault(value.owner.key.data, []).append((call, position))
        total = sum(self.time(call) or 0.0 for call in calls) if self.tables else 0.0
        for key, uses in self.tables.items():
            slower = sum(map(self._added, uses))
            if len({_given(use) for use in uses}) == 1 and slower <= MOST_TIME * total:
                self._share(key, uses)

    def _looks_up(self, use: Use) -> bool:
        call, position = use
        kernel = self.table[call.kernel]
        return AWAITS_LAYOUT in kernel.attributes and position in _tables(kernel)

    def _share(self, key: str, uses: Sequence[Use]) -> None:
        """Shares a table with the first weight that has its elements and one layout."""
        for other, readers in self.others.items():
            wanted = {self._wanted(use) for use in readers}
            axes = _axes(uses[0], other)
            if len(wanted) > 1 or axes is None:
                continue
            (buffer_type,) = wanted
            if buffer_type.shape == tuple(_given(uses[0]).shape[axis] for axis in axes):
                self._rewrite(key, other, readers, buffer_type, axes)
                return

    def _wanted(self, use: Use) -> BufferType:
        """The type in which a kernel wants an argument, over the program's sizes."""
        call, position = use
        kernel = self.table[call.kernel]
        return buffer_type_of(kernel.body.block.args[position]).substitute(_sizes(call, kernel))

    def _added(self, use: Use) -> float:
        """Nanoseconds by which a call takes longer."""
        call, position = use
        kernel = self.table[call.kernel]
        readers = [each.operation for each in kernel.body.block.args[position].uses]
        reads = sum(map(_executions, readers), Expr.of(0))
        return LINE * likely(reads.substitute(_sizes(call, kernel)))

    def _rewrite(
        self, key: str, other: str, readers: Sequence[Use], wanted: BufferType, axes: Sequence[int]
    ) -> None:
        """Puts the weight into the layout that the readers of the other want, for all calls."""
        uses = self.tables[key]
        buffer_type = _transposed(wanted, _given(uses[0]), axes)
        weight = WeightOp.of(key, buffer_type)
        view = ViewOp.of(weight.result, wanted)
        view.attributes[STANDS_FOR] = StringAttr(other)
        first = self.program.body.block.first_op
        assert first is not None, "a program that reads weights has operations"
        self.program.body.block.insert_ops_before([weight, view], first)
        for call, position in readers:
            call.operands[position] = view.result
        for call, position in uses:
            call.operands[position] = weight.result
            make = partial(_with_type, self.table[call.kernel], position, buffer_type)
            name = self.table.variant((call.kernel, position, buffer_type), make)
            call.properties["callee"] = SymbolRefAttr(name)


def _axes(use: Use, other: str) -> Sequence[int] | None:
    """The axes with which the weight of an argument is the other one, None if it is not."""
    call, position = use
    weight = call.arguments[position].owner
    noted = weight.attributes.get(TRANSPOSED) if isinstance(weight, WeightOp) else None
    axes = noted.data.get(other) if isinstance(noted, DictionaryAttr) else None
    return [axis.evaluate({}) for axis in axes.data] if isinstance(axes, ExprsAttr) else None


def likely(size: Expr) -> float:
    """A size where those that only a call knows are LIKELY_SIZE."""
    atoms: list[Atom] = [Symbol(name) for name in size.symbols()]
    atoms += [atom for atom in size.atoms() if isinstance(atom, SSAValue)]
    return float(size.evaluate(dict.fromkeys(atoms, LIKELY_SIZE)))


def _given(use: Use) -> BufferType:
    call, position = use
    return buffer_type_of(call.arguments[position])


def _sizes(call: CallOp, kernel: KernelOp) -> dict[Atom, Expr]:
    pairs = zip(kernel.symbol_names, call.sizes.data, strict=True)
    return {Symbol(name): size for name, size in pairs}


def _executions(op: Operation) -> Expr:
    """How often an operation of a naive kernel runs, over its symbols."""
    return product(loop.extent for loop in enclosing_loops(op))


def _transposed(buffer_type: BufferType, like: BufferType, axes: Sequence[int]) -> BufferType:
    """The type of the other shape with the storage of `buffer_type`, whose axis `n` is the other's
    `axes[n]`.
    """
    turned = [Expr.of(Operand(axis)) for axis in axes]
    if isinstance(buffer_type.layout, LayoutAttr):
        own: dict[Atom, Expr] = {Operand(n): axis for n, axis in enumerate(turned)}
        turned = [index.substitute(own) for index in buffer_type.layout.subscripts.data]
    layout = LayoutAttr(ExprsAttr(tuple(turned)), ExprsAttr(buffer_type.storage))
    return BufferType(like.dims, buffer_type.element, layout)


def _with_type(kernel: KernelOp, position: int, buffer_type: BufferType) -> KernelOp:
    """A copy of a kernel with one argument of another type."""
    copy = kernel.clone()
    Rewriter.replace_value_with_new_type(copy.body.block.args[position], buffer_type)
    return copy
