"""A mesh as an attribute, from what options write of it."""

from __future__ import annotations

from weft.compiler.graph.partition.written import read_axes
from weft.dialects.graph.mesh.attributes import MeshAttr


def read_mesh(written: str) -> MeshAttr | None:
    """The mesh; None where none is written. Raises OptionError for a text that is none."""
    axes = read_axes(written)
    return MeshAttr(axes) if axes else None
