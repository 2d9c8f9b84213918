"""`x[...]` and `x[...] = y`, with indices that only a call knows, as graph operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array.indexing import parsed
from weft.array.views import Link
from weft.source.recording import SourceRecording
from weft.source.values import Array
from weft.tracing.indexing import chosen
from weft.tracing.traced import Traced


def item(r: SourceRecording, x: Traced, index: Any) -> Array:
    """`x[index]` for one integer, or None."""
    return read(r, x, (index,))


def read(r: SourceRecording, x: Traced, index: Sequence[Any]) -> Array:
    """The part of an array that an index names; one of integers and slices is a view. Raises
    InvalidIndexError.
    """
    found = parsed(tuple(index), x.shape)
    part = r.array(chosen(x, found).value)
    is_view = not any(getattr(each, "ndim", 0) for each in found.parts)
    if part.ndim and is_view and isinstance(x, Array):
        part.viewing(x, Link(x, tuple(index)))
    return part
