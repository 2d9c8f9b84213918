"""A layer of BERT-large, and how tensor-parallel ranks cut it: by heads, and by hidden units."""
# pyright: basic

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft
import weft.numpy as wnp
from weft import Mesh, P, nn

TOKENS, WIDTH, HEADS = 256, 1024, 16


def layer(p, x):
    """`[tokens, width]` to the same."""
    y = normalised(x)
    q, k, v = (wnp.einsum("tw,whd->thd", y, p[key]) for key in "qkv")
    scores = wnp.softmax(wnp.einsum("qhd,khd->hqk", q, k) / np.float32(8), -1)
    x = x + wnp.einsum("thd,hdw->tw", wnp.einsum("hqk,khd->qhd", scores, v), p["o"])
    return x + nn.gelu(normalised(x) @ p["up"]) @ p["down"]


def normalised(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / wnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def weights() -> dict:
    shapes = dict.fromkeys("qkv", (WIDTH, HEADS, 64)) | {
        "o": (HEADS, 64, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)
    }  # fmt: skip
    draw = np.random.default_rng(0)
    return {key: draw.normal(0, 0.03, shape).astype(np.float32) for key, shape in shapes.items()}


def tokens():
    return np.random.default_rng(1).normal(size=(TOKENS, WIDTH)).astype(np.float32)


CUTS = {f"p.{key}": P(None, "model") for key in ("q", "k", "v", "up")} | {
    f"p.{key}": P("model") for key in ("o", "down")
}


def runs() -> tuple[Callable[[], object], Callable[[], object]]:
    """What runs the layer on all ranks, of which each holds its parts, and what runs it alone."""
    p, x = weights(), tokens()
    cut = weft.step(layer, p, x, threads=1, mesh=Mesh(model=weft.ranks()), shardings=CUTS)
    whole = weft.step(layer, p, x, threads=1)
    own = {key: part(weight, CUTS[f"p.{key}"]) for key, weight in p.items()}
    np.testing.assert_allclose(np.asarray(cut(own, x)), np.asarray(whole(p, x)), atol=1e-3)
    return lambda: cut(own, x), lambda: whole(p, x)


def part(weight, cut: P):
    """This rank's part of a weight."""
    axis = cut.dims.index(("model",))
    return np.ascontiguousarray(np.split(weight, weft.ranks(), axis)[weft.rank()])
