"""What loops go over: how many rounds there are, and what each of them sees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct

from weft.array.complex_numbers import Complex
from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, maximum, minimum
from weft.source.calls.generators import Generated
from weft.source.expressions.indexing import item
from weft.source.expressions.operators import binary
from weft.source.leaves import shown
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.values import Array, Number, Spread
from weft.tracing.traced import Traced

MOST_ELEMENTS = 100_000
"""Iterators of Python with more elements than this are refused: most of them have no end."""


class Iterations(Struct, frozen=True, eq=False):
    """As many elements as `count`, by their number; `even` ones may be asked for with a number that
    only a call knows.
    """

    count: Expr
    element: Callable[[Expr], Any]
    even: bool = True


def iterations_of(run: Run, value: Any, location: Location) -> Iterations:
    """The rounds of a loop over a value."""
    r = run.recording
    if isinstance(value, Iterations):
        return value
    if isinstance(value, range):
        start, step = value.start, value.step
        return Iterations(Expr.of(len(value)), lambda i: r.number(Expr.of(start) + i * step))
    if isinstance(value, Number) or (isinstance(value, Traced) and not value.ndim):
        raise location.refuse("a loop requires something with elements", shown(value), "range(n)?")
    if isinstance(value, Complex):
        return Iterations(value.real.type.shape[0], lambda i: value[r.number(i)])
    if isinstance(value, Traced):
        array = cast("Array", value)
        return Iterations(array.type.shape[0], lambda i: item(r, array, r.number(i)))
    if isinstance(value, list) and any(isinstance(each, Spread) for each in value):
        rows = stacked(run, cast("list[Any]", value), location)
        return Iterations(rows.type.shape[0], lambda i: item(r, rows, r.number(i)))
    return _known(elements(run, value, location))


def _known(values: Sequence[Any]) -> Iterations:
    def element(number: Expr) -> Any:
        constant = number.constant
        assert constant is not None, "rounds over objects are read one by one"
        return values[constant]

    return Iterations(Expr.of(len(values)), element, even=False)


def elements(run: Run, value: Any, location: Location) -> list[Any]:
    """All elements of a value whose number of elements is known."""
    if isinstance(value, Iterations | Traced | Complex):
        iterations = iterations_of(run, value, location)
        count = iterations.count.constant
        if count is None:
            rule = "an expression that takes elements one by one requires to know how many"
            raise location.refuse(rule, iterations.count, "use a for statement")
        return [iterations.element(Expr.of(number)) for number in range(count)]
    if isinstance(value, list) and any(isinstance(each, Spread) for each in value):
        return elements(run, stacked(run, cast("list[Any]", value), location), location)
    if isinstance(value, np.ndarray):
        return elements(run, run.captures.adopt(value, "an array"), location)
    method = getattr(type(value), "__iter__", None)
    if method is None and not hasattr(type(value), "__getitem__"):
        advice = "list(...) of it?" if isinstance(value, Generated) else ""
        raise location.refuse("a loop requires something with elements", shown(value), advice)
    found: list[Any] = []
    for each in value:
        found.append(run.captures.adopt(each, "an element"))
        if len(found) > MOST_ELEMENTS:
            raise location.refuse(f"a loop requires at most {MOST_ELEMENTS} elements", "more")
    return found


def stacked(run: Run, values: list[Any], location: Location) -> Any:
    """A list that loops of the graph appended to as an array, an element a row."""
    r = run.recording
    parts: list[Any] = []
    for each in values:
        if isinstance(each, Spread):
            if each.rows is None:
                rule = "a loop of the graph requires to append to a list alone"
                advice = "carry what the next round needs in a variable of its own"
                raise location.refuse(rule, "a look into it", advice)
            parts.append(each.rows)
        else:
            tensor = each if isinstance(each, Traced | Complex) else r.constant(np.asarray(each))
            parts.append(tensor.reshape((1, *tensor.shape)))
    try:
        joined = parts[0]
        if len(parts) > 1:
            common = np.result_type(*(part.promoting for part in parts))
            joined = joined.op("concat", *(part.astype(common) for part in parts), axis=0)
    except TypeInferenceError as error:
        raise location.refuse("a list requires elements of one shape", str(error)) from error
    return joined if isinstance(joined, Complex) else r.array(joined.value)


def range_of(run: Run, ends: Sequence[Any], location: Location) -> Any:
    """`range(...)`, with ends that only a call knows."""
    r = run.recording
    start, stop, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    if all(type(each) in (int, bool) for each in (start, stop, step)):
        return range(start, stop, step)
    if not isinstance(step, int) or step == 0:
        raise location.refuse("range requires a step that is known", shown(step))

    difference = binary(r, ast.Sub, *((stop, start) if step > 0 else (start, stop)))
    if isinstance(difference, int):
        count = Expr.of(max(0, -(-difference // abs(step))))
    else:
        size = r.expression(difference)
        is_bounded = size is not None and r.at_least(size, 0)
        positive = size if is_bounded else r.bound(difference, "count") if size is None else size
        assert positive is not None, "a size is known or found"
        count = positive if abs(step) == 1 else positive.ceildiv(abs(step))
        count = count if is_bounded or size is None else maximum([count, 0])

    def element(number: Expr) -> Any:
        offset = r.number(number * step)
        return offset if type(start) is int and start == 0 else _sum(run, start, offset)

    return Iterations(count, element)


def _sum(run: Run, start: Any, offset: Any) -> Any:

    if isinstance(start, int) and isinstance(offset, int):
        return start + offset
    return binary(run.recording, ast.Add, start, offset)


def zipped(run: Run, values: Sequence[Any], location: Location) -> Any:
    """`zip(...)` where some are tensors."""
    each = [iterations_of(run, value, location) for value in values]
    counts = [iterations.count for iterations in each]
    count = counts[0] if all(one == counts[0] for one in counts) else minimum(counts)
    even = all(iterations.even for iterations in each)
    return Iterations(count, lambda i: tuple(iterations.element(i) for iterations in each), even)


def enumerated(run: Run, value: Any, start: int, location: Location) -> Any:
    """`enumerate(...)` of a tensor."""
    iterations = iterations_of(run, value, location)
    number = run.recording.number
    return Iterations(
        iterations.count, lambda i: (number(i + start), iterations.element(i)), iterations.even
    )


def reversed_(run: Run, value: Any, location: Location) -> Any:
    """`reversed(...)` of a tensor or of rounds."""
    iterations = iterations_of(run, value, location)
    return Iterations(
        iterations.count, lambda i: iterations.element(iterations.count - 1 - i), iterations.even
    )
