"""What compiled programs print and require: in the order of the program, as Python does it."""

import io
import sys
from contextlib import redirect_stdout

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import Spec, Tensor
from weft.source.interpret import read_function

X = np.array([3.0, -1.0, 2.5])


def printed(function, *arguments):
    """What a call prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        function(*arguments)
    return out.getvalue()


def search(x, limit):
    print("start", x, [x[0], "a"], {"n": len(x)})
    total, rounds = 0.0, 0
    while total < limit:
        total += x[rounds % 3]
        rounds += 1
        if rounds % 2 == 0:
            print(f"round {rounds}: {total:8.3f} {{braces}}", total > 2, sep=" | ")
    for k in range(20):
        for j in range(k):
            if x[j % 3] > 2 and k > 17:
                weft.print("big", k, j, x[j % 3], end=";\n")
    print(f"{total!r}", (rounds,), flush=True)
    return total


def logged(x):
    def positive(y):
        print("asked", y)
        return y > 0

    if positive(x[0]) and positive(x[1]) or positive(x[2]):
        print("one is")
    return x * 2


def quiet(x):
    if x.sum() > 4:
        print("that is much")
    return x


@pytest.mark.parametrize(("function", "arguments"), [
    (search, (X, np.float64(12.0))), (logged, (X,)), (logged, (-X,)), (quiet, (X,)), (quiet, (-X,)),
])  # fmt: skip
def test_compiled_programs_print_as_python_does(function, arguments):
    expected = printed(function, *arguments)
    compiled = weft.jit(function)
    assert printed(compiled, *arguments) == expected
    assert printed(compiled, *arguments) == expected  # not while it is compiled alone
    assert len(compiled.compilations) == 1


def test_a_function_may_print_alone():
    def show(x):
        for row in x:
            print(row, row > 0)

    assert weft.jit(show)(X) is None
    assert printed(weft.jit(show), np.arange(30.0)) == printed(show, np.arange(30.0))


@pytest.mark.parametrize("dtype", [
    "bool", "int8", "uint64", "float16", "float32", ml_dtypes.bfloat16,
])  # fmt: skip
def test_elements_of_all_types_are_shown_as_numpy_does(dtype):
    small = np.arange(6).reshape(2, 3).astype(dtype)
    large = np.arange(5000).astype(dtype)
    compiled = weft.jit(lambda x, y: (weft.print(x, x[1, 2], y, sep="\n"), x)[1])
    expected = "\n".join(map(str, (small, small[1, 2], large))) + "\n"
    assert printed(compiled, small, large) == expected
    assert "..." in expected


def test_traces_print_in_branches_loops_and_around_derivatives():
    def body(state, row):
        weft.print("state", state)
        state = weft.cond(
            row > 0, lambda s: (weft.print("add", row), s + row)[1], lambda s: s, state
        )
        return state, state

    def loss(x):
        weft.print("x", x)
        last, rows = weft.scan(body, 0.0 * x[0], x)
        weft.print("rows", rows)
        return last * last

    def step(x):
        value, slope = weft.value_and_grad(loss)(x)
        weft.print("slope", slope)
        return value

    lines = ["x [ 3.  -1.   2.5]", "state 0.0", "add 3.0", "state 3.0", "state 3.0", "add 2.5",
             "rows [3.  3.  5.5]", "slope [11.  0. 11.]"]  # fmt: skip
    wanted = "\n".join(lines) + "\n"
    assert printed(weft.trace(step, X), X) == wanted
    assert printed(weft.jit(step), X) == wanted
    assert printed(step, Tensor(X)) == wanted
    around = weft.grad(weft.jit(loss))
    assert printed(around, Tensor(X)) == wanted[: wanted.index("slope")]


def test_an_assert_that_fails_names_its_line_and_shows_numbers():
    def root(x):
        print("x", x)
        assert x >= 0, f"{x} of {{x}}"
        print("fine")
        for _ in range(20):
            x = 0.5 * x
            assert x < 100
        return x

    compiled = weft.jit(root)
    assert compiled(np.float64(4)) == root(4.0)
    with pytest.raises(AssertionError, match=r"test_printing\.py:\d+$") as caught:
        compiled(np.float64(-4))
    line = root.__code__.co_firstlineno + 2
    text = str(caught.value)
    assert f"root assert requires x >= 0, got -4.000000 of (x), at {__file__}:{line}" == text
    with pytest.raises(weft.AssertError, match=r"requires x < 100, got another value, at"):
        compiled(np.float64(1e9))
    assert "graph.assert" in compiled.explain()


def test_an_artifact_prints_where_its_host_says_how(tmp_path):
    exe = weft.compile(quiet, [Spec("float64", ("n",))])
    path = tmp_path / "quiet.so"
    exe.export(path)
    assert printed(weft.load(path), X + 9) == "that is much\n"


def test_a_checkpoint_prints_once():
    def loss(x):
        def inner(y):
            weft.print("inner", y[0])
            return weft.numpy.sin(y).sum()

        return weft.checkpoint(inner)(x)

    for compiled in (weft.trace(weft.grad(loss), X), weft.jit(weft.grad(loss))):
        assert printed(compiled, X) == "inner 3.0\n"


@pytest.mark.parametrize(("function", "rule"), [
    (lambda x: print(x, file=sys.stderr) or x, "standard output"),
    (lambda x: f"{x}", "a result requires tensors"),
    (lambda x: print("x" + f"{x}") or x, "printed as it is"),
    (lambda x: print(f"{x:.2f}") or x, "a format requires one number"),
])  # fmt: skip
def test_texts_of_values_are_printed_alone(function, rule):
    with pytest.raises(weft.SourceError, match=rule):
        read_function(function, [Spec("float64", (3,))], {})


def ordered(x):
    total = (np.exp(x) + 1).sum()
    parts = weft.after({"real": x, "pair": x + 1j * x, "own": np.ones(3), "name": "a"}, total)
    assert parts["name"] == "a"
    return (parts["real"] * parts["own"]).sum() + parts["pair"].imag.sum()


def test_what_a_value_waits_for_is_computed_first(tmp_path):
    x, exe = np.linspace(-1, 1, 3), weft.trace(ordered, X)
    weft.save_graph(exe, tmp_path / "ordered.mlir")
    loaded = weft.compile(tmp_path / "ordered.mlir")
    for each in (exe, loaded):
        names = [kernel["name"].rpartition("_")[0] for kernel in each.metadata["kernels"]]
        assert names[0] == "exp_add_reduce_sum"
        assert names.count("after") == 2  # of inputs and of a weight
    for call in (ordered, exe, loaded, weft.jit(ordered)):
        np.testing.assert_allclose(np.squeeze(call(x)), ordered(x), atol=1e-12)
    for slope in (weft.grad(ordered), weft.trace(weft.grad(ordered), x)):
        np.testing.assert_allclose(slope(x), np.full(3, 2.0))
    rows = np.stack([x, 2 * x])
    found = weft.trace(weft.vmap(ordered), rows)(rows)
    np.testing.assert_allclose(found, [ordered(row) for row in rows], atol=1e-12)


def test_a_loss_that_is_differentiated_is_shown():
    def loss(x, show):
        found = (x * x).sum()
        show(found)
        return found

    x = np.array([1.0, 2.0])

    def slope(show, *transformed):
        call = weft.grad(lambda x: loss(x, show))
        return (weft.trace(call, x) if transformed else call)(Tensor(x))

    shown = [lambda y: print(f"{y} {y:.2f} {y!r}", str(y)), print]
    shown += [lambda y: print(weft.stop_gradient(y).item(), float(weft.stop_gradient(y)))]
    for show, text in zip(shown, ("5.0 5.00 Tensor(5., dtype=float64) 5.0", "5.0", "5.0 5.0"),
                          strict=True):  # fmt: skip
        assert printed(slope, show) == text + "\n"
    assert printed(slope, weft.print, True) == "5.0\n"
    assert printed(slope, lambda y: print(y, f"{y}", repr(y)), True).count("Traced([]") == 3
    for refused in (float, lambda y: y.item(), lambda y: f"{float(y):.3f}"):
        with pytest.raises(weft.WeftError, match=r"write weft\.stop_gradient\(x\)\.item\(\)"):
            slope(refused)
    with pytest.raises(weft.WeftError, match=r"test_printing\.py:\d+: .* weft\.print shows values"):
        slope(lambda y: f"{y:.3f}", True)


@weft.jit
@weft.grad
def logged(x):
    found = (x * x).sum()
    print(f"{float(found):.1f}", weft.stop_gradient(found).item(), found)
    return found


def test_a_jitted_derivative_shows_its_loss():
    assert printed(logged, np.array([1.0, 2.0])) == "5.0 5.0 5.0\n"
