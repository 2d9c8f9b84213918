"""The table of methods of arrays: one for tensors with values, traces and source mode."""

import inspect

import numpy as np
import pytest

import weft
from weft import Spec, Tensor
from weft.array.methods import METHODS, ArrayMethods
from weft.array.operators import ArrayOperators
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.tracing.trace import record
from weft.trees import flatten_exactly

X = np.random.default_rng(0).normal(size=(3, 4))

NUMPYS = {
    "all": lambda x: ((x > 0).all(), (x > -1).all(1, keepdims=True), (x > 0).all(where=x > 0)),
    "any": lambda x: ((x > 9).any(), (x > 1).any(axis=0), (x < 9).any(0, where=x > 9)),
    "argmax": lambda x: (x.argmax(), x.argmax(1), x.argmax(axis=0, keepdims=True)),
    "argmin": lambda x: (x.argmin(), x.argmin(-1)),
    "argpartition": lambda x: x.argpartition(2, axis=None)[2],
    "argsort": lambda x: (x.argsort(), x.argsort(0), x.argsort(axis=None, kind="stable")),
    "astype": lambda x: (x.astype(np.float32), x.astype("int64", copy=False)),
    "choose": lambda x: (x > 0).astype(np.int64).choose([x, -x]),
    "clip": lambda x: (x.clip(-0.5, 0.5), x.clip(max=0), x.clip(min=0.0)),
    "compress": lambda x: (x.compress([True, False, True], axis=0), x.compress([False, True])),
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: (x * 1j).conjugate().imag,
    "copy": lambda x: x.copy(),
    "cumprod": lambda x: (x.cumprod(), x.cumprod(1)),
    "cumsum": lambda x: (x.cumsum(), x.cumsum(axis=0), x.cumsum(1, dtype=np.float32)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 1, 0)),
    "dot": lambda x: (x.dot(x.T), x.dot(x[0]), x[0].dot(x[1]), x.dot(2)),
    "flatten": lambda x: (x.flatten(), x.flatten("F")),
    "max": lambda x: (x.max(), x.max(0, keepdims=True), x.max(initial=0.75), x.max(1, initial=9),
                      x.max(axis=1, initial=-9.0, where=x < 0)),
    "mean": lambda x: (x.mean(), x.mean((0, 1)), x.mean(1, keepdims=True), x.mean(0, where=x < 1),
                       x.mean(dtype=np.float32)),
    "min": lambda x: (x.min(), x.min(-1), x.min(0, initial=0.0), x.min(initial=1, where=x > 0)),
    "nonzero": lambda x: (x > 0).astype(np.int64).nonzero(),
    "partition": lambda x: partitioned(x.copy(), 2)[:, 2],
    "prod": lambda x: (x.prod(), x.prod(0), x.prod(1, initial=2.0), x.prod(where=x > 0)),
    "put": lambda x: put(x.copy(), [0, -1], [5.0, 6.0]),
    "ravel": lambda x: (x.ravel(), x.ravel(order="F")),
    "repeat": lambda x: (x.repeat(2), x.repeat(3, axis=1), x.repeat([1, 0, 2], 0)),
    "reshape": lambda x: (x.reshape(6, -1), x.reshape((2, 6)), x.reshape(2, 6, order="F"),
                          x.reshape(-1)),
    "round": lambda x: (x.round(), x.round(1), (x * 99).round(decimals=-1)),
    "searchsorted": lambda x: abs(x).cumsum().searchsorted(abs(x), side="right"),
    "sort": lambda x: (sorted_in_place(x.copy(), 0), sorted_in_place(x.copy(), -1)),
    "squeeze": lambda x: (x[None, :, None].squeeze(), x[None].squeeze(0), x[:, None].squeeze((1,))),
    "std": lambda x: (x.std(), x.std(1, ddof=1), x.std(axis=0, keepdims=True),
                      x.std(where=x < 1)),
    "sum": lambda x: (x.sum(), x.sum(0), x.sum((1, 0), keepdims=True), x.sum(1, initial=3.0),
                      x.sum(where=x > 0), x.sum(dtype=np.float32), (x > 0).sum(), x.sum(())),
    "swapaxes": lambda x: (x.swapaxes(0, 1), x[None].swapaxes(-1, 0)),
    "take": lambda x: (x.take([3, -1]), x.take([[0, 2], [1, 1]], axis=1)),
    "trace": lambda x: (x.trace(), x.trace(1), x.trace(axis1=1, axis2=0, dtype=np.float32)),
    "transpose": lambda x: (x.transpose(), x.transpose(0, 1), x[None].transpose((2, 0, 1))),
    "var": lambda x: (x.var(), x.var(0), x.var(1, ddof=1), x.var(0, where=x < 1),
                      x.var(1, mean=x.mean(1, keepdims=True))),
}  # fmt: skip
"""Calls of NumPy's methods, which NumPy's arrays answer themselves."""

