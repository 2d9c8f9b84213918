"""Meshes of ranks, and shardings of tensors, as programs write them."""

from __future__ import annotations

from math import prod

from weft.compiler.graph.partition.written import read_axes, written_dims
from weft.dialects.errors import OptionError


class Mesh:
    """Named axes of ranks: `Mesh(data=2, model=4)` has eight, which count along the last fastest.
    Raises OptionError for sizes that are no positive integers.
    """

    def __init__(self, **axes: int):
        self.axes = dict(axes)
        read_axes(str(self))
        if not axes:
            raise OptionError("a mesh requires an axis, got none")

    @property
    def ranks(self) -> int:
        """How many there are."""
        return prod(self.axes.values())

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes.items())

    def __repr__(self) -> str:
        return f"Mesh({', '.join(str(self).split(','))})"


class P:
    """The axes of a mesh that cut each dim of a tensor: `P(None, "model")` cuts columns, and
    `P(("data", "model"))` rows by both; dims behind the last are whole.
    """

    def __init__(self, *dims: str | tuple[str, ...] | None):
        self.dims = tuple(
            () if each is None else (each,) if isinstance(each, str) else tuple(each)
            for each in dims
        )

    def __str__(self) -> str:
        return written_dims(self.dims)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self.dims))})"
