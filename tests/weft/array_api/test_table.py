"""The table of NumPy's functions: the example of each one is evaluated in every mode, and every
name and parameter of NumPy's is in the table or in a list with its reason.
"""

import inspect
import re
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.weft.array_api.numpy_left_out import LEFT_OUT, PARAMETERS_LEFT_OUT
from weft.array_api.table import FUNCTIONS, LINALG
from weft.array_api.ufuncs import Ufunc
from weft.trees import flatten_exactly

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, size=(3, 3))
V = np.array([0.3, 0.7, 0.45])
I = np.arange(9).reshape(3, 3) - 2  # noqa: E741
S = np.eye(3) * 4 + X @ X.T
N = np.where(X > 0.7, np.nan, X)
GIVEN = (X, V, I, S, N)


def examples():
    """The expressions in docstrings, by the names of functions."""
    for table in (FUNCTIONS, LINALG):
        for name, function in table.items():
            definition = inspect.unwrap(getattr(function, "function", function))
            found = re.findall(r">>> (.*)", function.__doc__ or "")
            if found and definition.__name__ in (name, "called"):
                yield pytest.param(", ".join(found), id=name)


EXAMPLES = [*examples()]
FOUND_SIZES = {"unique", "flatnonzero", "argwhere", "compress", "extract", "union1d", "intersect1d",
               "setdiff1d", "setxor1d", "trim_zeros", "bincount"}  # fmt: skip


def evaluated(text, namespace, arguments):
    named = dict(zip("xvisn", arguments, strict=True))
    return eval(text, {"np": namespace, "abs": abs}, named)


def leaves(found):
    return [np.asarray(each) for each in flatten_exactly(found)[0]]


def require_same(got, wanted):
    assert len(got) == len(wanted)
    for each, right in zip(got, wanted, strict=True):
        assert each.shape == right.shape
        single = "float32" in (each.dtype.name, right.dtype.name)
        assert each.dtype == right.dtype or single
        np.testing.assert_allclose(each, right, rtol=1e-6 if single else 1e-9, atol=1e-12)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_gives_what_numpy_does_on_tensors_with_values(text):
    wanted = leaves(evaluated(text, np, GIVEN))
    tensors = [weft.Tensor(each) for each in GIVEN]
    require_same(leaves(evaluated(text, wnp, tensors)), wanted)
    require_same(leaves(evaluated(text, np, tensors)), wanted)


def in_groups(count):
    texts = [each.values[0] for each in EXAMPLES if each.id not in FOUND_SIZES]
    return [texts[start::count] for start in range(count)]


@pytest.mark.parametrize("texts", in_groups(4))
def test_examples_give_what_numpy_does_when_they_are_traced(texts):
    def function(x, v, i, s, n):
        return tuple(
            tuple(flatten_exactly(evaluated(text, wnp, (x, v, i, s, n)))[0]) for text in texts
        )

    wanted = leaves(tuple(tuple(leaves(evaluated(text, np, GIVEN))) for text in texts))
    require_same(leaves(weft.trace(function, *GIVEN)(*GIVEN)), wanted)


def test_examples_give_what_numpy_does_in_source_mode(tmp_path):
    texts = [text for group in in_groups(1) for text in group if "lambda" not in text]
    lines = "".join(f"        ({text},),\n" for text in texts)
    body = f"import numpy as np\n\ndef function(x, v, i, s, n):\n    return (\n{lines}    )\n"
    path = tmp_path / "examples.py"
    path.write_text(body)
    named = {}
    exec(compile(body, str(path), "exec"), named)
    require_same(leaves(weft.jit(named["function"])(*GIVEN)), leaves(named["function"](*GIVEN)))


def test_each_name_of_numpy_is_in_the_table_or_left_out_for_a_reason():
    names = {name for name in dir(np) if not name.startswith("_")}
    names |= {f"linalg.{name}" for name in dir(np.linalg) if not name.startswith("_")}
    have = {*wnp.__all__, *(f"linalg.{name}" for name in LINALG)}
    assert names - have == {*LEFT_OUT}


def test_each_parameter_of_numpy_is_taken_or_left_out_for_a_reason():
    lacking = set()
    for owner, table in ((np, FUNCTIONS), (np.linalg, LINALG)):
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
    with pytest.raises(weft.WeftError, match=r"test_table.py:\d+: weft.numpy has no 'fft'"):
        wnp.fft  # noqa: B018
    with pytest.raises(weft.WeftError, match=r"test_table.py:\d+: median requires its parameters"):
        wnp.median(weft.Tensor(X), depth=1)
