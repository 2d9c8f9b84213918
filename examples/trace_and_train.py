"""A training step as one compiled call: forward, backward and update, from a Python function."""

import numpy as np

import weft
import weft.numpy as wnp


def loss(weights, hidden, images, labels):
    """The cross entropy of a small network."""
    scores = wnp.tanh(images @ hidden) @ weights
    return -(wnp.log_softmax(scores) * labels).sum(1).mean()


def step(weights, hidden, images, labels):
    """The loss, and the parameters a step further down its slope."""
    slopes = weft.value_and_grad(loss, (0, 1))
    value, (d_weights, d_hidden) = slopes(weights, hidden, images, labels)
    return value, weights - 0.5 * d_weights, hidden - 0.5 * d_hidden


def main() -> None:
    """Learns which of three clouds a point lies in."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(3, 8)).astype(np.float32)
    classes = draw.integers(0, 3, 256)
    images = centres[classes] + 0.3 * draw.standard_normal((256, 8), np.float32)
    labels = np.eye(3, dtype=np.float32)[classes]
    weights = 0.1 * draw.standard_normal((16, 3), np.float32)
    hidden = 0.1 * draw.standard_normal((8, 16), np.float32)
    compiled = weft.trace(step, weights, hidden, images, labels)
    for number in range(101):
        value, weights, hidden = compiled(weights, hidden, images, labels)
        if number % 50 == 0:
            print(f"step {number:3}: loss {value:.4f}")


if __name__ == "__main__":
    main()
