"""What a program says of sizes that it cannot take: the rule, the inputs that it is about, and both
their shapes, as the model has them and as the call has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from weft.compiler.loop_to_llvm.runtime import clipped
from weft.dialects.expr import Expr, Extremum, Symbol
from weft.dialects.extent import MOST
from weft.dialects.loop.extents import RequireExtentsOp
from weft.dialects.loop.program import ProgramOp
from weft.dialects.loop.types import buffer_type_of

_MOST_SHOWN = 8
"""Sizes of a shape that a message shows, at most."""
_MOST_INPUTS = 2
_MOST_ORIGIN = 200
"""Bytes that a message has for the nodes that it is about."""
_MOST_SIZES = 4
"""Sizes that decide whether a buffer is too large, of which a message shows the values, at most."""

Rule = tuple[str, list[Expr]]
"""A text, and the sizes that fill it."""


def bound_rule(program: ProgramOp, size: Symbol, low: int | None, high: int | None) -> Rule:
    """That a named size is within bounds."""
    where, shapes, values = _inputs(program, [size])
    text = f"run requires {clipped(size.name)}{where} to be {low} to {high}, got {{}}{shapes}"
    return text, [Expr.of(size), *values]


def equal_rule(program: ProgramOp, first: Expr, second: Expr) -> Rule:
    """That two sizes are equal; `min(512, n) = n` is a bound of `n`."""
    for bound, size in ((first, second), (second, first)):
        atom = next((atom for term in bound.terms for atom in term), None)
        if isinstance(atom, Extremum) and bound == Expr.of(atom) and size in atom.operands:
            others = " and ".join(str(expr) for expr in atom.operands if expr != size)
            extreme = "most" if atom.operator == "min" else "least"
            where, shapes, values = _inputs(program, _symbols(size))
            rule = f"{clipped(size)}{where} to be at {extreme} {clipped(others)}"
            return f"run requires {rule}, got {{}}{shapes}", [size, *values]
    where, shapes, values = _inputs(program, _symbols(first, second))
    rule = f"sizes {clipped(first)} = {clipped(second)}{where}"
    return f"run requires {rule}, got {{}} and {{}}{shapes}", [first, second, *values]


def extent_rule(op: RequireExtentsOp) -> Rule:
    """That a buffer is not too large, whatever it is multiplied with later."""
    sizes = _symbols(*op.buffer_type.shape)[:_MOST_SIZES]
    shape = clipped(_shown([str(dim) for dim in op.buffer_type.shape]))
    rule = f"extents of 0 to {MOST}, and no more bytes, for {clipped(op.who.data)} of shape {shape}"
    got = ", ".join(f"{clipped(size.name)} = {{}}" for size in sizes)
    return f"run requires {rule}, got {got}", [Expr.of(size) for size in sizes]


def origin(names: Sequence[str]) -> str:
    """The nodes or lines that a rule comes from, for the end of an error's text."""
    text = f", at {' or '.join(names)}" if names else ""
    return clipped(text.translate({ord("{"): "(", ord("}"): ")"}), _MOST_ORIGIN)


def _symbols(*sizes: Expr) -> list[Symbol]:
    atoms = (atom for size in sizes for atom in size.atoms())
    return list(dict.fromkeys(atom for atom in atoms if isinstance(atom, Symbol)))


def _inputs(program: ProgramOp, symbols: Sequence[Symbol]) -> tuple[str, str, list[Expr]]:
    """The first inputs that have these sizes as dims, with their shapes; the shapes of the call to
    be filled, and what fills them.
    """
    found: dict[int, list[str]] = {}
    for symbol in symbols:
        input_and_axis = _first_with(program, symbol)
        if input_and_axis is not None:
            found.setdefault(input_and_axis[0], []).append(str(input_and_axis[1]))
    arguments = program.body.block.args
    wheres: list[str] = []
    shapes: list[tuple[Expr, ...]] = []
    for number, axes in list(found.items())[:_MOST_INPUTS]:
        shapes.append(buffer_type_of(arguments[number]).shape[:_MOST_SHOWN])
        dims = f"{'dim' if len(axes) == 1 else 'dims'} {' and '.join(axes)}"
        shape = clipped(_shown([str(dim) for dim in shapes[-1]]))
        wheres.append(f"{dims} of shape {shape} of input '{_name(program, number)}'")
    if not wheres:
        return "", "", []
    blank = " and ".join(_shown(["{}"] * len(shape)) for shape in shapes)
    values = [dim for shape in shapes for dim in shape]
    return f" ({', '.join(wheres)})", f" in {blank}", values


def _first_with(program: ProgramOp, symbol: Symbol) -> tuple[int, int] | None:
    """The first input that has a size as a dim, and which."""
    for number, argument in enumerate(program.body.block.args[: program.inputs.data]):
        for axis, dim in enumerate(buffer_type_of(argument).shape):
            if dim == Expr.of(symbol):
                return number, axis
    return None


def _shown(dims: Sequence[str]) -> str:
    return f"({', '.join(dims)}{',' * (len(dims) == 1)})"


def _name(program: ProgramOp, number: int) -> str:
    names = program.attributes.get("input_names")
    given = names.data[number] if isinstance(names, ArrayAttr) else None
    hint = program.body.block.args[number].name_hint
    return clipped(given.data if isinstance(given, StringAttr) else hint)
