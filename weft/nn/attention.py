"""Attention."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.nn.layers import Dense
from weft.nn.module import Module


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, mask: Any = None, causal: bool = False
) -> Any:
    """`softmax(query key^T / sqrt(width)) value` over the last two axes. Where `mask`, of bools, is
    false, or a key comes after its query if `causal`, nothing is attended to; the last query stands
    beside the last key. A query that may attend to nothing gives zeros.
    """
    scores = (query @ key.mT) * float(query.shape[-1] ** -0.5)
    given = mask is not None  # only then may a query have no key, and weights that add up to 1
    if causal:
        rows, columns = scores.shape[-2:]
        index = wnp.arange(rows).reshape(-1, 1) + (columns - rows)
        before = wnp.arange(columns) <= index
        mask = before if mask is None else wnp.logical_and(before, mask)
    if mask is None:
        return wnp.softmax(scores) @ value
    weights = wnp.softmax(wnp.where(mask, scores, -1e30 if scores.dtype.itemsize > 2 else -3e4))
    return (wnp.where(mask, weights, 0.0) if given else weights) @ value


class MultiHeadAttention(Module):
    """Attention in `heads` slices of `width` at once, with products before and after."""

    def __init__(self, width: int, heads: int, bias: bool = True):
        super().__init__()
        if width % heads:
            raise ValueError(f"a width requires to be a multiple of heads, got {width} and {heads}")
        self.width, self.heads = width, heads
        self.query, self.key = Dense(width, width, bias), Dense(width, width, bias)
        self.value, self.output = Dense(width, width, bias), Dense(width, width, bias)

    def construct(self, x: Any, memory: Any = None, mask: Any = None, causal: bool = False) -> Any:
        """`[n, length, width]` to the same; what is attended to is `memory`, by default `x`."""
        source = x if memory is None else memory
        query, key, value = (
            self._heads(part) for part in (self.query(x), self.key(source), self.value(source))
        )
        mixed = scaled_dot_product_attention(query, key, value, mask, causal)
        joined = mixed.transpose(0, 2, 1, 3).reshape((x.shape[0], x.shape[1], self.width))
        return self.output(joined)

    def _heads(self, x: Any) -> Any:
        """`[n, length, width]` as `[n, heads, length, width / heads]`."""
        sizes = x.shape[0], x.shape[1], self.heads, self.width // self.heads
        return x.reshape(sizes).transpose(0, 2, 1, 3)
