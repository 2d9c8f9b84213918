"""Networks learn to read digits: as Python runs, and with one compiled call a step.

The very same function is the step in both modes. Needs scikit-learn, for its 1797 images.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.datasets import load_digits

import weft
from weft import Tensor, nn, optim

BATCH = 32


class Perceptron(nn.Module):
    """One hidden layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Dense(64, 128), nn.ReLU(), nn.Dense(128, 10))

    def construct(self, x):
        """`[n, 1, 8, 8]` to `[n, 10]`."""
        return self.layers(x)


class Convolutional(nn.Module):
    """Two convolutions, pooled, and a product."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Dense(32 * 2 * 2, 10)

    def construct(self, x):
        """`[n, 1, 8, 8]` to `[n, 10]`."""
        return self.head(self.features(x))


def step_of(network: nn.Module, optimizer: optim.Optimizer) -> Callable:
    """A step of training: from parameters, the optimiser's state and a batch to the loss, and both
    after it.
    """

    def step(parameters, state, images, labels):
        def loss(parameters):
            return nn.cross_entropy(network.apply(parameters, images), labels)

        value, slopes = weft.value_and_grad(loss)(parameters)
        return value, *optimizer.update(parameters, slopes, state)

    return step


def digits() -> tuple[Tensor, ...]:
    """Images and labels to learn from, and others to be examined with."""
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], labels[order].astype(np.int64)
    learnt, others = slice(None, 1440), slice(1440, None)
    return tuple(Tensor(each[part]) for part in (learnt, others) for each in (images, labels))


def batches(images: Tensor, labels: Tensor, epochs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All images in every epoch, each time in another order."""
    draw = np.random.default_rng(1)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for start in range(0, len(images), BATCH):
            places = order[start : start + BATCH]
            yield Tensor.of(images.numpy()[places]), Tensor.of(labels.numpy()[places])


def train(network: nn.Module, epochs: int, *, compiled: bool) -> tuple[list[float], float]:
    """The losses of all steps, and the share of other images that are read rightly."""
    images, labels, others, answers = digits()
    optimizer = optim.adam(2e-3)
    step, parameters = step_of(network, optimizer), network.parameters()
    state = optimizer.init(parameters)
    losses: list[float] = []
    if compiled:
        examples = parameters, state, images[:BATCH], labels[:BATCH]
        running = weft.step(step, *examples, donate=(0, 1)).start(parameters, state)
        losses = [float(running(x, y)) for x, y in batches(images, labels, epochs)]
        parameters, state = running.state
    else:
        for x, y in batches(images, labels, epochs):
            loss, parameters, state = step(parameters, state, x, y)
            losses.append(float(loss))
    read = np.asarray(network.apply(parameters, others)).argmax(1)
    return losses, float((read == answers.numpy()).mean())


def main() -> None:
    """Trains a network in both modes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--convolutional", action="store_true")
    arguments = parser.parse_args()
    kind = Convolutional if arguments.convolutional else Perceptron
    for compiled in (False, True):
        with nn.seed(0):
            network = kind()
        start = time.perf_counter()
        losses, share = train(network, arguments.epochs, compiled=compiled)
        seconds = time.perf_counter() - start
        mode = "compiled" if compiled else "eager"
        print(
            f"{kind.__name__} {mode}: loss {losses[0]:.4f} to {losses[-1]:.4f},"
            f" {share:.1%} right, {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
