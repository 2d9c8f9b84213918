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
               "setdiff1d", "setxor1d", "trim_zeros", "polydiv", "bincount", "unique_all",
               "unique_counts", "unique_inverse", "unique_values"}  # fmt: skip
"""Functions whose results have sizes that elements decide."""


_OF_ONE = (
    "absolute", "arccos", "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "cos", "cosh", "exp",
    "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not",
    "negative", "positive", "reciprocal", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc",
)  # fmt: skip
_OF_TWO = (
    "add", "arctan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal",
    "hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor",
    "matmul", "maximum", "minimum", "multiply", "nextafter", "not_equal", "power", "remainder",
    "subtract",
)  # fmt: skip
_OF_BITS = ("bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor")
_OVER_AXES = ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var")
_ALONG_ONE = ("argmax", "argmin", "cumprod", "cumsum")

MORE: dict[str, str] = {
    **{name: f"np.{name}(x), np.{name}(v * 2)" for name in _OF_ONE},
    **{name: f"np.{name}(x, v), np.{name}(v, v[::-1])" for name in _OF_TWO},
    **{name: f"np.{name}(i + 2, i[:1] % 5 + 2)" for name in _OF_BITS},
    **{name: f"np.{name}(x), np.{name}(x, axis=0), np.{name}(x, -1, keepdims=True)"
       for name in _OVER_AXES},
    **{name: f"np.{name}(x), np.{name}(x, 0)" for name in _ALONG_ONE},
    "arccosh": "np.arccosh(x + 1), np.arccosh(v * 9)",
    "bitwise_invert": "np.bitwise_invert(i), ~i",
    "round": "np.round(x, 1), np.around(v)",
    "astype": "np.astype(x, np.float32), np.astype(i, np.float64)",
    "copyto": "(y := x.copy(), np.copyto(y, v))[0] * 2",
    "cumulative_prod": "np.cumulative_prod(v), np.cumulative_prod(x, axis=0, include_initial=True)",
    "cumulative_sum": "np.cumulative_sum(v), np.cumulative_sum(x, axis=1, include_initial=True)",
    "diagonal": "np.diagonal(x), np.diagonal(x, 1), np.linalg.diagonal(x, offset=-1)",
    "fromfunction": "np.fromfunction(lambda a, b: a * 2 + b, (2, 3)) + x[0, 0]",
    "geomspace": "np.geomspace(1.0, 9.0, 4) * v[0]", "logspace": "np.logspace(0.0, 1.0, 4) * v[0]",
    "identity": "np.identity(3) * x[0, 0]", "indices": "np.indices((2, 3))[1] * v[0]",
    "nonzero": "np.nonzero(np.ones((2, 2)))[0] * v[0]",
    "put": "(y := x.copy(), np.put(y, [0, 2], v[:2]))[0] * 2",
    "putmask": "(y := x.copy(), np.putmask(y, y > 0.5, v[0]))[0] * 2",
    "place": "(y := x.copy(), np.place(y, y > 0.5, [1, 2]))[0] * 2",
    "fill_diagonal": "(y := x.copy(), np.fill_diagonal(y, 2))[0] * v[0]",
    "put_along_axis": "(y := x.copy(), np.put_along_axis(y, i[:1] % 2, 2, 1))[0] * 2",
    "ravel": "np.ravel(x), np.ravel(x, order='F')",
    "repeat": "np.repeat(x, 2), np.repeat(x, 2, axis=0), np.repeat(v, 3)",
    "squeeze": "np.squeeze(x[None]), np.squeeze(x[:, None], 1)",
    "swapaxes": "np.swapaxes(x, 0, 1), np.swapaxes(x, -1, 0)",
    "trace": "np.trace(x), np.trace(x, 1), np.linalg.trace(x, offset=-1)",
    "unstack": "np.unstack(x), np.unstack(x, axis=1)",
    "unique_all": "np.unique_all(i % 4)", "unique_counts": "np.unique_counts(i % 4)",
    "unique_inverse": "np.unique_inverse(i % 4)", "unique_values": "np.sort(np.unique_values(x))",
    **{name: f"np.{name}(5) * v[0]" for name in ("bartlett", "blackman", "hamming", "hanning")},
    "kaiser": "np.kaiser(5, 2.0) * v[0]",
    "diag_indices": "x[np.diag_indices(2)]", "tri": "np.tri(3) * x, np.tri(2, 3, 1)",
    "tril_indices": "x[np.tril_indices(2)]", "triu_indices": "x[np.triu_indices(2, 1)]",
    "sliding_window_view": "np.lib.stride_tricks.sliding_window_view(v, 2)",
    "cholesky": "np.linalg.cholesky(s), np.linalg.cholesky(s, upper=True)",
    "det": "np.linalg.det(s), np.linalg.det(x + np.eye(3))", "inv": "np.linalg.inv(s)",
    "matrix_norm": "np.linalg.matrix_norm(x), np.linalg.matrix_norm(x, ord=1, keepdims=True)",
    "matrix_power": "np.linalg.matrix_power(s, 3), np.linalg.matrix_power(s, -2)",
    "slogdet": "np.linalg.slogdet(s)", "solve": "np.linalg.solve(s, v), np.linalg.solve(s, x)",
    "vector_norm": "np.linalg.vector_norm(x), np.linalg.vector_norm(x, axis=0, ord=1)",
}  # fmt: skip
"""Expressions for functions whose docstrings have none: methods of arrays, functions of elements,
and those that change an array.
"""


def examples() -> Iterator[tuple[str, str]]:
    """Names of functions, and expressions that call them."""
    for table in (FUNCTIONS, LINALG, FOURIER):
        for name, function in table.items():
            definition = inspect.unwrap(getattr(function, "function", function))
            found = re.findall(r">>> (.*)", function.__doc__ or "")
            if found and definition.__name__ in (name, "called"):
                yield name, ", ".join(found)
    yield from MORE.items()


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
