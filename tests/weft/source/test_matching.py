"""`match`, and ranges of which a call finds both ends, evaluated as graphs."""

import numpy as np
import pytest

from weft.dialects.errors import SourceError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.tracing.spec import Spec

X = np.arange(3.0)


def evaluated(function, *arguments):
    given = [
        Spec(each.dtype.name, each.shape) if isinstance(each, np.ndarray | np.generic) else each
        for each in arguments
    ]
    program = read_function(function, given, {})
    block = program.module.body.block.first_op.body.block
    inputs = [each for each in arguments if isinstance(each, np.ndarray | np.generic)]
    found = evaluate_block(block, inputs, {}, program.recording.weights)
    return program.rebuilt([np.asarray(each) for each in found])


def stepped(n, x, mode):
    match mode:
        case "double" | "twice":
            x = x * 2
        case None:
            pass
        case (a, b):
            x = x * a + b
        case other:
            x = x + other
    y = x
    match n:
        case 0:
            return x
        case 1 | 2:
            y = x + 1
        case m if m > 10:
            y = x * m
        case _:
            y = x * 0
    return y


@pytest.mark.parametrize("mode", ["twice", None, (3, 1), 5])
def test_a_case_is_chosen_while_compiling_or_by_the_call(mode):
    for n in (0, 1, 2, 5, 12):
        found = evaluated(stepped, np.int64(n), X, mode)
        np.testing.assert_allclose(found, stepped(n, X, mode))


def test_patterns_that_are_refused():
    def looked_up(x, options):
        match options:
            case {"scale": scale}:
                return x * scale
        return x

    with pytest.raises(SourceError, match=r"match requires .*, got \{'scale': scale\}"):
        evaluated(looked_up, X, {"scale": 2})


def test_ranges_between_ends_that_a_call_finds():
    def summed(x, low, high):
        total = 0.0
        for i in range(low, high):
            total = total + x[i] * i
        return total

    for low, high in ((0, 3), (1, 3), (2, 1)):
        found = evaluated(summed, X, np.int64(low), np.int64(high))
        np.testing.assert_allclose(found, summed(X, low, high))
