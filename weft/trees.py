"""Trees: dicts, lists and tuples, inside each other, whose leaves are tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast, overload

import numpy as np
from msgspec import Struct

from weft.array.complex_numbers import Complex
from weft.array.interleaved import from_interleaved
from weft.array.operators import users_line
from weft.dialects.errors import WeftError


class Structure(Struct, frozen=True):
    """A tree without its leaves: a node's type and what is below it, by key; None for a leaf."""

    node_type: type | None
    below: tuple[tuple[Any, Structure], ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.node_type is None else sum(each.leaves for _, each in self.below)


LEAF: Final = Structure(None)

KNOWN: Final = (complex, np.ndarray, np.generic)
"""Types of complex numbers whose elements are known."""


def flatten(
    tree: Any, name: str = "", whole: bool = False
) -> tuple[list[tuple[str, Any]], Structure]:
    """The leaves with their paths, such as `params.hidden.weight`, and the tree without them.

    None is a tree without leaves; complex numbers are two leaves, unless they are `whole`.
    """
    node_type = cast("type[Any]", type(tree))
    if tree is None:
        return [], Structure(node_type)
    if isinstance(tree, Mapping):
        children = [(str(key), value) for key, value in cast("Mapping[Any, Any]", tree).items()]
        node_type = dict
    elif isinstance(tree, tuple | list):
        values = cast("Sequence[Any]", tree)
        children = [(str(position), value) for position, value in enumerate(values)]
    elif not whole and (parts := parts_of(tree)) is not None:
        children, node_type = list(zip(("real", "imag"), parts, strict=True)), Complex
    else:
        return [(name, tree)], LEAF
    leaves: list[tuple[str, Any]] = []
    below: list[tuple[str, Structure]] = []
    for key, value in children:
        found, structure = flatten(value, f"{name}.{key}" if name else key, whole)
        leaves += found
        below.append((key, structure))
    return leaves, Structure(node_type, tuple(below))


def parts_of(value: Any) -> tuple[Any, Any] | None:
    """Those of complex numbers, which are two leaves."""
    if isinstance(value, Complex):
        return value.parts
    if not isinstance(value, KNOWN):
        return None
    array: Any = np.asarray(value)
    if array.dtype.kind != "c":
        return None
    return np.asarray(array.real, order="C"), np.asarray(array.imag, order="C")


def flatten_exactly(value: Any, whole: tuple[type, ...] = ()) -> tuple[list[Any], Structure]:
    """The leaves of a value of a program, and the value without them. Containers are lists, tuples
    and dicts of Python's own types, and named tuples; complex numbers are two leaves, unless they
    are of the types `whole`; all else is a leaf, None too.
    """
    node_type = cast("type[Any]", type(value))
    if (
        node_type is list
        or node_type is tuple
        or (isinstance(value, tuple) and hasattr(node_type, "_fields"))
    ):
        children = list[tuple[Any, Any]](enumerate(cast("Sequence[Any]", value)))
    elif node_type is dict:
        children = list(cast("dict[Any, Any]", value).items())
    elif not (whole and isinstance(value, whole)) and (parts := parts_of(value)) is not None:
        children, node_type = list[tuple[Any, Any]](enumerate(parts)), Complex
    else:
        return [value], LEAF
    leaves: list[Any] = []
    below: list[tuple[Any, Structure]] = []
    for key, child in children:
        found, structure = flatten_exactly(child, whole)
        leaves += found
        below.append((key, structure))
    return leaves, Structure(node_type, tuple(below))


def described(structure: Structure) -> str:
    """A structure in words."""
    if structure.node_type is None:
        return "a value"
    if structure.node_type is dict:
        return f"a dict of {', '.join(repr(key) for key, _ in structure.below)}"
    inside = ", ".join(described(each) for _, each in structure.below)
    return f"{structure.node_type.__name__}({inside})"


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure.node_type is None:
        return next(leaves)
    if structure.node_type is type(None):
        return None
    if structure.node_type is dict:
        return {key: _unflatten(each, leaves) for key, each in structure.below}
    values = [_unflatten(each, leaves) for _, each in structure.below]
    if structure.node_type is Complex and all(isinstance(each, KNOWN) for each in values):
        return from_interleaved(np.stack(values, -1))
    if hasattr(structure.node_type, "_fields"):  # a named tuple
        return structure.node_type(*values)
    return structure.node_type(values)


def leaves_of(tree: Any) -> list[Any]:
    """The leaves alone."""
    return [leaf for _, leaf in flatten(tree)[0]]


@overload
def tree_map(function: Callable[[Any], Any], tree: Any, /) -> Any: ...
@overload
def tree_map(function: Callable[[Any, Any], Any], tree: Any, second: Any, /) -> Any: ...
@overload
def tree_map(
    function: Callable[[Any, Any, Any], Any], tree: Any, second: Any, third: Any, /
) -> Any: ...
def tree_map(function: Callable[..., Any], tree: Any, /, *others: Any) -> Any:
    """A tree of what the function makes of each leaf, and of those at its place in other trees.

    Raises WeftError, which names the line, for trees of another structure.
    """
    leaves, structure = flatten(tree)
    columns = [[leaf for _, leaf in leaves]]
    for other in others:
        found, shape = flatten(other)
        if shape != structure:
            raise WeftError(f"{users_line()}: trees require one structure, got two")
        columns.append([leaf for _, leaf in found])
    return unflatten(structure, iter([function(*row) for row in zip(*columns, strict=True)]))
