"""Values of compiled graphs by their names."""

from __future__ import annotations

from typing import Any

from weft.tracing.recognize import is_traced_tensor
from weft.trees import tree_map


def watch(tree: Any, name: str) -> Any:
    """Tensors, unchanged, whose values `Executable.watch(name)` gives where they are traced; it
    costs nothing otherwise. In a loop they are stacked, those of loops in loops behind one another
    where their number varies, and several of one name are `name/0`, `name/1`, ... On tensors with
    values it does nothing, for these can be looked at.
    """

    def named(leaf: Any) -> Any:
        return leaf.op("watch", leaf, label=name) if is_traced_tensor(leaf) else leaf

    return tree_map(named, tree)
