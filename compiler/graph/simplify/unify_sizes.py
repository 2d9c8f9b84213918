"""graph -> graph: sizes that every call brings equal are one size.

func.func @main(%x: [n], %y: [m])            ->   func.func @main(%x: [n], %y: [n])
    { %z = graph.add %x, %y : [n] }                   {equal_sizes = [(m, n)], input_types = ...}

The pairs that operators assume are noted on the function first: they are checked in every call,
whatever becomes of the operators. Inputs keep their sizes for callers, in `input_types`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Expr, Symbol, maximum, minimum
from weft.dialects.graph import CallOp
from weft.dialects.graph.core.size_checks import SizeChecks
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.call import INPUT_TYPES
from weft.dialects.graph.regions.control import replace_sizes
from weft.dialects.loop.equal_sizes import Pair, note_equal_sizes
from weft.dialects.loop.program import BOUNDS, DONATED
from weft.dialects.loop.types import ExprsAttr


class UnifySizesPass(ModulePass):
    """Unifies the sizes of every graph function of the module that no other calls. Raises
    TypeInferenceError for sizes that cannot be equal within their bounds.
    """

    name = "weft-unify-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        called = {each.function_name for each in op.walk() if isinstance(each, CallOp)}
        for function in op.ops:
            if isinstance(function, FuncOp) and function.sym_name.data not in called:
                unify_sizes(function)


def unify_sizes(function: FuncOp) -> None:
    """Unifies the sizes of a function in place, unless outputs take the memory of inputs, for which
    both have one type.
    """
    arguments = function.body.block.args
    pairs = SizeChecks(function).first
    note_equal_sizes(function, pairs)
    names = [name for each in arguments for dim in type_of(each).shape for name in dim.symbols()]
    values = unified(pairs, names)
    if values and DONATED not in function.attributes:
        function.attributes.setdefault(INPUT_TYPES, ArrayAttr([each.type for each in arguments]))
        _bound(function, values)
        replace_sizes(function, values)
        function.update_function_type()


def unified(pairs: Iterable[Pair], names: Iterable[str]) -> dict[Atom, Expr]:
    """What takes the place of sizes: numbers, or the first by the order of the names."""
    order = {Symbol(name): number for number, name in enumerate(dict.fromkeys(names))}
    values: dict[Atom, Expr] = {}
    for pair in pairs:
        one, other = (size.substitute(values) for size in pair)
        named = {
            symbol: rest
            for size, rest in ((one, other), (other, one))
            if (symbol := _symbol(size)) is not None and symbol in order
        }
        numbers = sum(size.constant is not None for size in (one, other))
        if one == other or not named or len(named) + numbers < 2:
            continue
        last = max(named, key=order.__getitem__)
        new: dict[Atom, Expr] = {last: named[last]}
        values = {atom: value.substitute(new) for atom, value in values.items()} | new
    return values


def _symbol(size: Expr) -> Symbol | None:
    """The name of a size that has one."""
    names = size.symbols()
    return Symbol(names[0]) if len(names) == 1 and size == Expr.of(names[0]) else None


def _bound(function: FuncOp, values: Mapping[Atom, Expr]) -> None:
    """Gives sizes the bounds of those in whose place they are."""
    given = function.attributes.get(BOUNDS)
    bounds = dict(given.data) if isa(given, DictionaryAttr) else {}
    for atom, value in values.items():
        own, others = bounds.get(str(Expr.atom(atom))), bounds.get(str(value))
        if isinstance(own, ExprsAttr) and value.constant is None:
            (low, high), (least, most) = own.data, (others if isa(others, ExprsAttr) else own).data
            bounds[str(value)] = ExprsAttr((maximum([low, least]), minimum([high, most])))
    if bounds:
        function.attributes[BOUNDS] = DictionaryAttr(bounds)
