"""Trees of tensors, such as parameters with the state of an optimiser, as files of safetensors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from weft.array.operators import users_line
from weft.dialects.errors import WeftError
from weft.eager.tensor import Tensor
from weft.nn.safetensors import read_tensors, write_tensors
from weft.trees import flatten, unflatten


def save_tree(path: str | os.PathLike[str], tree: Any) -> None:
    """Writes the tensors of a tree by their paths, such as `state.mean.layers.0.weight`."""
    leaves, _ = flatten(tree)
    write_tensors(path, {name or "value": np.asarray(leaf) for name, leaf in leaves})


def load_tree(path: str | os.PathLike[str], like: Any) -> Any:
    """The tree that was written, of the structure of another. Raises WeftError for a file with
    other names, shapes or dtypes.
    """
    leaves, structure = flatten(like)
    found = read_tensors(path)
    names = [name or "value" for name, _ in leaves]
    if {*names} != {*found}:
        missing, unknown = sorted({*names} - {*found}), sorted({*found} - {*names})
        got = f"{', '.join(missing) or 'none'} missing, {', '.join(unknown) or 'none'} unknown"
        raise WeftError(f"{users_line()}: a checkpoint requires the names of the tree, got {got}")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        wanted = np.asarray(leaf)
        if (found[name].shape, found[name].dtype) != (wanted.shape, wanted.dtype):
            rule = f"{name} requires {wanted.dtype} of {list(wanted.shape)}"
            got = f"{found[name].dtype} of {list(found[name].shape)}"
            raise WeftError(f"{users_line()}: {rule}, got {got}")
    return unflatten(structure, (Tensor.of(found[name]) for name in names))
