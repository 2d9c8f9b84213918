"""Data-parallel training of a small network: unchanged on one rank, and on several.

python train_on_many_ranks.py
weft launch -n 2 train_on_many_ranks.py
mpirun -n 2 python train_on_many_ranks.py
"""

import numpy as np

import weft
import weft.numpy as wnp
from weft import Mesh, P


def loss_of(parameters, x, y):
    hidden = wnp.tanh(x @ parameters["w1"] + parameters["b1"])
    error = hidden @ parameters["w2"] - y
    return (error * error).mean()


def train(parameters, x, y):
    loss, gradients = weft.value_and_grad(loss_of)(parameters, x, y)
    return {name: p - 0.1 * gradients[name] for name, p in parameters.items()}, loss


def main():
    numbers = np.random.default_rng(0)
    parameters = {
        "w1": numbers.normal(0, 0.3, (8, 16)).astype(np.float32),
        "b1": np.zeros(16, np.float32),
        "w2": numbers.normal(0, 0.3, (16, 1)).astype(np.float32),
    }
    x = numbers.normal(0, 1, (64, 8)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True))
    # Each rank reads its rows of the batch; gradients and the loss are those of all rows.
    rows = {"x": P("data"), "y": P("data")}
    mesh = Mesh(data=weft.ranks())
    step = weft.step(train, parameters, x, y, donate=[0], mesh=mesh, shardings=rows)
    for number in range(51):
        parameters, loss = step(parameters, x, y)
        if number % 10 == 0 and weft.rank() == 0:  # mpirun shows what every rank prints
            print(f"step {number}: loss {float(loss):.5f}")


if __name__ == "__main__":
    main()