PYTORCHS = {
    "clone": (lambda x: x.clone(), lambda x: x.copy()),
    "contiguous": (lambda x: x.T.contiguous(), lambda x: np.ascontiguousarray(x.T)),
    "permute": (
        lambda x: (x.permute(1, 0), x[None].permute((2, 0, 1))),
        lambda x: (np.transpose(x, (1, 0)), np.transpose(x[None], (2, 0, 1))),
    ),
    "split": (
        lambda x: (x.split(3, 1), x.split([1, 2]), x.split(2, dim=-1)),
        lambda x: (
            np.split(x, [3], 1), np.split(x, [1]), np.split(x, 2, -1)
        ),
    ),
    "view": (
        lambda x: (x.view(2, 6), x.view((-1, 3)), x.view(np.int64)),
        lambda x: (x.reshape(2, 6), x.reshape(-1, 3), x.view(np.int64)),
    ),
}  # fmt: skip
"""Calls of PyTorch's methods, and what its documentation says of them, in NumPy."""

BESIDE = {"fill", "item", "tolist"}
"""Methods that give numbers of Python or change a tensor, which modes differ in; see below."""


def sorted_in_place(x, axis):
    x.sort(axis)
    return x


def partitioned(x, kth):
    x.partition(kth)
    return x


def put(x, indices, values):
    x.put(indices, values)
    return x


CALLS = {**{name: (call, call) for name, call in NUMPYS.items()}, **PYTORCHS}


def leaves(found):
    return [np.asarray(each) for each in flatten_exactly(found)[0]]


def same(got, wanted):
    wanted = leaves(wanted)
    assert len(got) == len(wanted)
    for each, right in zip(got, wanted, strict=True):
        assert each.dtype == right.dtype
        np.testing.assert_allclose(each, right, rtol=1e-6 if right.dtype == np.float32 else 1e-13)


def of_graph(module, recording):
    block = module.body.block.first_op.body.block
    return [np.asarray(each) for each in evaluate_block(block, [X], {}, recording.weights)]


def test_w5_every_method_has_a_call():
    """w5"""
    assert {*CALLS, *BESIDE} == {*METHODS}
    own = {name for name, each in vars(ArrayMethods).items() if inspect.isfunction(each)}
    assert {name for name in own if not name.startswith("_")} | {
        "argpartition", "astype", "choose", "compress", "conj", "conjugate", "nonzero", "partition",
        "put", "reshape", "transpose",
    } == {*METHODS}  # fmt: skip
    for kind in (ArrayMethods, ArrayOperators):
        numpys = [name for name in vars(kind) if name in NUMPYS and hasattr(np.ndarray, name)]
        assert all(inspect.isfunction(vars(kind)[name]) for name in numpys)


@pytest.mark.parametrize("name", CALLS)
def test_w5_methods_are_numpys_on_tensors_and_in_graphs(name):
    """w5"""
    call, expected = CALLS[name]
    wanted = expected(X)
    same(leaves(call(Tensor(X))), wanted)
    traced = record(call, Spec("float64", X.shape))
    same(of_graph(traced.module, traced.recording), wanted)
    program = read_function(call, [Spec("float64", X.shape)], {})
    same(of_graph(program.module, program.recording), wanted)


def test_w5_compiled_methods_are_numpys():
    """w5"""

    def everything(x):
        return [call(x) for call, _ in CALLS.values()]

    wanted = [expected(X) for _, expected in CALLS.values()]
    same(leaves(weft.jit(everything, naive=True)(X)), wanted)
    same(leaves(weft.trace(everything, X, naive=True)(X)), wanted)


def test_w5_numbers_of_python_and_changes():
    """w5"""
    read = lambda x: (x[0, 1].item(), x.item(1), x.item(0, 1), x[:2, 0].tolist())  # noqa: E731
    wanted = read(X)
    assert read(Tensor(X)) == wanted
    assert weft.jit(read, naive=True)(X) == wanted

    def filled(x):
        y = x.copy()
        y.fill(2.5)
        return y, x

    same(leaves(weft.jit(filled, naive=True)(X)), (np.full_like(X, 2.5), X))
    for refused in (lambda x: x.fill(1.0), lambda x: x.item(0), lambda x: x.tolist()):
        with pytest.raises(weft.WeftError, match=r"test_methods.py:\d+: "):
            record(refused, X)
    same(leaves(filled(Tensor(X))), (np.full_like(X, 2.5), X))


