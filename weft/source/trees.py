"""Values made of tuples, lists and dicts <-> what stands at their leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Leaf:
    """Anything that is no container."""


@dataclass(frozen=True)
class Node:
    """A container: its type, the keys of a dict, and what it holds."""

    kind: type
    keys: tuple[Any, ...]
    children: tuple[Tree, ...]


Tree = Leaf | Node
LEAF = Leaf()


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves from the first to the last, and the form that they stand in."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[Any]) -> Tree:
    kind = type(value)
    if kind is list or kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        items = cast("Sequence[Any]", value)
        return Node(kind, (), tuple(_flatten(each, leaves) for each in items))
    if kind is dict:
        pairs = cast("dict[Any, Any]", value)
        return Node(kind, tuple(pairs), tuple(_flatten(each, leaves) for each in pairs.values()))
    leaves.append(value)
    return LEAF


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The value of that form with these leaves."""
    return _unflatten(tree, iter(leaves))


def _unflatten(tree: Tree, leaves: Iterator[Any]) -> Any:
    if isinstance(tree, Leaf):
        return next(leaves)
    parts = [_unflatten(child, leaves) for child in tree.children]
    if tree.kind is list:
        return parts
    if tree.kind is dict:
        return dict(zip(tree.keys, parts, strict=True))
    if tree.kind is tuple:
        return tuple(parts)
    return tree.kind(*parts)


def described(tree: Tree) -> str:
    """The form in words."""
    if isinstance(tree, Leaf):
        return "a value"
    if tree.kind is dict:
        return f"a dict of {', '.join(map(repr, tree.keys))}"
    inside = ", ".join(map(described, tree.children))
    return f"{tree.kind.__name__}({inside})"
