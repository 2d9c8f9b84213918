"""A compiled model and inputs -> what a page shows that only running it tells: values, and the
limits of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from weft.bench.limits import levels_of_memory, measure_gbs, measure_gflops
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python import profile
from weft.compiler.machine.python.profile import Profile
from weft.dialects.errors import InputError
from weft.dialects.weights import Array
from weft.probing.random_inputs import random_array
from weft.view.records import Bandwidth, Histogram, Limits, Row, Span, Time

BINS: Final = 40

MOST_BYTES: Final = 1 << 29
"""Of arrays whose bandwidth is measured: larger ones take seconds to touch."""


def inputs_for(
    specs: Sequence[TensorSpec], given: Mapping[str, Any], dims: Mapping[str, int]
) -> dict[str, Array]:
    """The arrays that are given, and random ones for the rest, the same each time. Raises
    InputError for a size that nobody says, and for names that the model lacks.
    """
    unknown = [name for name in given if all(spec.name != name for spec in specs)]
    if unknown:
        names = ", ".join(spec.name for spec in specs)
        raise InputError(f"view requires inputs out of {names}, got {', '.join(unknown)}")
    generator = np.random.default_rng(0)
    sizes = dict(dims)
    for spec in specs:
        shape = np.shape(given[spec.name]) if spec.name in given else ()
        pairs = zip(spec.dims, shape, strict=False)
        sizes |= {dim: size for dim, size in pairs if isinstance(dim, str) and dim.isidentifier()}
    try:
        return {
            spec.name: given[spec.name]
            if spec.name in given
            else random_array(spec, generator, sizes)
            for spec in specs
        }
    except KeyError as error:
        rule = "random inputs require a size for each name"
        raise InputError(f"{rule}, got none for {error.args[0]}") from error


def time_of(recorded: Profile) -> Time:
    """What a page shows of a profile."""
    call = recorded.median
    spans = tuple(
        Span(
            each.thread,
            recorded.name(each),
            each.number if each.number >= 0 else None,
            each.begin,
            each.end,
        )
        for each in call.spans
    )
    return Time(
        len(call.threads),
        tuple(each.duration for each in recorded.calls),
        call.duration,
        spans,
        _rows(recorded.by_kernel()),
        _rows(recorded.by_operator()),
        _rows(recorded.by_node()),
        _medians(recorded),
    )


def _medians(recorded: Profile) -> dict[str, float]:
    """The nanoseconds of each kernel in a call, medians over all calls: a thread that waited for a
    core in one of them counts little.
    """
    found: dict[str, list[int]] = {}
    for call in recorded.calls:
        for row in replace(recorded, calls=(call,)).by_kernel():
            found.setdefault(row.name, []).append(row.wall)
    return {name: median(times) for name, times in found.items()}


def _rows(rows: Sequence[profile.Row]) -> tuple[Row, ...]:
    return tuple(Row(each.name, each.runs, each.wall) for each in rows)


@cache
def measured_limits(threads: int) -> Limits:
    """What the machine does on so many threads."""
    levels = levels_of_memory(host_target(), threads)
    bandwidths = [
        Bandwidth(name, measure_gbs("read", threads, size))
        for name, size in levels
        if size <= MOST_BYTES
    ]
    return Limits(threads, measure_gflops(threads), tuple(bandwidths))


def histogram(name: str, array: Array) -> Histogram:
    """What a page shows of a tensor."""
    wide: Any = np.asarray(array).astype(np.float64)
    finite = wide[np.isfinite(wide)]
    bad = np.argwhere(~np.isfinite(wide))
    plain = Histogram(
        name,
        array.dtype.name,
        tuple(array.shape),
        zeros=int((wide == 0).sum()),
        nans=int(np.isnan(wide).sum()),
        infinities=int(np.isinf(wide).sum()),
        first_not_finite=tuple(map(int, bad[0])) if len(bad) else None,
    )
    if not finite.size:
        return plain
    counts, edges = np.histogram(finite, BINS)
    return replace(
        plain,
        least=float(finite.min()),
        most=float(finite.max()),
        mean=float(finite.mean()),
        deviation=float(finite.std()),
        edges=tuple(map(float, edges)),
        counts=tuple(map(int, counts)),
    )
