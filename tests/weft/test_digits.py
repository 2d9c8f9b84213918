"""Networks learn digits: the same steps eager, traced and from source, over 97 % in the end."""

import pytest

from weft import jit, nn, optim, step

pytest.importorskip("sklearn")

from examples.train_digits import BATCH, Convolutional, Perceptron, batches, digits, step_of, train


@pytest.mark.parametrize("kind", [Perceptron, Convolutional])
def test_the_first_fifty_steps_are_the_same(kind: type[nn.Module]):
    images, labels, _, _ = digits()
    with nn.seed(0):
        network = kind()
    optimizer = optim.adam(2e-3)
    function, parameters = step_of(network, optimizer), network.parameters()
    state = optimizer.init(parameters)
    examples = parameters, state, images[:BATCH], labels[:BATCH]
    running = step(function, *examples, donate=(0, 1)).start(parameters, state)
    compiled, own = jit(function), (parameters, state)
    for number, (x, y) in enumerate(batches(images, labels, 2)):
        loss, parameters, state = function(parameters, state, x, y)
        assert float(running(x, y)) == pytest.approx(float(loss), abs=1e-4)
        value, *own = compiled(*own, x, y)
        assert float(value) == pytest.approx(float(loss), abs=1e-4)
        if number == 50:
            break
    assert len(compiled.compilations) == 1


@pytest.mark.parametrize("kind", [Perceptron, Convolutional])
def test_over_97_percent_are_read(kind: type[nn.Module]):
    with nn.seed(0):
        network = kind()
    _, share = train(network, 20, compiled=True)
    assert share > 0.97
