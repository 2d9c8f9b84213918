"""A network whose blocks are stages of a pipeline: trained on four parts of each batch, and then
applied to a stream of inputs. Unchanged on one, two or four ranks.

python pipeline_on_many_ranks.py
weft launch -n 2 pipeline_on_many_ranks.py
mpirun -n 2 python pipeline_on_many_ranks.py
"""

import numpy as np

import weft
import weft.numpy as wnp
from weft import Mesh

BLOCKS = 4
PARTS = 4


def network(parameters, x):
    for number, block in enumerate(parameters):
        if number:
            x = wnp.stage(x, number)  # what follows is computed by the next ranks
        x = x + wnp.tanh(x @ block["w"] + block["b"])
    return x


def loss_of(parameters, x, y):
    error = network(parameters, x) - y
    return (error * error).mean()


def train(parameters, x, y):
    size = x.shape[0] // PARTS
    loss, gradients = 0.0, None
    for start in range(0, x.shape[0], size):  # ranks have several parts under way
        rows = slice(start, start + size)
        part, found = weft.value_and_grad(loss_of)(parameters, x[rows], y[rows])
        loss = loss + part / PARTS
        gradients = found if gradients is None else added(gradients, found)
    return [
        {name: p - 0.2 / PARTS * own[name] for name, p in block.items()}
        for block, own in zip(parameters, gradients, strict=True)
    ], loss


def added(one, other):
    pairs = zip(one, other, strict=True)
    return [{name: a[name] + b[name] for name in a} for a, b in pairs]


def main():
    numbers = np.random.default_rng(0)
    parameters = [
        {"w": numbers.normal(0, 0.2, (8, 8)).astype(np.float32), "b": np.zeros(8, np.float32)}
        for _ in range(BLOCKS)
    ]
    x = numbers.normal(0, 1, (32, 8)).astype(np.float32)
    y = np.sin(x)
    mesh = Mesh(stage=weft.ranks())
    step = weft.step(train, parameters, x, y, donate=[0], mesh=mesh)
    apply = weft.step(network, parameters, x[:4], mesh=mesh)
    for number in range(31):
        parameters, loss = step(parameters, x, y)  # each rank keeps its blocks' parameters
        if number % 10 == 0 and weft.rank() == 0:
            print(f"step {number}: loss {float(loss):.5f}")
    inputs = ((parameters, x[start : start + 4]) for start in range(0, 32, 4))
    sums = [float(wnp.sum(result)) for result in apply.stream(inputs)]
    if weft.rank() == 0:
        print("sums of outputs:", " ".join(f"{each:.4f}" for each in sums))


if __name__ == "__main__":
    main()
