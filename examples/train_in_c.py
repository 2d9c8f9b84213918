"""Writes a step of training as a shared object, and what it starts from, for examples/c/train.c."""

import struct

import numpy as np
from sklearn.datasets import load_digits

import weft
from weft import nn, optim
from weft.trees import leaves_of

BATCH = 32


def main() -> None:
    """Writes libstep.so, libstep.h and digits.bin into this folder."""
    with nn.seed(0):
        network = nn.Sequential(nn.Dense(64, 128), nn.ReLU(), nn.Dense(128, 10))
    optimizer = optim.sgd(0.2)

    def step(parameters, state, images, labels):
        def loss(parameters):
            return nn.cross_entropy(network.apply(parameters, images), labels)

        value, slopes = weft.value_and_grad(loss)(parameters)
        return value, *optimizer.update(parameters, slopes, state)

    images, labels = load_digits(return_X_y=True)
    count = len(images) // BATCH * BATCH
    images, labels = (images[:count] / 16).astype(np.float32), labels[:count].astype(np.int64)
    parameters = network.parameters()
    state = optimizer.init(parameters)
    examples = parameters, state, images[:BATCH], labels[:BATCH]
    weft.step(step, *examples, donate=(0, 1), prefix="step").export("libstep.so")
    with open("digits.bin", "wb") as out:
        for leaf in leaves_of([parameters, state, images, labels]):
            array = np.asarray(leaf)
            out.write(struct.pack("<Q", array.nbytes) + array.tobytes())
    print(f"libstep.so, and {count} digits for it")


if __name__ == "__main__":
    main()
