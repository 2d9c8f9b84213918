"""The table of NumPy's functions: the example of each one is evaluated in every mode, and every
name and parameter of NumPy's is in the table or in a list with its reason.

All examples are traced and read from source, and their graphs evaluated by the operators'
references. Native code gets a sixth of them, drawn by a seed, and eager mode half of these;
`WHOLE_TABLE=1 pytest tests/weft/array_api/test_table.py` compiles them all, in a minute of CPU.
"""

import inspect
import os
import random
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.weft.array_api.examples import (
    FOUND_SIZES,
    GIVEN,
    X,
    evaluated,
    examples,
    in_source,
    leaves,
    of_graph,
    require_same,
    traceable,
)
from tests.weft.array_api.numpy_left_out import LEFT_OUT, PARAMETERS_LEFT_OUT
from weft import Spec
from weft.array_api.table import FOURIER, FUNCTIONS, LINALG
from weft.array_api.ufuncs import Ufunc
from weft.source.interpret import read_function
from weft.tracing.trace import record

EXAMPLES = [pytest.param(text, id=name) for name, text in examples()]
WHOLE = "WHOLE_TABLE" in os.environ
SAMPLE = EXAMPLES if WHOLE else random.Random(0).sample(EXAMPLES, len(EXAMPLES) // 6)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("text", EXAMPLES if WHOLE else SAMPLE[::2])
def test_an_example_gives_what_numpy_does_on_tensors_with_values(text):
    wanted = leaves(evaluated(text, np, GIVEN))
    tensors = [weft.Tensor(each) for each in GIVEN]
    require_same(leaves(evaluated(text, wnp, tensors)), wanted)
    require_same(leaves(evaluated(text, np, tensors)), wanted)


def texts_of(examples):
    return [each.values[0] for each in examples if each.id not in FOUND_SIZES]


def by_numpy(texts):
    return [leaf for text in texts for leaf in leaves(evaluated(text, np, GIVEN))]


def test_examples_give_what_numpy_does_when_they_are_traced():
    texts = texts_of(EXAMPLES)
    traced = record(traceable(texts), *GIVEN)
    require_same(of_graph(traced.module, traced.recording.weights, GIVEN), by_numpy(texts))


def test_examples_give_what_numpy_does_when_they_are_compiled():
    texts = texts_of(SAMPLE)
    require_same(leaves(weft.trace(traceable(texts), *GIVEN)(*GIVEN)), by_numpy(texts))


def test_examples_give_what_numpy_does_in_source_mode(tmp_path):
    function = in_source(tmp_path, texts_of(EXAMPLES))
    program = read_function(function, [Spec(each.dtype.name, each.shape) for each in GIVEN], {})
    captured = [each.fetch() for each in program.captured]
    found = of_graph(program.module, program.recording.weights, GIVEN, captured)
    require_same(leaves(program.rebuilt(found)), leaves(function(*GIVEN)))


def test_examples_give_what_numpy_does_when_they_are_compiled_from_source(tmp_path):
    function = in_source(tmp_path, texts_of(SAMPLE))
    require_same(leaves(weft.jit(function)(*GIVEN)), leaves(function(*GIVEN)))


def test_each_name_of_numpy_is_in_the_table_or_left_out_for_a_reason():
    names = {name for name in dir(np) if not name.startswith("_")}
    names |= {f"linalg.{name}" for name in dir(np.linalg) if not name.startswith("_")}
    names |= {f"fft.{name}" for name in dir(np.fft) if not name.startswith("_")}
    have = {*wnp.__all__, *(f"linalg.{name}" for name in LINALG)}
    have |= {f"fft.{name}" for name in FOURIER}
    assert names - have == {*LEFT_OUT}


def test_each_parameter_of_numpy_is_taken_or_left_out_for_a_reason():
    lacking = set()
    for owner, table in ((np, FUNCTIONS), (np.linalg, LINALG), (np.fft, FOURIER)):
        for name, function in table.items():
            own = getattr(owner, name, None)
            if own is None or isinstance(own, np.ufunc) or isinstance(function, Ufunc):
                continue
            try:
                wanted = inspect.signature(own).parameters
            except ValueError:  # NumPy's own in C that has none
                continue
            taken = inspect.signature(function).parameters
            if not any(each.kind in (2, 4) for each in taken.values()):
                lacking |= {f"{name}.{each}" for each in wanted if each not in taken}
    assert lacking == {*PARAMETERS_LEFT_OUT}


def test_what_weft_numpy_lacks_is_refused_with_the_line():
    with pytest.raises(weft.WeftError, match=r"test_table.py:\d+: weft.numpy has no 'isnat'"):
        wnp.isnat  # noqa: B018
    with pytest.raises(weft.WeftError, match=r"test_table.py:\d+: median requires its parameters"):
        wnp.median(weft.Tensor(X), depth=1)
