"""graph -> graph: calls of graph functions become the functions' operators.

func.func @f(%a) { %b = graph.relu %a, func.return %b }
%y = graph.call @f(%x)      ->      %y = graph.relu %x
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph import BindSizesOp, CallOp, ConstantOp, ControlOp, GraphOp
from weft.dialects.graph.core.types import TensorType, tensor, type_of
from weft.dialects.graph.regions.call import call_sizes
from weft.dialects.graph.regions.control import substitute_sizes

MAIN = "main"


@dataclass(frozen=True)
class InlineCallsPass(ModulePass):
    """Inlines calls, and removes functions but `main` that nobody calls any more.

    `most_operators` lets larger functions stay that are called more than once; without it none
    does. Raises UnsupportedError for a function that calls itself.
    """

    name = "weft-inline-calls"
    most_operators: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inline_calls(op, self.most_operators)


def inline_calls(module: ModuleOp, most_operators: int | None = None) -> None:
    """Inlines in place: copies of functions' own bodies, from the outermost call on, so that each
    operator is copied once.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    calls = {name: _calls_in(function) for name, function in functions.items()}
    if not any(calls.values()):
        return
    counts = Counter(call.function_name for found in calls.values() for call in found)
    order = _callees_first(functions, calls)
    unknown = [call.function_name for name in order for call in calls[name]
               if call.function_name not in functions]  # fmt: skip
    if unknown:
        raise UnsupportedError(f"a call requires its function, got @{unknown[0]}")
    inlined = _inlined(functions, calls, order, counts, most_operators)
    kept = [name for name in order if name not in counts or name == MAIN or name not in inlined]
    for name in reversed(kept):  # while what it calls is as it was
        _inline_in(name, functions, calls, inlined)
    for name in functions.keys() - set(kept):
        functions[name].detach()
        functions[name].erase()


def _inlined(
    functions: Mapping[str, FuncOp],
    calls: Mapping[str, list[CallOp]],
    order: Sequence[str],
    counts: Mapping[str, int],
    most_operators: int | None,
) -> set[str]:
    """The functions whose calls are inlined: those that are called once, or small with what is
    inlined in them. An operator for each that returns does not count.
    """
    inlined: set[str] = set()
    sizes: dict[str, int] = {}
    for name in order:
        own = sum(1 for _ in functions[name].body.walk()) - 1
        inner = [call.function_name for call in calls[name] if call.function_name in inlined]
        sizes[name] = own + sum(sizes[each] - 1 for each in inner)
        if counts.get(name) == 1 or most_operators is None or sizes[name] <= most_operators:
            inlined.add(name)
    return inlined


_Stem = tuple["_Stem | None", str]
"""What the names of sizes that a call finds start with: those of the calls around it come first."""


def _inline_in(
    name: str,
    functions: Mapping[str, FuncOp],
    calls: Mapping[str, list[CallOp]],
    inlined: Container[str],
) -> None:
    """Inlines what a function calls, and what that calls."""
    open_: list[tuple[CallOp, _Stem]] = []

    def add(caller: str, made: Sequence[CallOp], outer: _Stem | None) -> None:
        for number, call in enumerate(made):
            if call.function_name in inlined:
                open_.append((call, (outer, f"{caller}_{call.function_name}_{number}")))

    add(name, calls[name], None)
    while open_:
        call, stem = open_.pop()
        add(call.function_name, _inline(call, functions[call.function_name], stem), stem)


