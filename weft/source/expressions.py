"""Expressions: what is known is computed at once, the rest becomes operators of the graph."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from dialects.errors import WeftError
from weft.source.attributes import attribute
from weft.source.branches import choose, trial
from weft.source.conditions import negation, truth
from weft.source.functions import Function
from weft.source.indexing import read
from weft.source.iteration import Rounds, rounds_of, stacked
from weft.source.leaves import same, shown
from weft.source.operators import PLAIN, binary, both, either, unary
from weft.source.run import Frame, Run
from weft.source.syntax import Place, code_at
from weft.source.values import Array, Number, Spread, is_number
from weft.tensor import Tensor
from weft.traced import Traced

_DUNDERS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Mod: "mod",
    ast.FloorDiv: "floordiv", ast.Pow: "pow", ast.MatMult: "matmul", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.USub: "neg",
}  # fmt: skip


def evaluate(run: Run, frame: Frame, node: ast.expr) -> Any:
    """The value of an expression. Raises SourceError for what source mode lacks."""
    read_ = _EXPRESSIONS.get(type(node))
    place = Place(frame.code.file, node)
    if read_ is None:
        rule = "source mode requires expressions that it knows"
        raise place.refuse(rule, type(node).__name__, _WAYS_OUT.get(type(node), ""))
    with run.at(place):
        return read_(run, frame, node, place)


_WAYS_OUT: Final[dict[type[ast.expr], str]] = {
    ast.Yield: "return a list",
    ast.YieldFrom: "return a list",
    ast.Await: "call a plain function",
}


def _constant(run: Run, frame: Frame, node: ast.Constant, place: Place) -> Any:
    return node.value


def _name(run: Run, frame: Frame, node: ast.Name, place: Place) -> Any:
    return run.lookup(frame, node.id, place)


def _sequence(run: Run, frame: Frame, nodes: Sequence[ast.expr]) -> list[Any]:
    from weft.source.iteration import elements

    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            starred = evaluate(run, frame, node.value)
            values += elements(run, starred, Place(frame.code.file, node))
        else:
            values.append(evaluate(run, frame, node))
    return values


def _tuple(run: Run, frame: Frame, node: ast.Tuple, place: Place) -> Any:
    return tuple(_sequence(run, frame, node.elts))


def _list(run: Run, frame: Frame, node: ast.List, place: Place) -> Any:
    return run.journal.make(_sequence(run, frame, node.elts))


def _set(run: Run, frame: Frame, node: ast.Set, place: Place) -> Any:
    return run.journal.make(set(_sequence(run, frame, node.elts)))


def _dict(run: Run, frame: Frame, node: ast.Dict, place: Place) -> Any:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.update(evaluate(run, frame, value))
        else:
            name = static(evaluate(run, frame, key), Place(frame.code.file, key), "a key")
            found[name] = evaluate(run, frame, value)
    return run.journal.make(found)


def static(value: Any, place: Place, what: str) -> Any:
    """A value that has to be known while compiling."""
    if isinstance(value, Traced):
        raise place.refuse(f"{what} requires to be known while compiling", shown(value))
    return value


def _binary(run: Run, frame: Frame, node: ast.BinOp, place: Place) -> Any:
    left, right = evaluate(run, frame, node.left), evaluate(run, frame, node.right)
    return operate(run, type(node.op), left, right, place)


def operate(run: Run, kind: type[ast.AST], left: Any, right: Any, place: Place) -> Any:
    """`left <op> right`."""
    found = _overloaded(run, kind, left, right, place)
    if found is not NotImplemented:
        return found
    if isinstance(left, Traced) or isinstance(right, Traced):
        if isinstance(left, str) and kind is ast.Mod:
            raise place.refuse("formatting requires values that are known", "a tensor")
        if any(isinstance(each, list | tuple) for each in (left, right)):
            left, right = (_as_array(run, each, place) for each in (left, right))
        for each in (left, right):
            _require_array(each, place)
        return binary(run.recording, kind, left, right)
    return made(run, native(place, PLAIN[kind], left, right))


def _as_array(run: Run, value: Any, place: Place) -> Any:
    if isinstance(value, list | tuple):
        return stacked(run, list(cast("Sequence[Any]", value)), place)
    return value


def _require_array(value: Any, place: Place) -> None:
    if not (isinstance(value, Traced | np.ndarray | np.generic) or is_number(value)):
        raise place.refuse("an operator requires numbers or tensors", shown(value))


def made(run: Run, value: Any) -> Any:
    """What Python's own operators gave: new lists may be changed, arrays are of the graph."""
    if isinstance(value, np.ndarray | Tensor):
        return run.recording.constant(np.asarray(value))
    return run.journal.make(value) if type(value) in (list, dict, set) else value


