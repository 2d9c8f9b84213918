"""The function that Python calls a model by: what it accepts, makes, hands over and cleans up. The
model is a function of the test's.
"""

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy._core.multiarray import get_handler_name

import weft
from tests.support.small_models import add_model, dense_model, rows_of
from weft.compiler.machine.artifact.dims import program_of, size_of
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.python import fast_call as python_call
from weft.compiler.machine.python.checked_call import CheckedCall
from weft.compiler.machine.python.entry_memory import BLOCKS, LEAST_BYTES, MOST_BYTES
from weft.compiler.machine.python.fast_call import fast_call, is_short

SHORT = {"kernels": [], "repeats": False}
RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
WORKSPACE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class WeftCall(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("inputs", ctypes.POINTER(ctypes.c_void_p)),
        ("outputs", ctypes.POINTER(ctypes.c_void_p)),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 2),
    ]


@dataclass
class Model:
    """A model that notes its calls; it fills the first output with the number of the call."""

    signature: Signature
    status: int = 0
    workspace: int = 0
    metadata: dict[str, Any] = field(default_factory=lambda: dict(SHORT))
    handed_over: list[Any] = field(default_factory=list)
    dims: list[list[int]] = field(default_factory=list)
    workspaces: list[tuple[int, int]] = field(default_factory=list)

    def call(self) -> Callable[..., Any]:
        self.run = RUN(self._run)
        self.size = WORKSPACE(lambda dims: self.workspace)
        functions = {
            name: ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in (("run", self.run), ("workspace_size", self.size))
        }
        made = fast_call(self.signature, self.metadata, 1, functions, self._odd, self._fail)
        assert made is not None, "this NumPy and this Python are known"
        return made

    def _run(self, context: int, call: int) -> int:
        given = WeftCall.from_address(call)
        assert (given.size, given.reserved[0], given.reserved[1]) == (64, 0, 0)
        count = len(self.signature.symbols)
        self.dims.append([given.dims[position] for position in range(count)])
        self.workspaces.append((given.workspace, given.workspace_size))
        return self.status

    def _odd(self, *arrays: Any, **named: Any) -> Any:
        self.handed_over.append((arrays, named))
        return "handed over"

    def _fail(self, status: int) -> None:
        raise weft.InputError(f"the model failed with {status}")


def signature(inputs: list[tuple], outputs: list[tuple], symbols: tuple[str, ...] = ()):
    def specs(start: str, shapes: list[tuple]) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(f"{start}{n}", "float32", dims) for n, dims in enumerate(shapes))

    return Signature(specs("x", inputs), specs("y", outputs), symbols)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def test_makes_outputs_of_the_sizes():
    model = Model(signature([(2, 3)], [(4,), ()]))
    first, second = model.call()(zeros(2, 3))
    assert (first.shape, first.dtype, second.shape) == ((4,), np.float32, ())
    assert first.flags.owndata
    assert first.flags.writeable


def test_binds_symbols():
    model = Model(signature([("n", "m"), ("m",)], [("m", "n")], ("m", "n")))
    (y,) = model.call()(zeros(2, 5), zeros(5))
    assert y.shape == (5, 2)
    assert model.dims == [[5, 2]]


@pytest.mark.parametrize(
    "wrong",
    [
        zeros(2, 4).astype(np.float64),
        zeros(2, 4).astype(">f4"),
        zeros(4, 2).T,
        zeros(2, 8)[:, ::2],
        zeros(3, 4),
        zeros(8),
        zeros(2, 4).tolist(),
        None,
        zeros(2, 4).view(np.matrix),
    ],
    ids=["dtype", "order", "transposed", "strided", "shape", "rank", "list", "None", "subclass"],
)
def test_hands_over_what_is_not_the_array_asked_for(wrong: object):
    model = Model(signature([(2, 4), (2, 4)], [(2, 4)]))
    good = zeros(2, 4)
    assert model.call()(good, wrong) == "handed over"
    (((first, second), named),) = model.handed_over
    assert first is good
    assert second is wrong
    assert named == {}
    assert model.workspaces == []


def test_takes_arrays_by_name_in_any_order():
    model = Model(signature([("n",), ("m",), ("k",)], [("n", "m", "k")], ("n", "m", "k")))
    call, (x, y, z) = model.call(), (zeros(2), zeros(3), zeros(4))
    for (made,) in (call(x, y, x2=z), call(x, x2=z, x1=y), call(x0=x, x1=y, x2=z)):
        assert made.shape == (2, 3, 4)
    # As `**` has them: names that are equal, not the same objects.
    (made,) = call(**{f"x{place}": array for place, array in ((2, z), (0, x), (1, y))})
    assert made.shape == (2, 3, 4)
    assert model.dims == [[2, 3, 4]] * 4


