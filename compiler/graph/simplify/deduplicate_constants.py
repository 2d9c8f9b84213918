"""graph -> graph: stored constants of the same bytes name one tensor of the weight store.

Their shapes may differ: a constant is the bytes of its key under its own shape. Equal operators are
then merged by weft-cse-dce. Tensors whose values may be replaced later stay apart.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from weft.dialects.context import weights_of
from weft.dialects.graph import ConstantOp
from weft.dialects.weights import SAMPLE, Array, WeightStore, release_pages


class DeduplicateConstantsPass(ModulePass):
    """Renames the keys of constants whose bytes are there under another key."""

    name = "weft-deduplicate-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        deduplicate_constants(op, weights_of(ctx))


def deduplicate_constants(module: ModuleOp, weights: WeightStore) -> None:
    """Every constant gets the first key of its bytes; only tensors that look alike are hashed."""
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    stored = [op for op in constants if op.key is not None and op.key.data in weights]
    alike: dict[Hashable, list[str]] = {}
    for key in dict.fromkeys(op.key.data for op in stored if op.key is not None):
        alike.setdefault(key if weights.varies(key) else _sample(weights[key]), []).append(key)
    names: dict[str, str] = {}
    for keys in alike.values():
        names |= _first_of(keys, weights)
    for op in stored:
        if op.key is not None and names[op.key.data] != op.key.data:
            op.properties["key"] = StringAttr(names[op.key.data])


def _first_of(keys: list[str], weights: WeightStore) -> dict[str, str]:
    """For each key the first one with the same bytes."""
    if len(keys) == 1:
        return {keys[0]: keys[0]}
    first: dict[str, str] = {}
    return {key: first.setdefault(weights.digest(key), key) for key in keys}


def _sample(array: Array) -> Hashable:
    """What equal bytes have in common: their type, their number, and some of them."""
    positions = np.linspace(0, max(array.size - 1, 0), SAMPLE, dtype=np.int64)
    picked = np.asarray(array[np.unravel_index(positions, array.shape)]) if array.size else array
    sample = picked.tobytes()
    release_pages(array)
    return array.dtype.name, array.size, sample
