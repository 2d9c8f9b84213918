"""The examples in docstrings of NumPy's functions, what they are evaluated on, and how."""

import inspect
import re
from collections.abc import Iterator

import numpy as np

import weft.numpy as wnp
from weft.array_api.table import FOURIER, FUNCTIONS, LINALG
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.trees import flatten_exactly

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, size=(3, 3))
V = np.array([0.3, 0.7, 0.45])
I = np.arange(9).reshape(3, 3) - 2  # noqa: E741
S = np.eye(3) * 4 + X @ X.T
N = np.where(X > 0.7, np.nan, X)
GIVEN = (X, V, I, S, N)

FOUND_SIZES = {"unique", "flatnonzero", "argwhere", "compress", "extract", "union1d", "intersect1d",
               "setdiff1d", "setxor1d", "trim_zeros", "bincount"}  # fmt: skip
"""Functions whose results have sizes that elements decide."""


def examples() -> Iterator[tuple[str, str]]:
    """Names of functions, and the expressions in their docstrings."""
    for table in (FUNCTIONS, LINALG, FOURIER):
        for name, function in table.items():
            definition = inspect.unwrap(getattr(function, "function", function))
            found = re.findall(r">>> (.*)", function.__doc__ or "")
            if found and definition.__name__ in (name, "called"):
                yield name, ", ".join(found)


def evaluated(text, namespace, arguments):
    """What an expression over `x`, `v`, `i`, `s` and `n` gives."""
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


def traceable(texts):
    """A function of the arrays, which gives what all expressions do."""

    def function(x, v, i, s, n):
        return tuple(
            tuple(flatten_exactly(evaluated(text, wnp, (x, v, i, s, n)))[0]) for text in texts
        )

    return function


def of_graph(module, weights, inputs, captured=()):
    """What a graph gives, by the operators' references."""
    block = module.body.block.first_op.body.block
    inputs = [*inputs, *map(np.asarray, captured)]
    inputs += [None] * (len(block.args) - len(inputs))
    return [np.asarray(each) for each in evaluate_block(block, inputs, {}, weights)]


def in_source(folder, texts):
    """A function of a file, which returns what the expressions do."""
    lines = "".join(f"        ({text},),\n" for text in texts if "lambda" not in text)
    body = f"import numpy as np\n\ndef function(x, v, i, s, n):\n    return (\n{lines}    )\n"
    path = folder / "examples.py"
    path.write_text(body)
    named = {}
    exec(compile(body, str(path), "exec"), named)
    return named["function"]
