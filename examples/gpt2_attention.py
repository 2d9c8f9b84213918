"""The attention of the decision transformer's GPT-2, with the branches of its `forward`: at once
and compiled, from a trace and from its source.
"""

import numpy as np

import weft
import weft.numpy as wnp
from weft import nn


class DecisionTransformerGPT2Attention(nn.Module):
    """Attention of words to earlier ones, or to those of an encoder."""

    def __init__(self, size: int, heads: int, is_cross_attention: bool = False):
        super().__init__()
        self.split_size, self.num_heads, self.head_dim = size, heads, size // heads
        self.c_attn = nn.Linear(size, 2 * size if is_cross_attention else 3 * size)
        if is_cross_attention:
            self.q_attn = nn.Linear(size, size)
        self.c_proj = nn.Linear(size, size)
        self.resid_dropout = nn.Dropout(0.1)

    def _split_heads(self, x, heads, size):
        return x.reshape((*x.shape[:-1], heads, size)).transpose(0, 2, 1, 3)

    def _merge_heads(self, x, heads, size):
        x = x.transpose(0, 2, 1, 3)
        return x.reshape((*x.shape[:-2], heads * size))

    def _attn(self, query, key, value, attention_mask=None, head_mask=None):
        scores = query @ key.transpose(0, 1, 3, 2) / self.head_dim**0.5
        if not hasattr(self, "q_attn"):
            n, m = query.shape[-2], key.shape[-2]
            scores = wnp.where(np.tril(np.ones((n, m), bool), m - n), scores, np.float32(-1e9))
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = wnp.softmax(scores, axis=-1)
        if head_mask is not None:
            weights = weights * head_mask
        return weights @ value, weights

    def forward(
        self, hidden_states, layer_past=None, attention_mask=None, head_mask=None,
        encoder_hidden_states=None, encoder_attention_mask=None, use_cache=False,
        output_attentions=False,
    ):  # fmt: skip
        if encoder_hidden_states is not None:
            if not hasattr(self, "q_attn"):
                raise ValueError("cross attention requires is_cross_attention=True, got none")
            query = self.q_attn(hidden_states)
            key, value = self.c_attn(encoder_hidden_states).split(self.split_size, dim=2)
            attention_mask = encoder_attention_mask
        else:
            query, key, value = self.c_attn(hidden_states).split(self.split_size, dim=2)

        query = self._split_heads(query, self.num_heads, self.head_dim)
        key = self._split_heads(key, self.num_heads, self.head_dim)
        value = self._split_heads(value, self.num_heads, self.head_dim)

        if layer_past is not None:
            past_key, past_value = layer_past
            key = wnp.concat((past_key, key), axis=-2)
            value = wnp.concat((past_value, value), axis=-2)

        present = (key, value) if use_cache is True else None
        attn_output, attn_weights = self._attn(query, key, value, attention_mask, head_mask)
        attn_output = self._merge_heads(attn_output, self.num_heads, self.head_dim)
        attn_output = self.c_proj(attn_output)
        attn_output = self.resid_dropout(attn_output)

        outputs = (attn_output, present)
        if output_attentions:
            outputs += (attn_weights,)
        return outputs


def leaves(found):
    """The arrays of nested tuples."""
    if isinstance(found, tuple | list):
        return [leaf for each in found for leaf in leaves(each)]
    return [] if found is None else [np.asarray(found)]


def require_near(found, expected):
    pairs = zip(leaves(found), expected, strict=True)
    assert max(abs(a - b).max() for a, b in pairs) < 1e-5


def main() -> None:
    rng = np.random.default_rng(0)
    x, encoded = (rng.random((2, size, 32), np.float32) for size in (5, 7))
    own, cross = (DecisionTransformerGPT2Attention(32, 4, each).eval() for each in (False, True))
    print(own)
    first = own(weft.Tensor(x), use_cache=True)
    past = tuple(np.asarray(each) for each in first[1])
    calls = {
        "with a cache": (own, (x,), {"use_cache": True, "output_attentions": True}),
        "after a past": (own, (x[:, :1],), {"layer_past": past}),
        "of an encoder": (cross, (x,), {"encoder_hidden_states": encoded}),
    }
    for name, (layer, arrays, options) in calls.items():
        at_once = leaves(layer(*map(weft.Tensor, arrays), **options))
        require_near(weft.jit(layer)(*arrays, **options), at_once)
        print(name, [each.shape for each in at_once])
    traced = weft.trace(lambda x: own(x, use_cache=True), x)
    require_near(traced(x), leaves(first))


if __name__ == "__main__":
    main()
