"""An optimiser and a training algorithm of one's own, which run at once and compile."""

import numpy as np

import weft
import weft.numpy as wnp
from weft import Tensor, nn
from weft.optim import Optimizer
from weft.trees import tree_map


def lion(rate: float, beta1: float = 0.9, beta2: float = 0.99) -> Optimizer:
    """Steps of one length along the sign of a mean of slopes (Chen et al., 2023)."""

    def init(parameters):
        return tree_map(lambda each: Tensor(np.zeros(each.shape, np.float32)), parameters)

    def update(parameters, gradients, means):
        def moved(parameter, gradient, mean):
            return parameter - rate * wnp.sign(beta1 * mean + (1.0 - beta1) * gradient)

        def followed(gradient, mean):
            return beta2 * mean + (1.0 - beta2) * gradient

        after = tree_map(moved, parameters, gradients, means)
        return after, tree_map(followed, gradients, means)

    return Optimizer(init, update)


def descend(loss, parameters, rounds: int):
    """Steepest descent: each round halves its step until the loss sinks enough (Armijo)."""
    for _ in range(rounds):
        value, slopes = weft.value_and_grad(loss)(parameters)
        square = sum((each * each).sum() for each in slopes.values())

        def at(size, slopes=slopes, parameters=parameters):
            return tree_map(lambda p, g: p - size * g, parameters, slopes)

        def too_long(size, value=value, square=square, at=at):
            return loss(at(size)) > value - 0.5 * size * square

        size = weft.while_loop(too_long, lambda size: size * 0.5, wnp.full((), 4.0, np.float32))
        parameters = at(size)
    return loss(parameters), parameters


def main() -> None:
    """Learns which of three clouds points lie in, in both ways."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(3, 8)).astype(np.float32)
    classes = draw.integers(0, 3, 256)
    points = Tensor(centres[classes] + 0.3 * draw.standard_normal((256, 8), np.float32))
    labels = Tensor(classes)
    with nn.seed(0):
        network = nn.Sequential(nn.Dense(8, 16), nn.Tanh(), nn.Dense(16, 3))

    def loss(parameters):
        return nn.cross_entropy(network.apply(parameters, points), labels)

    def step(parameters, state):
        value, slopes = weft.value_and_grad(loss)(parameters)
        return value, *optimizer.update(parameters, slopes, state)

    optimizer, parameters = lion(0.01), network.parameters()
    state = optimizer.init(parameters)
    print("an optimiser of one's own")
    eager, _, _ = step(parameters, state)
    running = weft.step(step, parameters, state, donate=(0, 1)).start(parameters, state)
    first = running()
    for _ in range(100):
        value = running()
    print(f"  loss {first:.4f} (eager {eager:.4f}), after 100 steps {value:.4f}")
    print("an algorithm of one's own")
    compiled = weft.step(lambda parameters: descend(loss, parameters, 2), parameters)
    print(f"  loss after 2 rounds {compiled(parameters)[0]:.4f}")
    print(f"  eager {descend(loss, parameters, 2)[0]:.4f}")


if __name__ == "__main__":
    main()
