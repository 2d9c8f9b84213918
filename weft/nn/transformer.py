"""Transformers out of attention and networks of two layers (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.nn.activations import relu
from weft.nn.attention import MultiHeadAttention
from weft.nn.layers import Dense, Dropout
from weft.nn.module import Module
from weft.nn.norms import LayerNorm
from weft.random import fold_in


class _Layer(Module):
    """What layers of encoders and decoders share."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int = 2048,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = False,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.linear1, self.linear2 = Dense(width, inner), Dense(inner, width)
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)
        self.dropout, self.activation, self.norm_first = Dropout(dropout), activation, norm_first

    def _network(self, x: Any) -> Any:
        return self.linear2(self.activation(self.linear1(x)))

    def _around(self, x: Any, norm: Any, part: Callable[[Any], Any], key: Any, number: int) -> Any:
        own = None if key is None else fold_in(key, number)
        if self.norm_first:
            return x + self.dropout(part(norm(x)), own)
        return norm(x + self.dropout(part(x), own))


class TransformerEncoderLayer(_Layer):
    """Attention and a network of two layers, each around a way past it, with normalisations behind
    the sums, or in front with `norm_first`.
    """

    def construct(self, x: Any, mask: Any = None, causal: bool = False, key: Any = None) -> Any:
        """`[n, length, width]` to the same; `key` is needed for dropout in training."""
        x = self._around(x, self.norm1, lambda y: self.attention(y, None, mask, causal), key, 0)
        return self._around(x, self.norm2, self._network, key, 1)


class TransformerDecoderLayer(_Layer):
    """An encoder's layer that attends to a memory between its two parts."""

    def __init__(self, width: int, heads: int, *arguments: Any, **named: Any):
        super().__init__(width, heads, *arguments, **named)
        self.memory_attention, self.norm3 = MultiHeadAttention(width, heads), LayerNorm(width)

    def construct(
        self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, causal: bool = True,
        key: Any = None,
    ) -> Any:  # fmt: skip
        """`[n, length, width]` and `[n, other length, width]` to the first one's shape."""
        x = self._around(x, self.norm1, lambda y: self.attention(y, None, mask, causal), key, 0)
        x = self._around(
            x, self.norm2, lambda y: self.memory_attention(y, memory, memory_mask), key, 1
        )
        return self._around(x, self.norm3, self._network, key, 2)


class _Layers(Module):
    LAYER: Callable[..., Module]

    def __init__(self, count: int, width: int, heads: int, *arguments: Any, **named: Any):
        super().__init__()
        self.layers = [type(self).LAYER(width, heads, *arguments, **named) for _ in range(count)]
        self.norm = LayerNorm(width) if named.get("norm_first") else None

    def construct(self, x: Any, *arguments: Any, key: Any = None, **named: Any) -> Any:
        """What the last layer gives."""
        for number, layer in enumerate(self.layers):
            own = None if key is None else fold_in(key, number)
            x = layer(x, *arguments, key=own, **named)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Layers):
    """`count` layers, one after the other; with `norm_first` and a normalisation behind them."""

    LAYER = TransformerEncoderLayer


class TransformerDecoder(_Layers):
    """`count` layers that attend to a memory; with `norm_first` and a normalisation behind them."""

    LAYER = TransformerDecoderLayer


class Transformer(Module):
    """An encoder of one sequence, and a decoder of another that attends to what it gives."""

    def __init__(
        self, width: int = 512, heads: int = 8, encoders: int = 6, decoders: int = 6, **named: Any
    ):
        super().__init__()
        self.encoder = TransformerEncoder(encoders, width, heads, **named)
        self.decoder = TransformerDecoder(decoders, width, heads, **named)

    def construct(self, source: Any, target: Any, key: Any = None) -> Any:
        """`[n, length, width]` of the target."""
        keys = [None if key is None else fold_in(key, number) for number in (998, 999)]
        return self.decoder(target, self.encoder(source, key=keys[0]), key=keys[1])
