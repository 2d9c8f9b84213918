"""Random programs with control flow: a graph gives what Python gives, or is refused."""

import copy
import linecache

import numpy as np
import pytest

from tests.weft.source.programs.random_programs import Writer
from weft import Spec
from weft.dialects.errors import SourceError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.trees import flatten_exactly

INPUTS = [
    (np.array([0.5, -1, 2, 0.25]), np.float64(0.7), np.int64(3)),
    (np.array([-1.0, 3, 0, 1]), np.float64(-2), np.int64(5)),
    (np.zeros(4), np.float64(0), np.int64(0)),
]
SPECS = [Spec("float64", (4,)), Spec("float64"), Spec("int64")]


def written(seed, folder):
    """The program of a seed, in a file of its own."""
    text = Writer(seed).text()
    path = folder / f"program_{seed}.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    names = {}
    exec(compile(text, str(path), "exec"), names)
    return names["program"]


def read(seed, folder):
    """A program and its graph; None where it is refused."""
    function = written(seed, folder)
    try:
        return function, read_function(function, [*SPECS, bool(seed % 2)], {})
    except SourceError:
        return function, None


@pytest.mark.parametrize("seed", range(24))
def test_random_program(seed, tmp_path):
    function, program = read(seed, tmp_path)
    if program is None:
        return
    program.module.verify()
    block = program.module.body.block.first_op.body.block
    for arrays in INPUTS:
        try:
            expected = function(*copy.deepcopy(arrays), bool(seed % 2))
        except IndexError:  # a graph moves indices into the axis
            continue
        inputs = [np.asarray(each) for each in arrays]
        results = evaluate_block(block, inputs, {}, program.recording.weights)
        got, wanted = flatten_exactly(program.rebuilt(results))[0], flatten_exactly(expected)[0]
        for value, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-9, atol=1e-12)


def test_most_random_programs_are_read(tmp_path):
    found = [read(seed, tmp_path)[1] for seed in range(100, 112)]
    assert sum(program is not None for program in found) >= 9