BAD = {
    "an axis that is not there": (lambda x: x.sum(2), np.exceptions.AxisError, "within 2 axes"),
    "an axis twice": (lambda x: x.max((0, -2)), ValueError, "each one once"),
    "too few axes": (lambda x: x.transpose(0), ValueError, "each of 2 axes"),
    "memory for a result": (lambda x: x.sum(out=X), weft.WeftError, "no out"),
    "keepdims in place of a dtype": (lambda x: x.sum(0, True), TypeError, "keepdims=True"),
    "the extremum of nothing": (lambda x: x[:0].max(), ValueError, "requires an element"),
    "a mask without initial": (lambda x: x.max(where=x > 0), ValueError, "requires initial"),
    "parts that do not fit": (lambda x: x.split([1, 1]), weft.WeftError, "add up to the axis"),
    "bits of another size": (lambda x: x.view(np.int32), weft.WeftError, "as many bytes"),
    "another order": (lambda x: x.ravel("G"), ValueError, "the order of elements"),
    "an unknown keyword": (lambda x: x.max(axes=0), TypeError, "axes"),
}


@pytest.mark.parametrize("what", BAD)
def test_w5_refusals_are_alike_in_every_mode(what):
    """w5"""
    call, kind, rule = BAD[what]
    for run in (
        lambda: call(Tensor(X)),
        lambda: record(call, X),
        lambda: read_function(call, [Spec("float64", X.shape)], {}),
    ):
        with pytest.raises(kind, match=rule):
            run()


def test_w5_parts_and_views_in_source_mode_are_numpys():
    """w5: what shows an array changes with it, or is refused; what is a copy does not."""

    def parts(x):
        whole = x.copy()
        first, second = whole.split([1, 2])
        first[:] = 5.0
        total = whole.sum(axis=())
        total[0] = 9.0
        clone = whole.clone()
        clone[1, 1] = 7.0
        same = clone.contiguous()
        same[2, 2] = 3.0
        return whole, total, clone

    def by_numpy(x):
        whole = x.copy()
        whole[:1] = 5.0
        total = whole.copy()
        total[0] = 9.0
        clone = whole.copy()
        clone[1, 1], clone[2, 2] = 7.0, 3.0
        return whole, total, clone

    same(leaves(weft.jit(parts, naive=True)(X)), by_numpy(X))

    def stale(x):
        whole = x.copy()
        bits = whole.view(np.int64)
        whole[0] = 1.0
        return bits

    with pytest.raises(weft.SourceError, match="changed since"):
        read_function(stale, [Spec("float64", X.shape)], {})


def test_w5_sizes_that_a_call_knows():
    """w5"""

    def shapes(x):
        return x.reshape(-1), x.swapaxes(0, 1), x.repeat(2, 0), x.trace(), x.var(0, ddof=1)

    compiled = weft.jit(shapes, specs=[Spec("float64", ("n", "n"))], naive=True)
    for n in (2, 5):
        square = np.random.default_rng(n).normal(size=(n, n))
        same(leaves(compiled(square)), shapes(square))
    assert len(compiled.compilations) == 1


PROTOCOL = {
    "T", "apply", "as_float", "as_wide", "broadcast_to", "cast", "composed", "composed_all",
    "constant", "device", "dtype", "duplicate", "extent", "flat", "has_values", "imag", "itemsize",
    "lifted", "mT", "nbytes", "ndim", "number", "numbers", "op", "promoted", "promoting", "real",
    "reduced", "regrouped", "require_within", "results", "rolled", "shape",
    "shaped", "showing", "size", "to_device",
}  # fmt: skip
"""What arrays of every mode have beside the methods: functions of arrays are written in it."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_tensors_show_what_arrays_have_and_nothing_of_their_making():
    assert public(ArrayMethods) == PROTOCOL | {*METHODS}
    assert public(Tensor) - public(ArrayMethods) == {
        "become", "forget_elements", "numpy", "of", "part", "recording", "value", "views",
        "with_part",
    }  # fmt: skip


def test_lists_of_tensors_are_operands():
    def scaled(x):
        heights = [np.sort(abs(x - x[i]))[2] for i in range(3)]
        return (x[:, None] - x) / heights + [[x[0], 1.0, x[2]]]

    given = np.array([1.0, 4.0, 2.5])
    expected = scaled(given)
    np.testing.assert_allclose(scaled(Tensor(given)).numpy(), expected)
    np.testing.assert_allclose(weft.trace(scaled, given)(given), expected)
    found = weft.grad(lambda x: scaled(x).sum())(Tensor(given)).numpy()
    moves = 1e-6 * np.eye(3)
    slopes = [(scaled(given + d).sum() - scaled(given - d).sum()) / 2e-6 for d in moves]
    np.testing.assert_allclose(found, slopes, rtol=1e-5)
