"""`weft.jit(f, fallback="python")`: compiled pieces and Python between them are as Python alone."""

import copy
import json
import linecache
import random
import re

import numpy as np
import pytest

import weft
from tests.weft.source.programs.random_programs import Writer
from weft import WeftError
from weft.trees import flatten_exactly

SEEN = []
X = np.linspace(0.1, 1, 5)


def alike(found, expected):
    """Requires the same form and numbers."""
    mine, other = flatten_exactly(found), flatten_exactly(expected)
    assert mine[1] == other[1]
    for one, two in zip(mine[0], other[0], strict=True):
        if isinstance(two, str | None):
            assert one == two
        else:
            np.testing.assert_allclose(one, two, rtol=1e-12)


def table(x, n):
    y = np.sin(x) * 2
    rows = {}
    for i in range(n):
        z = y + i
        rows[f"{float(z.sum()):.3f}"] = i
        if z.sum() > 8:
            break
    w = np.cos(y) @ z
    if len(rows) > 2:
        return w, sorted(rows)
    return w + 1, sorted(rows)


def dumped(x):
    y = np.sin(x) * 2
    text = json.dumps({"large": [bool(y.sum() > 5), x.shape]})
    return y + len(text), text


def views(x):
    y = x[1:]
    SEEN.append("viewed")
    x[2] = 100.0
    z = y.reshape(2, 2)
    y[0] = 7.0
    rows = [y, z]
    rows[0] += 1
    return y * 2, z.sum(axis=0), x


def tried(x):
    try:
        y = np.linalg.inv(np.zeros((2, 2)) + x[0] * 0)
    except np.linalg.LinAlgError as error:
        y = np.full((2, 2), len(str(error)))
    SEEN.append("tried")
    return y * x[0]


def unbound(x, late):
    if late:
        y = x * 2
    SEEN.append("unbound")
    return y + 1


def loops(x):
    total = x * 0
    for i, row in enumerate([x, x + 1, x + 2]):
        if i == 1:
            SEEN.append(i)
            continue
        with np.errstate(all="ignore"):
            step = np.log(row)
            SEEN.append(len(SEEN))
            if np.isnan(step).any():
                return step
        while total.sum() < 3:
            total = total + np.abs(step) + 1
            SEEN.append("grown")
    else:
        total = total * 3
    return total


def inner(x):
    scale = float(x[0]) + 1
    SEEN.append(scale)

    def scaled(v):
        return v * scale

    return scaled(x) + sum(value for value in [scaled(1), 2])


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (table, (X, 3)), (table, (X, 2)), (views, (X,)), (tried, (X,)), (unbound, (X, True)),
        (loops, (X,)), (loops, (-X,)), (inner, (X,)), (dumped, (X,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_pieces_are_as_python(function, arguments):
    compiled = weft.jit(function, fallback="python")
    for _ in range(2):
        SEEN.clear()
        expected = function(*copy.deepcopy(arguments))
        acts = list(SEEN)
        SEEN.clear()
        given = copy.deepcopy(arguments)
        alike(compiled(*given), expected)
        assert acts == SEEN
    assert compiled.breaks
    assert "is Python's" in compiled.explain()


def test_what_compiles_whole_has_no_breaks():
    compiled = weft.jit(lambda x: np.sin(x) + 1, fallback="python")
    np.testing.assert_allclose(compiled(X), np.sin(X) + 1)
    assert compiled.breaks == ()
    assert "compiled because" in compiled.explain()


def test_breaks_name_the_line_and_the_reason():
    compiled = weft.jit(views, fallback="python")
    compiled(X.copy())
    first = table.__code__.co_firstlineno
    compiled = weft.jit(table, fallback="python")
    compiled(X, 3)
    lines = {each.line - first for each in compiled.breaks}
    assert 5 in lines
    assert all("requires" in each.reason for each in compiled.breaks)
    assert re.search(r"lines \d+ to \d+: compiled once", compiled.explain())


def test_a_name_without_a_value_is_pythons_error():
    with pytest.raises(UnboundLocalError):
        weft.jit(unbound, fallback="python")(X, False)


def test_a_piece_of_ever_other_numbers_is_left_to_python():
    def counted(x):
        total = 0.0
        for i in range(30):
            SEEN.append(i)
            total += float((x * i).sum())
        return total

    compiled = weft.jit(counted, fallback="python")
    alike(compiled(X), counted(X))
    assert "compiled 8 times for other values" in compiled.explain()


def test_variables_of_inner_functions_keep_the_function_whole():
    def late(x):
        scaled = lambda v: v * factor  # noqa: E731
        SEEN.append(1)
        factor = 3.0
        return scaled(x)

    compiled = weft.jit(late, fallback="python")
    alike(compiled(X), X * 3)
    assert "a function in it reads a variable" in compiled.breaks[0].reason


def test_methods_and_tensors():
    class Model:
        def __init__(self):
            self.calls = []
            self.weight = np.arange(5.0)

        @weft.jit(fallback="python")
        def apply(self, x, *, scale=2.0):
            y = x * self.weight
            self.calls.append(1)
            return y * scale

    model = Model()
    alike(model.apply(X), X * model.weight * 2)
    alike(model.apply(weft.Tensor(X), scale=3.0).numpy(), X * model.weight * 3)
    assert len(model.calls) == 2


def test_derivatives_go_through_statements_of_python():
    def lossy(x):
        y = x * x
        SEEN.append(1)
        return (y * x).sum()

    gradient = weft.grad(weft.jit(lossy, fallback="python"))(weft.Tensor(X))
    np.testing.assert_allclose(gradient.numpy(), 3 * X**2)


def test_a_trace_has_no_python_in_it():
    compiled = weft.jit(inner, fallback="python")
    with pytest.raises(WeftError, match="requires a value"):
        weft.trace(compiled, X)


def test_an_unknown_fallback_is_refused():
    with pytest.raises(WeftError, match="fallback"):
        weft.jit(table, fallback="numpy")


def broken(seed):
    """A random program with acts that source mode refuses between its statements."""
    draw = random.Random(seed)
    lines = []
    for line in Writer(seed).text().splitlines():
        lines.append(line)
        found = re.match(r"( +)[a-z_]+ (=|\+=|\*=) ", line)
        if found and draw.random() < 0.3:
            lines.append(f"{found[1]}SEEN.append({len(lines)})")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", [5, 48, 89])  # all of range(90) were run once
def test_random_programs(seed, tmp_path):
    path = tmp_path / f"pieces_{seed}.py"
    path.write_text(broken(seed))
    linecache.checkcache(str(path))
    names = {"SEEN": SEEN}
    exec(compile(path.read_text(), str(path), "exec"), names)
    program, compiled = names["program"], weft.jit(names["program"], fallback="python")
    arguments = np.array([0.5, -1, 2, 0.25]), np.float64(0.7), np.int64(3), bool(seed % 2)
    SEEN.clear()
    expected = program(*copy.deepcopy(arguments))
    acts = list(SEEN)
    SEEN.clear()
    alike(compiled(*copy.deepcopy(arguments)), expected)
    assert acts == SEEN
    assert compiled.breaks
