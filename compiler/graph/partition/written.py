"""What options write of meshes, shardings and stages.

mesh   "data=2,model=2"
shard  "w1=,model", "x=data", "table=data+model,"      the axes of each dim, behind the name
stage  "/layer6/Add=1"                                 what follows from a node's results
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.dialects.errors import OptionError

Dims = tuple[tuple[str, ...], ...]
"""The axes of a mesh that cut each dim of a tensor."""


def read_axes(written: str) -> tuple[tuple[str, int], ...]:
    """The axes of a mesh and their sizes; none where none is written. Raises OptionError for a text
    that is no mesh.
    """
    if not written:
        return ()
    pairs = [part.partition("=")[::2] for part in written.split(",")]
    names = [name.strip() for name, _ in pairs]
    sizes = [size.strip() for _, size in pairs]
    named = all(name.isidentifier() for name in names) and len(set(names)) == len(names)
    if not named or not all(size.isdecimal() and int(size) for size in sizes):
        rule = "a mesh requires names of axes with their sizes, such as data=2,model=4"
        raise OptionError(f"{rule}, got {written!r}")
    return tuple(zip(names, map(int, sizes), strict=True))


def written_dims(dims: Dims) -> str:
    """Axes of dims as a sharding has them behind its name."""
    return ",".join("+".join(axes) for axes in dims)


def read_dims(text: str) -> Dims:
    """The axes of each dim, from such a text."""
    axes = (part.strip() for part in text.split(",")) if text.strip() else ()
    return tuple(tuple(filter(None, each.split("+"))) for each in axes)


def read_shardings(written: Sequence[str]) -> dict[str, Dims]:
    """The axes of each dim, by the name of an input or output. Raises OptionError for other texts,
    and for a name that is written twice.
    """
    found: dict[str, Dims] = {}
    for text in written:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or name in found:
            rule = "a sharding requires a name and the axes of its dims, once, such as w=,model"
            raise OptionError(f"{rule}, got {text!r}")
        found[name] = read_dims(dims)
    return found


def read_stages(written: Sequence[str]) -> dict[str, int]:
    """The number of a stage, by the name of the node behind which it begins. Raises OptionError for
    other texts, and for a name that is written twice.
    """
    found: dict[str, int] = {}
    for text in written:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal() or not int(number) or name in found:
            rule = "a stage requires the name of a node and a number from 1, once, such as add=1"
            raise OptionError(f"{rule}, got {text!r}")
        found[name] = int(number)
    return found
