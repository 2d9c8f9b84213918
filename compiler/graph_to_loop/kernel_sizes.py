"""The sizes of a kernel: names that it has for itself, and what they are in the program.

A dim like `n - 2`, which as far as the kernel can tell may be negative, becomes a size of its own:
no schedule may split a loop of such an extent. The program requires that no buffer has a negative
dim, and the calls of the kernel bind the size to the expression.

    loop.kernel @conv[n](%x: <[n]>, %y: <[n - 2]>)       call @conv[n]
    loop.kernel @conv[m](%x: <[m + 2]>, %y: <[m]>)   ->  call @conv[n - 2]

A size that every call brings as a multiple of a number is that multiple of a size: rounding is
proved to be none, and loops to have no remainder.

    loop.kernel @add[n](%x: <[n]>, %y: <[2 * ((n + 1) floordiv 2)]>)       call @add[n]
    loop.kernel @add[m](%x: <[2 * m]>, %y: <[2 * m]>)                  ->  call @add[n floordiv 2]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.interval import Range
from weft.dialects.loop.equal_sizes import as_multiples
from weft.dialects.loop.program import BOUNDS, KernelOp, size_ranges
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of


def name_sizes(kernel: KernelOp, numbers: Mapping[str, int]) -> list[Expr]:
    """Makes sizes of what sizes are multiples of, by their `numbers`, and of those dims of
    arguments that might be negative. Returns what each size of the kernel is, in terms of the sizes
    that it had before.
    """
    sizes = {name: Expr.of(name) // numbers.get(name, 1) for name in kernel.symbol_names}
    ranges = size_ranges(kernel)
    divided = {name: number for name, number in numbers.items() if name in sizes}
    if divided:
        values = as_multiples(divided)
        map_exprs(kernel, lambda expr: expr.substitute(values))
        for name, number in divided.items():
            if (bounds := ranges.get(Symbol(name))) is not None:
                low, high = bounds
                ranges[Symbol(name)] = -(-(low or 0) // number), high and high // number
        _set_sizes(kernel, list(sizes), ranges)
    while (dim := _uncertain_dim(kernel, ranges)) is not None:
        name = next(name for n in range(len(sizes) + 1) if (name := f"size{n}") not in sizes)
        low, high = dim.range(ranges)
        ranges[Symbol(name)] = max(0, low or 0), high
        replaced: dict[Atom, Expr] = {Symbol(old): size for old, size in sizes.items()}
        sizes[name] = dim.substitute(replaced)
        if values := _solved(dim, Expr.of(name)):
            map_exprs(kernel, lambda expr, values=values: expr.substitute(values))
        else:
            map_exprs(kernel, lambda expr, old=dim, new=name: Expr.of(new) if expr == old else expr)
        for solved in values:
            if isinstance(solved, Symbol):
                del sizes[solved.name]
    if [*sizes] != kernel.symbol_names:
        _set_sizes(kernel, list(sizes), ranges)
    return list(sizes.values())


def _uncertain_dim(kernel: KernelOp, ranges: Mapping[Atom, Range]) -> Expr | None:
    """A dim of an argument that is not provably at least 0."""
    dims = (dim for each in kernel.body.block.args for dim in buffer_type_of(each).shape)
    lows = ((dim, dim.range(ranges)[0]) for dim in dims)
    return next((dim for dim, low in lows if low is None or low < 0), None)


def _solved(dim: Expr, size: Expr) -> dict[Atom, Expr]:
    """What an atom is where a dim of it and a number is the size: of `n - 2 = m` that `n = m + 2`;
    nothing for other dims.
    """
    number = dim.terms.get((), 0)
    match list((dim - number).terms.items()):
        case [((atom,), 1)]:
            return {atom: size - number}
        case _:
            return {}


def _set_sizes(kernel: KernelOp, names: Sequence[str], ranges: Mapping[Atom, Range]) -> None:
    """Gives a kernel the names of its sizes, and the bounds of those that have any."""
    kernel.properties["symbols"] = ArrayAttr([StringAttr(name) for name in names])
    bounds: dict[str, ExprsAttr] = {}
    for name in names:
        low, high = ranges.get(Symbol(name), (0, None))
        if low is not None and high is not None:
            bounds[name] = ExprsAttr((Expr.of(low), Expr.of(high)))
    kernel.attributes.pop(BOUNDS, None)
    if bounds:
        kernel.attributes[BOUNDS] = DictionaryAttr(bounds)


def rename_sizes(kernel: KernelOp, names: Mapping[str, str]) -> None:
    """Gives the sizes of a kernel other names, everywhere in its types and expressions."""
    values: dict[Atom, Expr] = {Symbol(old): Expr.of(new) for old, new in names.items()}
    ranges: dict[Atom, Range] = {}
    for old, each in size_ranges(kernel).items():
        ranges |= dict.fromkeys(values[old].atoms(), each)
    _set_sizes(kernel, [names[name] for name in kernel.symbol_names], ranges)
    map_exprs(kernel, lambda expr: expr.substitute(values))


def map_exprs(kernel: KernelOp, change: Callable[[Expr], Expr]) -> None:
    """Replaces the expressions of a kernel: those of its buffers' types, bounds and subscripts."""
    for argument in kernel.body.block.args:
        _map_type(argument, change)
    for op in kernel.walk():
        for result in op.results:
            _map_type(result, change)
        for key, attribute in op.properties.items():
            if isinstance(attribute, ExprsAttr):
                op.properties[key] = ExprsAttr(tuple(map(change, attribute.data)))


def _map_type(value: SSAValue, change: Callable[[Expr], Expr]) -> None:
    if isinstance(value.type, BufferType) and value.type.map(change) != value.type:
        Rewriter.replace_value_with_new_type(value, value.type.map(change))
