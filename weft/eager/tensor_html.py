"""What notebooks show of a tensor: a table, or an image where the shape is that of one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weft.compiler import html
from weft.dialects.weights import Array

ROWS: Final = 10
COLUMNS: Final = 12

LEAST_SIDE: Final = 16
"""Pixels from which a matrix is an image."""

MOST_SIDE: Final = 512
"""Pixels of an image: of larger ones every second, third ... is shown."""


def tensor_html(array: Array) -> str:
    """The dtype and shape, and the elements."""
    title = f"Tensor {array.dtype.name} ({', '.join(map(str, array.shape))})"
    pixels = _pixels(array)
    content = _table(array) if pixels is None else _image(pixels)
    return f"<div><div>{html.escaped(title)}</div>{content}</div>"


def _pixels(array: Array) -> Array | None:
    """Height, width and 1, 3 or 4 channels; None where the shape is not that of an image."""
    if array.dtype.kind not in "buif" or 0 in array.shape:
        return None
    match array.shape:
        case (height, width) if min(height, width) >= LEAST_SIDE:
            return array[:, :, None]
        case (height, width, 1 | 3 | 4) if min(height, width) >= LEAST_SIDE:
            return array
        case (1 | 3 | 4, height, width) if min(height, width) >= LEAST_SIDE:
            return np.moveaxis(array, 0, -1)
        case _:
            return None


def _image(pixels: Array) -> str:
    """Bytes as they are, other numbers from their least to their greatest."""
    step = -(-max(pixels.shape[:2]) // MOST_SIDE)
    shown = pixels[::step, ::step]
    height, width, channels = shown.shape
    if shown.dtype != np.uint8:
        wide: Any = np.nan_to_num(shown.astype(np.float64), posinf=0.0, neginf=0.0)
        least, most = float(wide.min()), float(wide.max())
        shown = ((wide - least) * (255.0 / ((most - least) or 1.0))).astype(np.uint8)
        scale = f"<div>black {least:.4g}, white {most:.4g}</div>"
    else:
        scale = ""
    return scale + html.image(shown.tobytes(), width, height, channels)


def _table(array: Array) -> str:
    """The first and last rows and columns; of more than two axes the last two, for the first
    index of the others.
    """
    if array.size == 0:
        return "<div>no elements</div>"
    first = array[(0,) * (array.ndim - 2)] if array.ndim > 2 else array
    matrix = np.atleast_2d(first)
    rows, columns = _ends(matrix.shape[0], ROWS), _ends(matrix.shape[1], COLUMNS)
    cells = [
        ["…" if row is None else row]
        + ["…" if None in (row, column) else _element(matrix[row, column]) for column in columns]
        for row in rows
    ]
    where = f"<div>[{'0, ' * (array.ndim - 2)}:, :]</div>" if array.ndim > 2 else ""
    return where + html.table(["", *("…" if each is None else each for each in columns)], cells)


def _ends(size: int, most: int) -> list[int | None]:
    """All positions, or the first and last ones with None between."""
    if size <= most:
        return list(range(size))
    half = most // 2
    return [*range(half), None, *range(size - half, size)]


def _element(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, np.floating) else str(value)
