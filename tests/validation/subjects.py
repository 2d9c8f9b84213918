"""Programs whose memory plans are changed: loops, branches, growable buffers, blocked layouts,
borders, calls at the same time, arguments that are given away, symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp

import weft
import weft.numpy as wnp
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.machine.codegen.host import host_target
from weft.tracing.trace import record

Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A traced function, what it is traced with and the arrays that it runs on; `donated` are pairs
    of an input and an output that may have one place.
    """

    name: str
    function: Callable[..., Any]
    examples: Sequence[Any]
    arrays: Callable[[], Arrays]
    naive: bool = False
    donated: tuple[tuple[int, int], ...] = ()

    def imported(self) -> ImportedModel:
        """The graph."""
        imported = record(self.function, *self.examples).imported(self.name)
        if self.donated:
            pairs = ArrayAttr([ArrayAttr([IntAttr(a), IntAttr(b)]) for a, b in self.donated])
            main_of(imported.module).attributes["donated"] = pairs
        return imported

    @property
    def options(self) -> Options:
        """How it is compiled."""
        return Options(
            structs.replace(host_target(), cores=4), artifact=Artifact("m"), naive=self.naive
        )


def main_of(module: ModuleOp) -> Any:
    """The module's one function."""
    (function,) = module.ops
    return function


def _random(*shapes: Sequence[int]) -> Callable[[], Arrays]:
    @cache
    def arrays() -> Arrays:
        generator = np.random.default_rng(7)
        return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]

    return arrays


def perceptron(x, a, b):
    """Layers, softmax and later uses of what comes between."""
    h = wnp.maximum(x @ a, 0.0)
    p = wnp.exp(h - wnp.max(h, axis=1, keepdims=True))
    p = p / wnp.sum(p, axis=1, keepdims=True)
    return wnp.sum(wnp.tanh(p @ b) * wnp.sum(h, axis=1, keepdims=True), axis=0), h @ b


def stepping(x, a):
    """A state that is large enough for two buffers in turn, and a stack of what comes by."""

    def body(state, k):
        new = wnp.tanh(state @ a) + wnp.take(state, k, 0)[None, :]
        return new, wnp.sum(new, axis=1)

    state, sums = weft.scan(body, x, wnp.arange(5))
    return state, sums


def turning(x, a):
    """The same without a stack: one iteration goes from one buffer to the other, the next back."""
    state, _ = weft.scan(lambda s, k: (wnp.tanh(s @ a) - 0.1 * s, None), x, wnp.arange(41))
    return state


def searching(x, a):
    """A loop until a condition, with two states that change places."""

    def more(state):
        one, other, count = state
        return (wnp.sum(one) < 50.0) & (count < 9)

    def body(state):
        one, other, count = state
        return other + wnp.abs(one @ a) * 0.1, one + 0.5, count + 1

    return weft.while_loop(more, body, (x, x + 1.0, wnp.asarray(0)))


def choosing(x, a):
    """A branch with buffers of its own, between uses of what is around."""
    y = x @ a
    kept = wnp.exp(-wnp.abs(y))
    z = weft.cond(
        wnp.sum(y) > 0.0,
        lambda: (wnp.sin(y) @ a + kept, kept * 2.0),
        lambda: (wnp.cos(y) * kept, wnp.permute_dims(y, (1, 0)) + kept),
    )
    return z[0] @ y, z[1] + kept


def solving(s, b):
    """The derivative of a solution: scans, rows and kernels that fill their results first."""
    return weft.grad(lambda s, b: (wnp.linalg.solve(s, b) ** 2).sum(), (0, 1))(s, b)


def learning(w, v, x):
    """A step of training that takes the memory of its parameters."""

    def loss(w, v):
        return wnp.mean((wnp.tanh(x @ w) @ v - x[:, :1]) ** 2)

    dw, dv = weft.grad(loss, (0, 1))(w, v)
    return w - 0.1 * dw, v - 0.1 * dv


def images(x, f, g):
    """Convolutions whose operands lie in blocks, within borders."""
    y = wnp.maximum(_conv(x, f), 0.0)
    z = wnp.maximum(_conv(y, g), 0.0)
    return _conv(z + y, g), wnp.mean(z, axis=(2, 3))


def _conv(x, f):
    one = [1, 1]
    return x.op("conv", x, f, strides=one, pads=one * 2, dilations=one, group=1)


def finding(x, a):
    """Buffers whose sizes are found on the way, some of them after others have ended."""
    (places,) = wnp.nonzero(x[:, 0] > 0.0)
    rows = wnp.take(x, places, 0)
    (others,) = wnp.nonzero(wnp.sum(rows @ a, axis=1) > 0.0)
    chosen = wnp.take(rows, others, 0)
    (last,) = wnp.nonzero(wnp.sum(chosen, axis=1) < 1.0)
    return wnp.sum(wnp.exp(wnp.take(chosen, last, 0)) @ a, axis=0), wnp.tanh(chosen)


def branching(x, a, b, c):
    """Chains that run at the same time."""
    one, two, three = (_chain(x, each) for each in (a, b, c))
    return one * two + three, wnp.sum(two * three, axis=0)


def _chain(x, a):
    for _ in range(5):
        x = wnp.tanh(x @ a)
    return x


_SQUARE = np.eye(4, dtype=np.float32) * 3 + np.arange(16, dtype=np.float32).reshape(4, 4) / 10

_BATCH = (weft.Spec("float32", ("n", 24)), *(weft.Spec("float32", s) for s in ((24, 16), (16, 8))))


def _specs(*shapes: Sequence[int | str]) -> tuple[weft.Spec, ...]:
    return tuple(weft.Spec("float32", tuple(shape)) for shape in shapes)


def _subjects() -> list[Subject]:
    layers = _random((12, 24), (24, 16), (16, 8))
    square = _random((64, 64), (64, 64))
    chains = _random((8, 128), *((128, 128),) * 3)
    pictures = _random((1, 16, 12, 12), (16, 16, 3, 3), (16, 16, 3, 3))
    steps = _random((20, 10), (10, 3), (32, 20))
    small = _random((8, 8), (8, 8))
    pairs = [
        Subject("perceptron", perceptron, _specs((12, 24), (24, 16), (16, 8)), layers),
        Subject("batch", perceptron, _BATCH, layers),
        Subject("stepping", stepping, _specs((64, 64), (64, 64)), square),
        Subject("turning", turning, _specs((64, 64), (64, 64)), square),
        Subject("searching", searching, _specs((8, 8), (8, 8)), small),
        Subject("choosing", choosing, _specs((8, 8), (8, 8)), small),
        Subject(
            "solving", solving, _specs((4, 4), (4, 1)), lambda: [_SQUARE, np.ones((4, 1), "f4")]
        ),
        Subject(
            "learning", learning, _specs((20, 10), (10, 3), (32, 20)), steps,
            donated=((0, 0), (1, 1)),
        ),
        Subject("images", images, _specs(*(each.shape for each in pictures())), pictures),
        Subject("finding", finding, _specs((40, 8), (8, 8)), _random((40, 8), (8, 8))),
        Subject("branching", branching, _specs((8, 128), *((128, 128),) * 3), chains),
    ]  # fmt: skip
    return pairs + [replace(each, name=f"{each.name}_naive", naive=True) for each in pairs]


SUBJECTS = _subjects()
