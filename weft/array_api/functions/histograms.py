"""NumPy's counts of numbers, and of elements between ends."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import selections
from weft.array.elementwise import where
from weft.array.operators import listed
from weft.array.rearrangements import concat
from weft.array_api.operands import as_double, is_integer, known, leaves, operand, refuse
from weft.dialects.expr import maximum


def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """How often each number is there, or the sums of its weights. Where the numbers are unknown
    while tracing, the length is found by the call.

    >>> np.bincount(abs(i[0]), minlength=4), np.bincount(abs(i[0]), v, minlength=4)
    """
    x = operand(x, weights)
    if x.dtype.kind not in "biu" or x.ndim != 1:
        raise refuse("bincount requires a vector of integers", f"{x.ndim} axes of {x.dtype}")
    numbers = x.astype(np.int64)
    ones = numbers * 0 + 1 if weights is None else operand(weights, x).astype(np.float64)
    bins = _bins(numbers, known(minlength, "bincount"))
    return bins.op("scatter_nd", bins.astype(ones.dtype), numbers.reshape(-1, 1), ones,
                   reduction="add")  # fmt: skip


def _bins(numbers: Any, least: int) -> Any:
    """As many zeros as there are numbers up to the greatest, and so many at least."""
    if numbers.has_values:
        array = np.asarray(numbers)
        if array.size and array.min() < 0:
            raise refuse("bincount requires numbers from 0", array.min())
        return numbers.constant(np.zeros(builtins.max(int(array.max(initial=-1)) + 1, least), int))
    start = numbers.constant(np.asarray([-1]))
    some = isinstance(numbers.shape[0], int) and numbers.shape[0]
    greatest = (numbers if some else concat([numbers, start])).max()
    size = greatest.apply("max", start[0]) + 1
    found = numbers.recording.bound(size, "bins")
    extent = maximum([found, least]) if least else found
    return numbers.constant(np.asarray(0)).broadcast_to((extent,))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The ends of so many bins of one width, from the least element to the greatest.

    >>> np.histogram_bin_edges(x, 4), np.histogram_bin_edges(x, 4, (0.0, 1.0))
    """
    if isinstance(bins, str):
        raise refuse("a histogram requires a number of bins, or their ends", repr(bins))
    if not is_integer(bins):
        return operand(bins, a)
    a = operand(a).reshape(-1)
    count = int(bins)
    if range is not None:
        low, high = (float(each) for each in range)
        ends = (low - 0.5, high + 0.5) if low == high else (low, high)
        wide = a.dtype if a.dtype.kind == "f" else np.float64
        return a.constant(np.linspace(*ends, count + 1, dtype=wide))
    first, last = a.min().as_float(), a.max().as_float()
    flat = first == last
    low, high = where(flat, first - 0.5, first), where(flat, last + 0.5, last)
    steps = np.arange(count + 1) / count
    edges = low + a.constant(steps).astype(low.dtype) * (high - low)
    return where(np.arange(count + 1) == count, high, edges)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many elements are in each bin, and the ends of the bins.

    >>> np.histogram(x, bins=3), np.histogram(x, [0.0, 0.4, 1.0], weights=x)
    >>> np.histogram(x, 4, range=(0.0, 1.0), density=True)
    """
    a = operand(a, weights, bins).reshape(-1)
    edges = histogram_bin_edges(a, bins, range)
    found = _counted([a], [edges], weights)
    if density:
        found = found / (edges[1:] - edges[:-1]) / found.sum()
    return found, edges


def _counted(columns: Any, edges: Any, weights: Any) -> Any:
    """How many points are in each bin of all axes, or the sums of their weights; `columns` are the
    points' coordinates, a vector an axis.
    """
    counts = [known(ends.shape[0], "histogram") - 1 for ends in edges]
    positions: list[Any] = []
    inside: Any = None
    for x, ends, count in zip(columns, edges, counts, strict=True):
        within = (x >= ends[0]) & (x <= ends[-1])
        inside = within if inside is None else inside & within
        position = selections.searchsorted(ends, x, side="right") - 1
        position = where(x == ends[-1], count - 1, position)
        positions.append(position.clip(0, count - 1).reshape(-1, 1))
    held = inside.astype(np.int64)
    if weights is not None:
        held = where(inside, operand(weights, columns[0]).reshape(-1), 0)
    zeros = columns[0].constant(np.zeros(counts, held.dtype))
    return zeros.op("scatter_nd", zeros, concat(positions, 1), held, reduction="add")


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many points, a row or a vector of each coordinate, are in each bin of all axes, and the
    ends of the bins of each axis.

    >>> np.histogramdd(x, 2)[0], np.histogramdd([v, v * v], (2, [0.0, 0.3, 1.0]), weights=v)[0]
    """
    several = isinstance(sample, list | tuple)
    rows = operand(sample, *leaves(weights), *leaves(bins))
    rows = rows if several else rows.T
    rows = (rows.reshape(1, -1) if rows.ndim < 2 else rows).as_float()
    columns = [rows[axis] for axis in builtins.range(known(rows.shape[0], "histogramdd"))]
    given = [bins] * len(columns) if is_integer(bins) else listed(bins)
    ranges = [None] * len(columns) if range is None else listed(range)
    if not len(given) == len(ranges) == len(columns):
        raise refuse(f"histogramdd requires bins and ranges of {len(columns)} axes", len(given))
    edges = [histogram_bin_edges(*each) for each in zip(columns, given, ranges, strict=True)]
    found = as_double(_counted(columns, edges, weights))
    if density:
        total = found.sum()
        for axis, ends in enumerate(edges):
            wide = (ends[1:] - ends[:-1]).reshape(-1, *(1,) * (len(edges) - axis - 1))
            found = found / wide
        found = found / total
    return found, edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many points of a plane are in each bin, and the ends of the bins along both axes.

    >>> np.histogram2d(v, v[::-1], 2), np.histogram2d(v, v * v, [0.0, 0.5, 1.0], density=True)
    """
    pair = is_integer(bins) or len(bins) == 2
    whole = [operand(x, y), operand(y, x)]
    found, edges = histogramdd(whole, bins if pair else [bins, bins], range, density, weights)
    return found, *edges


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The bins that elements are in, of rising or falling ends.

    >>> np.digitize(x, [0.2, 0.5, 0.8]), np.digitize(x, [0.8, 0.5])
    """
    x, bins = operand(x, bins), operand(bins, x)
    side = "left" if right else "right"
    rising = selections.searchsorted(bins, x, side=side)
    other = "right" if right else "left"
    falling = known(bins.shape[0], "digitize") - selections.searchsorted(bins[::-1], x, side=other)
    return where(bins[0] <= bins[-1], rising, falling)