def inlined_size(module: ModuleOp) -> int:
    """How many operators the function `main` of a module has once calls are inlined, constants
    aside; they are counted, not inlined. Of a module without one, or where functions call
    themselves, those that are there.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    sizes: dict[str, int] = {}
    for name in _callees_first(functions, {k: _calls_in(v) for k, v in functions.items()}):
        ops = [op for op in functions[name].walk() if isinstance(op, GraphOp | ControlOp | CallOp)]
        called = [op.function_name for op in ops if isinstance(op, CallOp)]
        counted = sum(not isinstance(op, CallOp | ConstantOp) for op in ops)
        sizes[name] = counted + sum(sizes.get(each, 1) for each in called)
    return sizes.get(MAIN, max(sizes.values(), default=0))


def _calls_in(function: FuncOp) -> list[CallOp]:
    return [op for op in function.walk() if isinstance(op, CallOp)]


def _callees_first(functions: Mapping[str, FuncOp], calls: Mapping[str, list[CallOp]]) -> list[str]:
    """The names of the functions in an order in which none comes before one that it calls."""
    order: dict[str, None] = {}
    for start in functions:
        open_: dict[str, Iterator[CallOp]] = {}
        called: str | None = start
        while called is not None:
            if called in open_:
                raise UnsupportedError(f"a function requires not to call itself, got @{called}")
            if called not in order and called in functions:
                open_[called] = iter(calls[called])
            called = None
            while open_ and called is None:
                last = next(reversed(open_))
                call = next(open_[last], None)
                if call is None:
                    del open_[last]
                    order[last] = None
                else:
                    called = call.function_name
    return list(order)


def _inline(call: CallOp, function: FuncOp, stem: _Stem) -> list[CallOp]:
    """Puts a copy of the function's operators in place of a call; sizes that they find get names
    that start with the stem. Gives the calls among them.
    """
    block = call.parent
    assert block is not None, "a call stands in a block"
    sizes = call_sizes(function, [type_of(operand) for operand in call.operands_])
    found = _found_sizes(function)
    start = _joined(stem) if found else ""
    names = {name: f"{start}_{name}" for name in found}
    sizes |= {Symbol(old): Expr.of(new) for old, new in names.items()}
    source = function.body.block
    calls: list[CallOp] = []
    values: dict[SSAValue, SSAValue] = dict(zip(source.args, call.operands_, strict=True))
    for op in source.ops:
        if isinstance(op, ReturnOp):
            for result, value in zip(call.results_, op.operands, strict=True):
                new = values[value]
                new.name_hint = result.name_hint or new.name_hint
                result.replace_all_uses_with(new)
            continue
        copy = op.clone(values)
        block.insert_op_before(copy, call)
        substitute_sizes(copy, sizes)
        for inner in copy.walk():
            _rename(inner, names)
            _retype(inner, sizes)
            if isinstance(inner, CallOp):
                calls.append(inner)
        values |= zip(op.results, copy.results, strict=True)
    call.detach()
    call.erase()
    return calls


def _joined(stem: _Stem | None) -> str:
    parts: list[str] = []
    while stem is not None:
        stem, part = stem
        parts.append(part)
    return "_".join(reversed(parts))


def _found_sizes(function: FuncOp) -> list[str]:
    """The names that operators of a function give to sizes, numbers of iterations among them."""
    found: dict[str, None] = {}
    for op in function.body.walk():
        for attribute in _naming(op).values():
            found |= dict.fromkeys(_names(attribute))
    return list(found)


def _naming(op: Operation) -> dict[str, Attribute]:
    """The attributes that name sizes."""
    if not isinstance(op, (ControlOp, BindSizesOp)):
        return {}
    return {key: value for key, value in op.properties.items() if _names(value)}


def _names(attribute: Attribute) -> list[str]:
    if isinstance(attribute, StringAttr):
        return [attribute.data]
    return [each.data for each in attribute] if isa(attribute, ArrayAttr[StringAttr]) else []


def _rename(op: Operation, names: Mapping[str, str]) -> None:
    for key, attribute in _naming(op).items():
        new = [StringAttr(names[name]) for name in _names(attribute)]
        op.properties[key] = new[0] if isinstance(attribute, StringAttr) else ArrayAttr(new)


def _retype(op: Operation, sizes: Mapping[Atom, Expr]) -> None:
    arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
    for value in (*op.results, *arguments):
        value_type = value.type
        if isinstance(value_type, TensorType) and value_type.has_rank:
            new = tensor([dim.substitute(sizes) for dim in value_type.shape], value_type.element)
            if new != value_type:
                Rewriter.replace_value_with_new_type(value, new)
