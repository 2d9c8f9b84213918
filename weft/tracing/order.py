"""Order that a program asks for where no value flows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.array.operators import ArrayOperators
from weft.tracing.recognize import is_traced_tensor
from weft.trees import leaves_of, tree_map


def after(tree: Any, *others: Any) -> Any:
    """The arrays and tensors of a tree, unchanged, which are there once those of the others have
    been computed: what reads them in a traced or compiled program runs behind these, also those
    that nothing else needs. `print` and `assert` stay in the order of the program anyway.

    A copy of each tensor is made for that; a derivative passes through to the tree alone. Tensors
    with values are computed in the order of the program, and returned as they are.
    """
    waited = [part for each in leaves_of(others) for part in _parts(each)]
    if not waited:
        return tree

    def behind(leaf: Any) -> Any:
        if not isinstance(leaf, ArrayOperators | np.ndarray | np.generic):
            return leaf
        value = waited[0].lifted(leaf)
        return value.op("after", value, *waited)

    return tree_map(behind, tree)


def _parts(leaf: Any) -> Iterator[Any]:
    """The real tensors that are traced in a leaf: two of complex numbers."""
    if is_traced_tensor(leaf):
        yield from getattr(leaf, "parts", (leaf,))
