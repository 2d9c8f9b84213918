"""Microseconds of each eager operator by weft, NumPy and PyTorch: `python -m benchmarks.eager`.

Operators run on 16 elements, so that what is measured is what a call costs beside its work. A
number is the median of many short rounds, in which the libraries take turns. A library that lacks
an operator, or an operator that refuses a dtype, shows a dash.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from timeit import Timer
from typing import Any, Final

import numpy as np

from benchmarks.options import append_row, parser_of

LIBRARIES: Final = {"weft": "weft.numpy", "numpy": "numpy", "torch": "torch"}
DTYPES: Final = ("float32", "float64", "int32")
CALLS: Final = 200
"""Of an operator in a round."""

OPERATORS: Final = (
    "x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x ** y", "m @ m", "x < y", "x <= y",
    "x > y", "x >= y", "x == y", "x != y", "b & b", "b | b", "b ^ b", "i & i", "i | i", "i ^ i",
    "~b", "~i", "-x", "+x", "abs(x)", "x + 2", "2 - x", "x * 1.5", "1.5 / x", "x % 2", "x ** 2",
    "x + x0", "m + x[:4]",
)  # fmt: skip

ELEMENTWISE: Final = (
    *(f"np.{name}(x)" for name in (
        "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
        "asinh", "acosh", "atanh", "floor", "ceil", "sign", "round", "abs", "negative", "isnan",
        "erf", "square", "expm1", "log1p", "isinf", "isfinite", "positive", "reciprocal", "trunc",
        "log2", "log10", "signbit", "cbrt", "conj", "degrees", "deg2rad", "exp2", "fabs", "modf",
        "radians", "rad2deg", "rint", "spacing",
    )),
    "np.logical_not(b)", "np.bitwise_invert(i)", "np.bitwise_count(i)",
    *(f"np.{name}(x, y)" for name in (
        "add", "subtract", "multiply", "maximum", "minimum", "pow", "equal", "less", "greater",
        "less_equal", "greater_equal", "divide", "floor_divide", "remainder", "not_equal",
        "copysign", "hypot", "logaddexp", "atan2", "nextafter", "divmod", "float_power", "fmax",
        "fmin", "fmod", "heaviside", "logaddexp2",
    )),
    *(f"np.{name}(i, i)" for name in ("gcd", "lcm")), "np.ldexp(x, i)", "np.frexp(x)",
    *(f"np.bitwise_{name}(i, i)" for name in ("and", "or", "xor", "left_shift", "right_shift")),
    *(f"np.logical_{name}(b, b)" for name in ("and", "or", "xor")),
    "np.matmul(m, m)", "np.where(b, x, y)", "np.where(b, x, 0)", "np.clip(x, 0, 1)",
    "np.clip(x, 0)", "x.astype(f8)", "np.asarray(x)",
    "np.astype(x, f8)", "np.can_cast(x.dtype, f8)", "np.result_type(x, y)",
    "np.isdtype(x.dtype, 'numeric')", "np.finfo(f8)", "np.iinfo(i8)",
)  # fmt: skip

REDUCTIONS: Final = (
    *(f"x.{name}()" for name in (
        "sum", "mean", "prod", "max", "min", "var", "std", "argmax", "argmin", "any", "all",
    )),
    *(f"np.{name}(m, 1)" for name in (
        "sum", "mean", "prod", "max", "min", "var", "std", "argmax", "argmin", "any", "all",
    )),
    "np.var(m, 1, 1.0)", "np.std(m, 1, 1.0)", "np.sum(m, (0, 1))", "np.cumulative_sum(x)",
    "np.cumulative_prod(x)", "np.count_nonzero(x)", "np.softmax(x)", "np.log_softmax(x)",
)  # fmt: skip

MOVES: Final = (
    "np.reshape(x, (4, 4))", "np.permute_dims(m, (1, 0))", "m.T", "m.mT", "m.transpose(1, 0)",
    "np.expand_dims(x, 0)", "np.squeeze(x1, 0)", "np.broadcast_to(x, (4, 16))", "np.flip(x, 0)",
    "np.take(x, i)", "np.take_along_axis(x, i, 0)", "np.triu(m)", "np.tril(m)",
    "np.einsum('ij,jk->ik', m, m)", "np.concat([x, y])", "np.concat([m, m], 1)",
    "np.stack([x, y])", "np.unstack(x1)", "np.matrix_transpose(m)", "np.moveaxis(m, 0, 1)",
    "np.broadcast_arrays(x, x1)", "np.meshgrid(x, y)", "np.roll(x, 3)", "np.tile(x, (2,))",
    "np.repeat(x, 2)", "x[3]", "m[1]", "m[1, 2]", "x[2:9]", "x[::2]", "m[1:3, :2]", "m[:, 1]",
    "x[None]", "m[..., 0]", "x[i]", "x[b]", "x0.item()", "float(x0)", "x.copy()",
    "len(x)",
)  # fmt: skip

CHOICES: Final = (
    "np.sort(x)",
    "np.argsort(x)",
    "np.searchsorted(x, y)",
    "np.nonzero(x)",
    "np.diff(x)",
    *(f"np.unique_{name}(x)" for name in ("all", "counts", "inverse", "values")),
)

LINEAR_ALGEBRA: Final = (
    "np.vecdot(x, y)", "np.tensordot(m, m, axes=1)", "np.matvec(m, x[:4])", "np.vecmat(x[:4], m)",
    *(f"np.linalg.{name}(s)" for name in ("eig", "eigh", "eigvals", "eigvalsh", "qr")),
    *(f"np.linalg.{name}(s)" for name in ("cond", "matrix_rank", "pinv", "svd", "svdvals")),
    "np.linalg.lstsq(s, x[:4])", "np.linalg.multi_dot([m, m, m])", "np.linalg.norm(m)",
    "np.linalg.tensorinv(s, 1)", "np.linalg.tensorsolve(s, x[:4])",
    *(f"np.linalg.{name}(x, y)" for name in ("outer", "vecdot")),
    *(f"np.linalg.{name}(m, m)" for name in ("matmul", "solve", "tensordot")),
    *(f"np.linalg.{name}(s)" for name in ("cholesky", "det", "inv", "slogdet")),
    *(f"np.linalg.{name}(m)" for name in (
        "diagonal", "matrix_norm", "matrix_transpose", "trace", "vector_norm",
    )),
    "np.linalg.cross(x[:3], y[:3])", "np.linalg.matrix_power(s, 2)",
)  # fmt: skip

CREATION: Final = (
    "np.zeros(16)", "np.ones(16)", "np.empty(16)", "np.full(16, 2.0)", "np.zeros((4, 4))",
    "np.zeros_like(x)", "np.ones_like(x)", "np.empty_like(x)", "np.full_like(x, 2)",
    "np.arange(16)",
    "np.arange(1.0, 9.0)", "np.linspace(0.0, 1.0, 16)", "np.eye(4)", "np.asarray(host)",
    "np.from_dlpack(host)",
)  # fmt: skip

NETWORKS: Final = (
    *(f"nn.{name}(x)" for name in (
        "relu", "sigmoid", "gelu", "silu", "leaky_relu", "softplus", "celu", "elu", "glu",
        "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "logsigmoid", "mish", "relu6", "selu",
        "softshrink", "softsign", "tanhshrink",
    )),
    "nn.threshold(x, 0.5, 0.0)",
    *(f"nn.{name}(x, y)" for name in (
        "mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy_with_logits",
        "binary_cross_entropy", "kl_div", "smooth_l1_loss", "hinge_embedding_loss",
        "soft_margin_loss", "poisson_nll_loss",
    )),
    *(f"nn.{name}(x, y, x)" for name in ("gaussian_nll_loss", "margin_ranking_loss")),
    "nn.cosine_similarity(m, m)", "nn.cosine_embedding_loss(m, m, x[:4])",
    "nn.triplet_margin_loss(m, m, m)", "nn.multilabel_soft_margin_loss(m, m)",
    "nn.multi_margin_loss(m, classes)", "nn.multilabel_margin_loss(x[:4], classes)",
    "nn.triplet_margin_with_distance_loss(m, m, m)",
    "nn.ctc_loss(m.reshape(4, 1, 4), classes[None, 1:2], classes[3:], classes[1:2])",
    "nn.cross_entropy(m, classes)", "nn.nll_loss(m, classes)",
    "nn.scaled_dot_product_attention(m, m, m)",
)  # fmt: skip

GROUPS: Final = {
    "operators": OPERATORS,
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "moves": MOVES,
    "choices": CHOICES,
    "linalg": LINEAR_ALGEBRA,
    "creation": CREATION,
    "networks": NETWORKS,
}


def names_of(library: str, dtype: str) -> dict[str, Any]:
    """What expressions may name: `np` is the library itself, whose arrays the letters are."""
    module: Any = importlib.import_module(LIBRARIES[library])
    make = module.tensor if library == "torch" else module.asarray
    host = (1 + np.arange(16) % 7).astype(dtype) / np.asarray(8 if dtype[0] == "f" else 1, dtype)
    host = host.astype(dtype)
    square = host.reshape(4, 4)
    arrays = {
        "s": (square @ square.T + 8 * np.eye(4, dtype=dtype)).astype(dtype),
        "x": host, "y": host[::-1].copy(), "m": host.reshape(4, 4), "x0": host[5], "x1": host[None],
        "b": np.arange(16) % 3 == 0, "i": np.arange(16)[::-1].copy(), "classes": np.arange(4),
    }  # fmt: skip
    names = {name: make(array) for name, array in arrays.items()}
    functions = {"weft": "weft.nn", "torch": "torch.nn.functional"}.get(library)
    wide = module if library == "torch" else np
    return names | {
        "np": module,
        "nn": None if functions is None else importlib.import_module(functions),
        "f8": wide.float64,
        "i8": wide.int64,
        "host": make(host) if library == "torch" else host,
    }


def measure(
    expressions: Sequence[str], names: Mapping[str, dict[str, Any]], rounds: int
) -> dict[str, dict[str, float]]:
    """Microseconds by expression and library, without those that raise."""
    found: dict[str, dict[str, float]] = {}
    for expression in expressions:
        timers: dict[str, Timer] = {}
        for library, given in names.items():
            timer = Timer(expression, globals=given)
            try:
                timer.timeit(CALLS)
            except Exception:  # of which each library has its own
                continue
            timers[library] = timer
        took: dict[str, list[float]] = {library: [] for library in timers}
        for _ in range(rounds):
            for library, timer in timers.items():
                took[library].append(timer.timeit(CALLS) / CALLS * 1e6)
        found[expression] = {each: round(median(times), 2) for each, times in took.items()}
    return found


def main() -> None:
    """Prints a line for each operator, and keeps all as one line of a file."""
    arguments = _arguments()
    for dtype in arguments.dtypes:
        names = {library: names_of(library, dtype) for library in arguments.libraries}
        chosen = [each for group in arguments.groups for each in GROUPS[group]]
        found = measure(chosen, names, arguments.rounds)
        print(f"{dtype + ', us':36}", *(f"{each:>7}" for each in arguments.libraries))
        for expression, took in found.items():
            cells = [f"{took[each]:7.2f}" if each in took else f"{'-':>7}" for each in names]
            print(f"{expression:36}", *cells, flush=True)
        row = {"dtype": dtype, "when": f"{datetime.datetime.now(datetime.UTC):%FT%TZ}"}
        path: Path = arguments.output
        append_row(path, row | {"us": found})


def _arguments() -> argparse.Namespace:
    parser = parser_of("eager", __doc__, "eager-")
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    for option, default in (("--libraries", [*LIBRARIES]), ("--dtypes", [*DTYPES])):
        parser.add_argument(option, type=lambda text: text.split(","), default=default)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    unknown = {*arguments.groups} - {*GROUPS} | {*arguments.libraries} - {*LIBRARIES}
    if unknown:
        parser.error(f"requires groups and libraries, got {sorted(unknown)}")
    arguments.groups = arguments.groups or [*GROUPS]
    return arguments


if __name__ == "__main__":
    main()