def test_hands_over_unknown_names_and_other_numbers_of_arrays():
    model = Model(signature([(2,), (2,)], [(2,)]))
    call, x = model.call(), zeros(2)
    calls = [call(x), call(x, x, x), call(x, x0=x), call(x, y=x), call(x, x0=x, x1=x), call(x1=x)]
    assert calls == ["handed over"] * 6
    assert [(len(arrays), list(named)) for arrays, named in model.handed_over] == [
        (1, []), (3, []), (1, ["x0"]), (1, ["y"]), (1, ["x0", "x1"]), (0, ["x1"]),
    ]  # fmt: skip


def test_hands_over_sizes_that_differ():
    model = Model(signature([("n",), ("n",)], [("n",)], ("n",)))
    call = model.call()
    assert call(zeros(3), zeros(4)) == "handed over"
    assert call(zeros(3), zeros(3))[0].shape == (3,)


def test_checks_derived_sizes_when_all_symbols_are_known():
    model = Model(signature([("2*n + 1",), ("n",)], [("n",)], ("n",)))
    call = model.call()
    assert call(zeros(7), zeros(3))[0].shape == (3,)
    assert call(zeros(8), zeros(3)) == "handed over"


@pytest.mark.parametrize("dim", ["n - 5", "6 floordiv n", "6 mod n"])
def test_hands_over_sizes_that_cannot_be(dim: str):
    model = Model(signature([("n",)], [("n",), (dim,)], ("n",)))
    call = model.call()
    assert call(zeros(0)) == "handed over"
    assert call(zeros(6))[1].shape == (size_of(dim)({"n": 6}),)


def expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["n", "m", "1", "2", "3", "7"])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner)
        halves = st.tuples(inner, st.sampled_from(["floordiv", "mod"]), st.sampled_from("237"))
        return st.one_of(
            pair.map(lambda each: f"({' '.join(each)})"),
            halves.map(lambda each: f"({' '.join(each)})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner, inner).map(
                lambda each: f"{each[0]}({', '.join(each[1:])})"
            ),
            inner.map(lambda each: f"(-{each})"),
        )

    return st.recursive(leaves, grow, max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(expressions(), st.integers(0, 9), st.integers(0, 9))
def test_sizes_are_what_their_expressions_say(dim: str, n: int, m: int):
    size = size_of(dim)({"n": n, "m": m})
    if not 0 <= size < 5000:
        return
    model = Model(signature([("n",), ("m",)], [(dim,)], ("n", "m")))
    assert model.call()(zeros(n), zeros(m))[0].shape == (size,)


def test_a_size_of_unknown_symbols_is_refused():
    with pytest.raises(weft.ArtifactError, match="requires dims of the symbols n, got k"):
        program_of("n + k", ["n"])


def test_the_workspace_is_aligned_kept_and_grows():
    model = Model(signature([("n",)], [("n",)], ("n",)))
    call = model.call()
    for model.workspace in (100, 64, 100_000, 0):
        call(zeros(3))
    places = [place for place, _ in model.workspaces]
    assert [size for _, size in model.workspaces] == [100, 64, 100_000, 0]
    assert all(place % 64 == 0 for place in places)
    assert places[0] == places[1]
    assert places[2] == places[3]


@pytest.mark.parametrize("metadata", [SHORT, {}], ids=["holding the lock", "releasing it"])
def test_calls_inside_a_call_have_workspaces_of_their_own(metadata: dict[str, Any]):
    model = Model(signature([(1,)], [(1,)]), workspace=64, metadata=metadata)
    call, depth = model.call(), 3
    noted = model._run

    def nested(context: int, given: int) -> int:
        nonlocal depth
        depth -= 1
        if depth:
            call(zeros(1))
        return noted(context, given)

    model._run = nested
    call = model.call()
    call(zeros(1))
    assert len({place for place, _ in model.workspaces}) == 3


def test_a_failure_is_raised():
    model = Model(signature([(1,)], [(1,)]), status=6)
    with pytest.raises(weft.InputError, match="the model failed with 6"):
        model.call()(zeros(1))
    model.status = 0
    assert model.call()(zeros(1))[0].shape == (1,)


def test_references_are_given_back():
    model = Model(signature([(1,), ("n",)], [(1,), ("n - 2",)], ("n",)))
    call = model.call()
    x, dtype = zeros(1), np.dtype(np.float32)
    counted = (x, dtype, model._odd)
    before = [sys.getrefcount(each) for each in counted]
    for model.status in (0, 6):
        for n in (1, 5):
            for _ in range(50):
                with contextlib.suppress(weft.InputError):
                    call(x, zeros(n))
    model.handed_over.clear()
    assert [sys.getrefcount(each) - 5 for each in counted] <= before


LARGE = LEAST_BYTES // 4
"""Elements of f32 whose memory is kept."""


def test_memory_of_large_outputs_is_used_again():
    call = Model(signature([(1,)], [(LARGE,), (1,)])).call()
    x = zeros(1)
    kept, small = call(x)
    assert (get_handler_name(kept), get_handler_name(zeros(LARGE))) == ("weft", "default_allocator")
    place = kept.ctypes.data
    assert place % 64 == 0
    kept[:] = 7
    assert call(x)[0].ctypes.data != place
    view = kept[1:]
    del kept
    assert call(x)[0].ctypes.data != place
    assert (view == 7).all()
    del view, small
    assert place in [array.ctypes.data for array in [call(x)[0] for _ in range(4)]]


def test_arrays_of_outputs_change_their_size_as_others_do():
    call = Model(signature([(1,)], [(LARGE,)])).call()
    (grown,), (shrunk,) = call(zeros(1)), call(zeros(1))
    grown[:] = shrunk[:] = 3
    grown.resize((3 * LARGE,), refcheck=False)
    shrunk.resize((5,), refcheck=False)
    np.testing.assert_array_equal(grown, [3] * LARGE + [0] * (2 * LARGE))
    np.testing.assert_array_equal(shrunk, [3] * 5)


def test_numpy_has_its_memory_from_where_it_had_after_any_call():
    model = Model(signature([("n",)], [(LARGE,), ("n - 2",)], ("n",)))
    call, handler = model.call(), python_call._handler()[0]
    before = sys.getrefcount(handler)
    for n in (3, 1):  # made, and handed over for a size below 0
        for model.status in (0, 6):
            with contextlib.suppress(weft.InputError):
                call(zeros(n))
            assert get_handler_name() == "default_allocator"
    assert sys.getrefcount(handler) <= before + 1


def test_spare_memory_has_bounds():
    places = BLOCKS + 8
    many = Model(signature([(1,)], [(LARGE,)] * places)).call()
    large = Model(signature([(1,)], [(MOST_BYTES // 4,)] * 2)).call()
    note = python_call._handler()[1][1]
    for call in (many, large, many):
        results = call(zeros(1))
        del results
        held = ctypes.c_int64.from_buffer(note, 8).value
        assert 0 < held <= MOST_BYTES


def test_a_call_outlives_its_executable():
    executable = weft.compile(dense_model("rows"), threads=1, cache=False)
    x = rows_of(5)
    (expected,) = executable(x)
    call = executable.__call__
    del executable
    gc.collect()
    np.testing.assert_array_equal(call(x)[0], expected)


def test_python_alone_gives_the_same(monkeypatch: pytest.MonkeyPatch):
    x = rows_of(5)
    quick = weft.compile(dense_model("rows"), threads=1, cache=False)
    assert not isinstance(quick.__call__, CheckedCall)
    monkeypatch.setattr(python_call, "_method", lambda **_: None)
    slow = weft.compile(dense_model("rows"), threads=1, cache=False)
    assert isinstance(slow.__call__, CheckedCall)
    assert slow(x)[0].tobytes() == quick(x)[0].tobytes()


def test_unknown_interpreters_are_noticed(monkeypatch: pytest.MonkeyPatch):
    assert python_call._is_known()
    monkeypatch.setattr(np, "__version__", "3.0.0")
    assert not python_call._is_known()


def test_only_short_calls_keep_the_lock():
    kernel = {"flops": 50_000, "bytes": 40_000}
    assert is_short({"kernels": [kernel], "repeats": False})
    assert not is_short({"kernels": [kernel, kernel], "repeats": False})
    assert not is_short({"kernels": [{"flops": "2*n", "bytes": 8}], "repeats": False})
    assert not is_short({"kernels": [kernel], "repeats": True})
    assert not is_short({})
    assert is_short(weft.compile(add_model(), threads=1, cache=False).metadata)


def test_a_long_call_lets_other_threads_run():
    started, went_on = threading.Event(), threading.Event()
    model = Model(signature([(1,)], [(1,)]), metadata={})
    noted = model._run

    def wait(context: int, given: int) -> int:
        started.set()
        assert went_on.wait(10)
        return noted(context, given)

    model._run = wait
    caller = threading.Thread(target=model.call(), args=(zeros(1),))
    caller.start()
    assert started.wait(10)
    went_on.set()
    caller.join(10)
    assert len(model.workspaces) == 1


KEPT = """
import numpy as np
import weft

x = np.ones((200, 200), np.float32)
kept = np.asarray(weft.trace(lambda x: x + 1, x)(x))
"""


def test_results_go_when_the_interpreter_ends(tmp_path: Path):
    """Behind the modules of the compiler, whose memory is overwritten as it is freed."""
    own = {"WEFT_CACHE_DIR": str(tmp_path), "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "165"}
    done = subprocess.run(
        [sys.executable, "-c", KEPT], env=os.environ | own, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