def native(place: Place, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a function of Python; what it raises gets the place as a note."""
    try:
        return function(*arguments, **named)
    except WeftError:
        raise
    except Exception as error:
        if not getattr(error, "__notes__", None):
            error.add_note(f"{place}\n{place.shown()}")
        raise


def _overloaded(run: Run, kind: type[ast.AST], left: Any, right: Any, place: Place) -> Any:
    """What methods of the user's classes give."""
    name = _DUNDERS.get(kind)
    if name is None:
        return NotImplemented
    for holder, other, prefix in ((left, right, "__"), (right, left, "__r")):
        method = getattr(type(holder), f"{prefix}{name}__", None)
        if isinstance(method, FunctionType) and not isinstance(holder, Traced):
            found = run.call(run, method, [holder, other], {}, place)
            if found is not NotImplemented:
                return found
    return NotImplemented


def _unary(run: Run, frame: Frame, node: ast.UnaryOp, place: Place) -> Any:
    value = evaluate(run, frame, node.operand)
    if isinstance(node.op, ast.Not):
        return negation(run, truth(run, value, place))
    if isinstance(value, Traced):
        return unary(run.recording, type(node.op), value)
    method = getattr(type(value), "__neg__", None)
    if isinstance(node.op, ast.USub) and isinstance(method, FunctionType):
        return run.call(run, method, [value], {}, place)
    return native(place, PLAIN[type(node.op)], value)


def _boolean(run: Run, frame: Frame, node: ast.BoolOp, place: Place) -> Any:
    """`and` and `or`: operands behind one that decides are not read."""
    return _decide(run, frame, node.values, isinstance(node.op, ast.And), place)


def _decide(run: Run, frame: Frame, nodes: Sequence[ast.expr], all_: bool, place: Place) -> Any:
    first = evaluate(run, frame, nodes[0])
    if len(nodes) == 1:
        return first
    test = truth(run, first, Place(frame.code.file, nodes[0]))
    if isinstance(test, bool):
        return _decide(run, frame, nodes[1:], all_, place) if test is all_ else first
    rest = lambda: _decide(run, frame, nodes[1:], all_, place)  # noqa: E731
    if _is_bool(first):
        plain = _plain(run, rest)
        if plain is not None:
            return (both if all_ else either)(run.recording, test, truth(run, rest(), place))
    ways = (rest, lambda: first) if all_ else (lambda: first, rest)
    return choose(run, test, ways, place)


def _is_bool(value: Any) -> bool:
    kind = value.kind if isinstance(value, Number) else type(value)
    return kind is bool or (isinstance(value, Traced) and value.dtype.kind == "b")


def _plain(run: Run, read_: Callable[[], Any]) -> bool | None:
    """Whether an operand is a bool and changes nothing, so that it may always be computed."""
    found: list[bool] = []
    changed = trial(run, lambda: found.append(_is_bool(read_()))).changes
    return True if found[0] and not changed else None


def _compare(run: Run, frame: Frame, node: ast.Compare, place: Place) -> Any:
    left = evaluate(run, frame, node.left)
    total: Any = True
    for number, (op, operand) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = evaluate(run, frame, operand)
        found = _compared(run, op, left, right, place)
        if len(node.ops) == 1:
            return found
        test = truth(run, found, place)
        if test is False:
            return found
        total = both(run.recording, total, test) if number else test
        left = right
    return total


def _compared(run: Run, op: ast.cmpop, left: Any, right: Any, place: Place) -> Any:
    match op:
        case ast.Is() | ast.IsNot():
            if isinstance(left, Number) and isinstance(right, bool):
                found: Any = (
                    operate(run, ast.Eq, left, right, place) if left.kind is bool else False
                )
            else:
                found = left is right
            return negation(run, found) if isinstance(op, ast.IsNot) else found
        case ast.In() | ast.NotIn():
            found = _contains(run, left, right, place)
            return negation(run, found) if isinstance(op, ast.NotIn) else found
        case _:
            return operate(run, type(op), left, right, place)


def _contains(run: Run, value: Any, holder: Any, place: Place) -> Any:
    """`value in holder`."""
    from weft.source.iteration import elements

    method = getattr(type(holder), "__contains__", None)
    if isinstance(method, FunctionType):
        return truth(run, run.call(run, method, [holder, value], {}, place), place)
    if isinstance(holder, Traced):
        found = operate(run, ast.Eq, holder, value, place)
        axes = list(range(found.ndim))
        total = found.astype(np.int64).reduced("reduce_max", axes, False)
        return truth(run, total, place)
    if isinstance(holder, dict | set | str | range):
        static(value, place, "what a dict, set, string or range is searched for")
        return native(place, lambda: value in cast("Any", holder))
    total: Any = False
    for each in elements(run, holder, place):
        if same(each, value):
            return True
        test = operate(run, ast.Eq, each, value, place)
        total = either(run.recording, total, truth(run, test, place))
    return total


def _either(run: Run, frame: Frame, node: ast.IfExp, place: Place) -> Any:
    at = Place(frame.code.file, node.test)
    test = truth(run, evaluate(run, frame, node.test), at)
    if isinstance(test, bool):
        run.note(at, f"{test}, known while compiling")
        return evaluate(run, frame, node.body if test else node.orelse)
    ways = [lambda each=each: evaluate(run, frame, each) for each in (node.body, node.orelse)]
    return choose(run, test, ways, at)


def _subscript(run: Run, frame: Frame, node: ast.Subscript, place: Place) -> Any:
    holder = evaluate(run, frame, node.value)
    return element(run, holder, evaluate(run, frame, node.slice), place)


def element(run: Run, holder: Any, index: Any, place: Place) -> Any:
    """`holder[index]`."""
    if isinstance(holder, Traced):
        parts = index if isinstance(index, tuple) else (index,)
        return read(run.recording, holder, cast("tuple[Any, ...]", parts))
    if isinstance(holder, Rounds):
        return holder.element(run.recording.bound(index, "index"))
    method = getattr(type(holder), "__getitem__", None)
    if isinstance(method, FunctionType):
        return run.call(run, method, [holder, index], {}, place)
    if isinstance(holder, list) and any(isinstance(each, Spread) for each in holder):
        values = cast("list[Any]", holder)
        return element(run, stacked(run, values, place), index, place)
    dynamic = index
    if isinstance(index, slice):
        ends = cast("slice[Any, Any, Any]", index)
        dynamic = next((e for e in (ends.start, ends.stop, ends.step) if is_dynamic(e)), None)
    if is_dynamic(dynamic):
        return _chosen(run, holder, index, place)
    return run.outside.adopt(made(run, native(place, lambda: holder[index])), "an element")


def is_dynamic(value: Any) -> bool:
    """Whether only a call knows the value."""
    return isinstance(value, Traced)


def _chosen(run: Run, holder: Any, index: Any, place: Place) -> Any:
    """An element of a list or tuple by a number that only a call knows."""
    if isinstance(holder, np.ndarray):
        return element(run, run.outside.adopt(holder, "an array"), index, place)
    values = list(cast("Sequence[Any]", holder)) if isinstance(holder, list | tuple) else []
    if not values or not all(
        isinstance(each, Traced | np.generic | int | float) for each in values
    ):
        rule = "an index that only a call knows requires a tensor, or a list of them"
        raise place.refuse(rule, shown(holder), "loop with a condition, or stack the elements")
    found = element(run, stacked(run, values, place), index, place)
    kinds = {each.kind if isinstance(each, Number) else type(each) for each in values}
    if isinstance(found, Array) and not found.ndim and kinds <= {bool, int, float}:
        kind = float if float in kinds else int if int in kinds else bool
        return Number(run.recording, kind, found.value)
    return found


def _slice(run: Run, frame: Frame, node: ast.Slice, place: Place) -> Any:
    ends = (node.lower, node.upper, node.step)
    return slice(*(None if end is None else evaluate(run, frame, end) for end in ends))


def _attribute(run: Run, frame: Frame, node: ast.Attribute, place: Place) -> Any:
    holder = evaluate(run, frame, node.value)
    return attribute(run, holder, node.attr, ast.unparse(node), place)


def _call(run: Run, frame: Frame, node: ast.Call, place: Place) -> Any:
    function = evaluate(run, frame, node.func)
    if function is super and not node.args:
        return _super(frame, place)
    arguments = _sequence(run, frame, node.args)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(run, frame, keyword.value)
        if keyword.arg is None:
            named.update(value)
        else:
            named[keyword.arg] = value
    return run.call(run, function, arguments, named, place)


def _super(frame: Frame, place: Place) -> Any:
    """`super()` with what Python fills in."""
    cell = frame.cells.get("__class__")
    if cell is None or not frame.code.node.args.args:
        raise place.refuse("super() requires a method", "a function outside of a class")
    return super(cell.cell_contents, frame.names[frame.code.node.args.args[0].arg])


def _lambda(run: Run, frame: Frame, node: ast.Lambda, place: Place) -> Any:
    return Function.of(run, frame, code_at(node, frame.code.file))


def _comprehension(
    run: Run, frame: Frame, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    take: Callable[[Frame], None],
) -> None:  # fmt: skip
    """Calls `take` for each combination of elements that the conditions let through."""
    inner = Frame(_scope(frame, node), {}, frame, frame.cells, frame.globals)

    def over(position: int) -> None:
        if position == len(node.generators):
            take(inner)
            return
        generator = node.generators[position]
        place = Place(frame.code.file, generator.iter)
        source = evaluate(run, inner if position else frame, generator.iter)
        rounds = rounds_of(run, source, place)
        count = rounds.count.constant
        if count is None:
            rule = "a comprehension requires to know how many elements there are"
            raise place.refuse(rule, rounds.count, "use a for statement, and append")
        for number in range(count):
            run.count_statement(place)
            run.store(run, inner, generator.target, rounds.element(rounds.count * 0 + number))
            if all(_lets_through(run, inner, each) for each in generator.ifs):
                over(position + 1)

    over(0)


def _scope(frame: Frame, node: ast.expr) -> Any:
    """The variables of a comprehension."""
    from weft.source.syntax import Code, assigned

    names: set[str] = set()
    for generator in getattr(node, "generators", ()):
        assigned(generator.target, names, set())
    return Code(frame.code.node, frame.code.file, frozenset(names), frozenset())


def _lets_through(run: Run, frame: Frame, node: ast.expr) -> bool:
    place = Place(frame.code.file, node)
    test = truth(run, evaluate(run, frame, node), place)
    if not isinstance(test, bool):
        rule = "a condition in a comprehension requires to be known while compiling"
        raise place.refuse(rule, "a tensor", "choose with np.where, or x[mask]")
    return test


def _list_comprehension(run: Run, frame: Frame, node: ast.ListComp, place: Place) -> Any:
    found: list[Any] = []
    _comprehension(run, frame, node, lambda inner: found.append(evaluate(run, inner, node.elt)))
    return run.journal.make(found)


def _generator(run: Run, frame: Frame, node: ast.GeneratorExp, place: Place) -> Any:
    found: list[Any] = []
    _comprehension(run, frame, node, lambda inner: found.append(evaluate(run, inner, node.elt)))
    return run.journal.make(found)


def _set_comprehension(run: Run, frame: Frame, node: ast.SetComp, place: Place) -> Any:
    found: list[Any] = []
    _comprehension(run, frame, node, lambda inner: found.append(evaluate(run, inner, node.elt)))
    return run.journal.make({static(each, place, "an element of a set") for each in found})


def _dict_comprehension(run: Run, frame: Frame, node: ast.DictComp, place: Place) -> Any:
    found: dict[Any, Any] = {}

    def take(inner: Frame) -> None:
        key = static(evaluate(run, inner, node.key), place, "a key")
        found[key] = evaluate(run, inner, node.value)

    _comprehension(run, frame, node, take)
    return run.journal.make(found)


def _text(run: Run, frame: Frame, node: ast.JoinedStr, place: Place) -> Any:
    return "".join(str(evaluate(run, frame, part)) for part in node.values)


def _formatted(run: Run, frame: Frame, node: ast.FormattedValue, place: Place) -> Any:
    value = static(evaluate(run, frame, node.value), place, "text")
    spec = "" if node.format_spec is None else evaluate(run, frame, node.format_spec)
    convert: Callable[[Any], Any] = {115: str, 114: repr, 97: ascii}.get(
        node.conversion, lambda each: each
    )
    return native(place, format, convert(value), spec)


def _named(run: Run, frame: Frame, node: ast.NamedExpr, place: Place) -> Any:
    value = evaluate(run, frame, node.value)
    run.store(run, frame, node.target, value)
    return value


_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[Run, Frame, Any, Place], Any]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _either,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.ListComp: _list_comprehension,
    ast.SetComp: _set_comprehension,
    ast.DictComp: _dict_comprehension,
    ast.GeneratorExp: _generator,
    ast.JoinedStr: _text,
    ast.FormattedValue: _formatted,
    ast.NamedExpr: _named,
}
