"""Networks of known kinds, small, on any number of ranks: gradients along the trajectory of one
rank, the loss after a run of steps, and outputs are those of one rank. For all transports:

    python -m tests.weft.distributed.models --threads 4 50 gpt2  ranks of threads
    weft launch -n 4 tests/weft/distributed/models.py 50 gpt2    and mpirun -n 4 python ...

`benchmarks/ranks/trajectories.py` makes one table of all, with ResNet-18 and GPT-2 at their size.
"""
# pyright: basic

from __future__ import annotations

import sys

import numpy as np

import weft
import weft.numpy as wnp
from weft import Mesh, P, nn, optim

NUMBERS = np.random.default_rng(11)
WIDTH, HEADS, TOKENS, WORDS, BATCH = 32, 4, 16, 48, 8


def normal(*dims: int, scale: float = 1.0):
    return NUMBERS.normal(0, scale, dims).astype(np.float32)


# Transformers: parameters by name, so that shardings can name them ------------------------


def blocks(count: int) -> dict:
    """The parameters of layers of a transformer."""
    shapes = {
        "q": (WIDTH, HEADS, WIDTH // HEADS),
        "k": (WIDTH, HEADS, WIDTH // HEADS),
        "v": (WIDTH, HEADS, WIDTH // HEADS),
        "o": (HEADS, WIDTH // HEADS, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    return {f"{n}_{k}": normal(*s, scale=0.15) for n in range(count) for k, s in shapes.items()}


def cut_heads(count: int, tree: str) -> dict[str, P]:
    """How tensor-parallel ranks cut them: by heads, and by hidden units."""
    cuts = {key: P(None, "model") for key in ("q", "k", "v", "up")}
    cuts |= {key: P("model") for key in ("o", "down")}
    return {f"{tree}.{n}_{key}": cut for n in range(count) for key, cut in cuts.items()}


def norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / wnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def attended(q, k, v, mask):
    scores = wnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32((WIDTH // HEADS) ** 0.5)
    if mask is not None:
        scores = wnp.where(mask, scores, np.float32(-1e9))
    return wnp.einsum("bhqk,bkhd->bqhd", wnp.softmax(scores, -1), v)


def layer(p, n: int, x, mask=None):
    y = norm(x)
    q, k, v = (wnp.einsum("btw,whd->bthd", y, p[f"{n}_{key}"]) for key in "qkv")
    x = x + wnp.einsum("bthd,hdw->btw", attended(q, k, v, mask), p[f"{n}_o"])
    return x + nn.gelu(norm(x) @ p[f"{n}_up"]) @ p[f"{n}_down"]


def cross_entropy(logits, labels):
    return -wnp.take_along_axis(wnp.log_softmax(logits, -1), labels[..., None], -1).mean()


CAUSAL = np.tril(np.ones((TOKENS, TOKENS), bool))
WORDS_IN = NUMBERS.integers(0, WORDS, (BATCH, TOKENS))
WORDS_OUT = NUMBERS.integers(0, WORDS, (BATCH, TOKENS))


def gpt2_logits(p, words):
    x = wnp.take(p["table"], words, 0) + p["places"]
    for n in range(2):
        x = layer(p, n, x, CAUSAL)
    return norm(x) @ p["table"].T


def bert_logits(p, words):
    x = wnp.take(p["table"], words, 0) + p["places"]
    for n in range(2):
        x = layer(p, n, x)
    return wnp.tanh(norm(x)[:, 0] @ p["pool"]) @ p["classes"]


TRANSFORMER = blocks(2) | {
    "table": normal(WORDS, WIDTH, scale=0.3),
    "places": normal(TOKENS, WIDTH, scale=0.1),
}
BERT = TRANSFORMER | {"pool": normal(WIDTH, WIDTH, scale=0.2), "classes": normal(WIDTH, 3)}
VIT = blocks(4) | {
    "patch": normal(48, WIDTH, scale=0.2),
    "places": normal(16, WIDTH, scale=0.1),
    "classes": normal(WIDTH, 10),
}
IMAGES = [normal(2, 3, 16, 16) for _ in range(16)]


def gpt2_loss(p, words, labels):
    return cross_entropy(gpt2_logits(p, words), labels)


def bert_loss(p, words, labels):
    return cross_entropy(bert_logits(p, words), labels)


# ResNet ------------------------


class Block(nn.Module):
    """Two convolutions around which the input goes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = [nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)]
        self.beside = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def construct(self, x):
        y = wnp.maximum(self.norms[0](self.one(x)), 0)
        return wnp.maximum(self.norms[1](self.two(y)) + self.beside(x), 0)


class ResNet(nn.Module):
    """The parts of ResNet-18 with few channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = [Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1)]
        self.classes = nn.Dense(16, 10)

    def construct(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classes(x.mean((2, 3)))


PICTURES = normal(BATCH, 3, 8, 8)


def resnet(ranks: int):
    """With a network of its own, as ranks that are threads trace at the same time."""
    with nn.seed(0):
        network = ResNet()

    def loss(p, images, labels):
        return cross_entropy(network.apply(p, images), labels)

    parameters = network.parameters()
    return loss, parameters, PICTURES, WORDS_OUT[:, 0] % 10, Mesh(data=ranks), ROWS


# Training ------------------------


def trained(name: str, steps: int) -> dict[str, float]:
    """Compares training on the ranks of this program with that of one."""
    loss_of, parameters, x, y, mesh, cuts = TRAINED[name](weft.ranks())
    optimizer = optim.adam(0.003)

    def train(parameters, state, x, y):
        loss, slopes = weft.value_and_grad(lambda p: loss_of(p, x, y))(parameters)
        return *optimizer.update(parameters, slopes, state), loss, slopes

    given = parameters, optimizer.init(parameters), x, y
    alone = weft.step(train, *given, threads=1)
    ours = weft.step(train, *given, threads=1, mesh=mesh, shardings=cuts)
    one = many = given[:2]
    worst = 0.0
    for _ in range(steps):
        *_, slopes = ours(*one, x, y)  # at the parameters of one rank
        *one, loss, expected = alone(*one, x, y)
        *many, own, _ = ours(*many, x, y)
        for found, wanted in zip(leaves(slopes), leaves(expected), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
            worst = max(worst, float(np.abs(found - wanted).max()))
    np.testing.assert_allclose(float(own), float(loss), atol=1e-3)
    off = abs(float(own) - float(loss))
    return {"gradients": worst, "last loss": off}


def leaves(tree) -> list:
    """The arrays of a tree of dicts and lists."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for each in tree for leaf in leaves(each)]
    return [np.asarray(tree)]


ROWS = {"x": P("data"), "y": P("data")}
TRAINED = {
    "gpt2": lambda n: (
        gpt2_loss, TRANSFORMER, WORDS_IN, WORDS_OUT, Mesh(data=n), ROWS
    ),
    "gpt2_tensor": lambda n: (
        gpt2_loss, TRANSFORMER, WORDS_IN, WORDS_OUT, Mesh(model=n), cut_heads(2, "parameters")
    ),
    "bert": lambda n: (
        bert_loss,
        BERT,
        WORDS_IN,
        WORDS_OUT[:, 0] % 3,
        Mesh(data=max(1, n // 2), model=min(2, n)),
        ROWS | cut_heads(2, "parameters"),
    ),
    "resnet": resnet,
}  # fmt: skip
"""By the number of ranks: the loss, parameters, a batch, the mesh, and what it cuts."""


# Inference ------------------------


def decode(p, cache, word, place):
    """The logits behind one more word, and the cache of keys and values with it."""
    x = (wnp.take(p["table"], word, 0) + wnp.take(p["places"], place, 0))[:, None]
    mask = wnp.arange(TOKENS) <= place
    written = (wnp.arange(TOKENS) == place)[None, :, None, None]
    kept = {}
    for n in range(2):
        y = norm(x)
        q, k, v = (wnp.einsum("btw,whd->bthd", y, p[f"{n}_{key}"]) for key in "qkv")
        keys = kept[f"{n}_k"] = wnp.where(written, k, cache[f"{n}_k"])
        values = kept[f"{n}_v"] = wnp.where(written, v, cache[f"{n}_v"])
        x = x + wnp.einsum("bthd,hdw->btw", attended(q, keys, values, mask), p[f"{n}_o"])
        x = x + nn.gelu(norm(x) @ p[f"{n}_up"]) @ p[f"{n}_down"]
    return kept, (norm(x) @ p["table"].T)[:, 0]


def decoded(steps: int) -> dict[str, float]:
    """Words that follow each other, by heads on the ranks, each with its part of the cache."""
    p, shape = TRANSFORMER, (2, TOKENS, HEADS, WIDTH // HEADS)
    cache = {f"{n}_{key}": np.zeros(shape, np.float32) for n in range(2) for key in "kv"}
    given = p, cache, np.zeros(2, np.int64), np.int64(0)
    cuts = cut_heads(2, "p") | {f"cache.{name}": P(None, None, "model") for name in cache}
    meshed = {"mesh": Mesh(model=weft.ranks()), "shardings": cuts}
    alone = weft.step(decode, *given, donate=[1], threads=1)
    ours = weft.step(decode, *given, donate=[1], threads=1, **meshed)
    one, many, word = cache, cache, given[2]
    worst = 0.0
    for place in range(min(steps, TOKENS)):
        one, expected = alone(p, one, word, np.int64(place))
        many, found = ours(p, many, word, np.int64(place))
        worst = max(worst, float(np.abs(np.asarray(found) - np.asarray(expected)).max()))
        word = np.asarray(expected).argmax(-1)
    assert worst < 1e-4, worst
    return {"results": worst}


def vit(p, images):
    """Patches of 4 x 4, four layers; a stage begins with each but the first."""
    patches = images.reshape(-1, 3, 4, 4, 4, 4).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 16, 48)
    x = patches @ p["patch"] + p["places"]
    for n in range(4):
        x = wnp.stage(x, n) if n else x
        x = layer(p, n, x)
    return norm(x).mean(1) @ p["classes"]


def streamed(steps: int) -> dict[str, float]:
    """Images through a pipeline, several in flight."""
    p, images = VIT, IMAGES[:steps]
    alone = weft.step(vit, p, images[0], threads=1)
    ours = weft.step(vit, p, images[0], threads=1, mesh=Mesh(stage=weft.ranks()))
    worst = 0.0
    for image, found in zip(images, ours.stream((p, each) for each in images), strict=True):
        expected = np.asarray(alone(p, image))
        worst = max(worst, float(np.abs(np.asarray(found) - expected).max()))
    assert worst < 1e-4, worst
    return {"results": worst}


def check(name: str, steps: int = 50) -> dict[str, float]:
    """What was compared, and how far it was off at most. Raises AssertionError for more than
    rounding.
    """
    if name in TRAINED:
        return trained(name, steps)
    return decoded(steps) if name == "decode" else streamed(steps)


NAMES = (*TRAINED, "decode", "vit")


def run(words: list[str]) -> None:
    """Checks the networks that are named, or all, for so many steps."""
    steps = [int(word) for word in words if word.isdecimal()] or [50]
    for each in [word for word in words if not word.isdecimal()] or NAMES:
        off = ", ".join(f"{what} {most:.1e}" for what, most in check(each, *steps).items())
        if weft.rank() == 0:
            print(f"{each} on {weft.ranks()} ranks is off by: {off}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--threads"]:
        weft.simulate(int(sys.argv[2]), run, sys.argv[3:])
    else:
        run(sys.argv[1:])
