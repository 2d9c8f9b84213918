"""One program in both modes: at once, where Python shows every result, and as a graph that is
compiled, from a trace or from the source with its control flow.
"""

import numpy as np

import weft
import weft.numpy as wnp
from weft import nn


class Network(nn.Cell):
    """An image becomes 512 features."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(28 * 28, 512),
            nn.ReLU(),
        )

    def construct(self, x):
        x = self.flatten(x)
        logits = self.dense_relu_sequential(x)
        return logits  # noqa: RET504  as tutorials have it


def f(x1, x2):
    return wnp.log(x1) + x1 * x2 - wnp.sin(x2)


def newton_root(x, tolerance):
    """The square root of a number, and in how many rounds; 100 more for each bound above which it
    is.
    """
    root, rounds = x, 0
    while abs(root * root - x) > tolerance:
        root, rounds = (root + x / root) / 2, rounds + 1
    for bound in (1.0, 2.0):
        if root > bound:
            rounds += 100
    return root, rounds


def largest_difference(found, expected):
    return max(
        float(abs(np.asarray(a) - np.asarray(b)).max())
        for a, b in zip(found, expected, strict=True)
    )


def main() -> None:
    network, images = Network(), np.random.default_rng(0).random((4, 28, 28), np.float32)
    print(network)
    logits = network(weft.Tensor(images))
    compiled = weft.trace(network, images)(images), weft.jit(network)(images)
    assert largest_difference(compiled, (logits, logits)) < 1e-5
    print(logits.shape)

    point = np.float64(2.0), np.float64(5.0)
    slopes = weft.grad(f, (0, 1))
    at_once = f(*map(weft.Tensor, point)), *slopes(*map(weft.Tensor, point))
    graph = weft.trace(lambda x1, x2: (f(x1, x2), *slopes(x1, x2)), *point)
    assert largest_difference(graph(*point), at_once) < 1e-12
    print("f(2, 5) = {:.6f}, slopes {:.6f} and {:.6f}".format(*map(float, at_once)))

    x, tolerance = np.float64(10.0), 1e-12
    at_once, compiled = newton_root(x, tolerance), weft.jit(newton_root)(x, tolerance)
    assert largest_difference(compiled, at_once) < 1e-12
    print("the root of 10 is {:.6f}, counted {:.0f}".format(*map(float, at_once)))


if __name__ == "__main__":
    main()
