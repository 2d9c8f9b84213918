"""Calls of compiled models from Python: what is accepted, what is refused, how many threads."""

import gc
import os
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import weft
from tests.support.small_models import add_model, dense_model, dense_reference, rows_of

EIGHT = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def add() -> weft.Executable:
    return weft.compile(add_model(), threads=1, cache=False)


@pytest.fixture(scope="module")
def dense() -> weft.Executable:
    return weft.compile(dense_model("rows"), threads=2, cache=False)


def test_takes_arrays_by_position(add: weft.Executable):
    (z,) = add(EIGHT, EIGHT)
    np.testing.assert_array_equal(z, 2 * EIGHT)


def test_takes_arrays_by_name(add: weft.Executable):
    (z,) = add(y=EIGHT, x=2 * EIGHT)
    np.testing.assert_array_equal(z, 3 * EIGHT)


def test_takes_some_arrays_by_position_and_the_rest_by_name(add: weft.Executable):
    (z,) = add(EIGHT, y=EIGHT)
    np.testing.assert_array_equal(z, 2 * EIGHT)


def test_run_takes_and_gives_dicts(add: weft.Executable):
    outputs = add.run({"y": EIGHT, "x": EIGHT})
    assert list(outputs) == ["z"]
    np.testing.assert_array_equal(outputs["z"], 2 * EIGHT)


def test_takes_read_only_arrays(add: weft.Executable):
    fixed = EIGHT.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(add(fixed, fixed)[0], 2 * EIGHT)


def test_takes_strided_arrays(add: weft.Executable):
    every_other = np.arange(16, dtype=np.float32)[::2]
    np.testing.assert_array_equal(add(every_other, EIGHT)[0], every_other + EIGHT)


def test_takes_unaligned_arrays(add: weft.Executable):
    shifted = np.zeros(33, np.uint8)[1:].view(np.float32)
    shifted[:] = EIGHT
    assert not shifted.flags.aligned
    np.testing.assert_array_equal(add(shifted, shifted)[0], 2 * EIGHT)


def test_results_are_new_arrays(add: weft.Executable):
    first, second = add(EIGHT, EIGHT)[0], add(EIGHT, 2 * EIGHT)[0]
    np.testing.assert_array_equal(first, 2 * EIGHT)
    np.testing.assert_array_equal(second, 3 * EIGHT)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (EIGHT.astype(np.float64), r"float64 \[8\]"),
        (EIGHT.astype(">f4"), r">f4 \[8\]"),
        (EIGHT[:7], r"float32 \[7\]"),
        (EIGHT[None], r"float32 \[1, 8\]"),
        ("text", "<U4"),
        (None, "object"),
    ],
    ids=["dtype", "byte order", "shape", "rank", "text", "None"],
)
def test_refuses_other_arrays(add: weft.Executable, wrong: object, got: str):
    with pytest.raises(weft.InputError, match=rf"requires float32 \[8\] for input 'y', got {got}"):
        add(EIGHT, wrong)


def test_refuses_ragged_sequences(add: weft.Executable):
    with pytest.raises(weft.InputError, match="requires an array for input 'y', got none"):
        add(EIGHT, [[1.0], [1.0, 2.0]])


def test_refuses_missing_arrays(add: weft.Executable):
    with pytest.raises(weft.InputError, match="requires inputs x, y, got no 'y'"):
        add(EIGHT)


def test_refuses_superfluous_arrays(add: weft.Executable):
    with pytest.raises(weft.InputError, match="requires 2 inputs, got 3"):
        add(EIGHT, EIGHT, EIGHT)


def test_refuses_unknown_names(add: weft.Executable):
    with pytest.raises(weft.InputError, match="got no 'y', unknown 'w'"):
        add.run({"x": EIGHT, "w": EIGHT})


def test_refuses_an_array_given_twice(add: weft.Executable):
    with pytest.raises(weft.InputError, match="got 'x' twice"):
        add(EIGHT, EIGHT, x=EIGHT)


def test_works_after_a_refusal(add: weft.Executable):
    with pytest.raises(weft.InputError):
        add(EIGHT, EIGHT[:3])
    np.testing.assert_array_equal(add(EIGHT, EIGHT)[0], 2 * EIGHT)


def test_binds_symbolic_sizes_to_each_call(dense: weft.Executable):
    for rows in (1, 7, 64, 3):
        x = rows_of(rows)
        np.testing.assert_allclose(
            dense(x)[0], dense_reference(dense_model("rows"), x), rtol=1e-5, atol=1e-5
        )


def test_takes_no_rows(dense: weft.Executable):
    (y,) = dense(np.empty((0, 96), np.float32))
    assert y.shape == (0, 80)


def test_refuses_symbolic_sizes_that_differ():
    add = weft.compile(add_model(("n",)), threads=1, cache=False)
    with pytest.raises(weft.InputError, match=r"shape \[n\] for input 'y', got \[3\] where n=8"):
        add(EIGHT, EIGHT[:3])


def test_takes_tensors_without_elements():
    add = weft.compile(add_model((0, 4)), threads=1, cache=False)
    empty = np.empty((0, 4), np.float32)
    assert add(empty, empty)[0].shape == (0, 4)


def test_takes_scalars():
    add = weft.compile(add_model(()), threads=1, cache=False)
    (z,) = add(np.float32(1.5), np.array(2.0, np.float32))
    assert (z.shape, float(z)) == ((), 3.5)


def test_takes_bfloat16():
    add = weft.compile(add_model((8,), TensorProto.BFLOAT16), threads=1, cache=False)
    x = EIGHT.astype(ml_dtypes.bfloat16)
    (z,) = add(x, x)
    assert z.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(z.astype(np.float32), 2 * EIGHT)


def test_describes_inputs_and_outputs(dense: weft.Executable):
    assert [(spec.name, spec.dtype, spec.dims) for spec in dense.inputs] == [
        ("x", "float32", ("rows", 96))
    ]
    assert [spec.dims for spec in dense.outputs] == [("rows", 80)]
    assert repr(dense) == (
        "<weft.Executable model(x: float32[rows, 96]) -> (y: float32[rows, 80])>"
    )


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_refuses_a_number_of_threads(threads: int):
    with pytest.raises(weft.OptionError, match=f"requires 1 to 1024 threads, got {threads}"):
        weft.compile(add_model(), threads=threads, cache=False)


def test_calls_from_several_threads_do_not_disturb_each_other(dense: weft.Executable):
    inputs = [rows_of(40 + number, seed=number) for number in range(4)]
    expected = [dense(x)[0] for x in inputs]
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(50):
            if not np.array_equal(dense(inputs[number])[0], expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_gives_the_same_bits_with_any_number_of_threads():
    x = rows_of(64)
    results = [
        weft.compile(dense_model(), threads=threads, cache=False)(x)[0] for threads in (1, 2, 3)
    ]
    assert len({result.tobytes() for result in results}) == 1


def test_ends_its_threads_when_it_is_collected():
    gc.collect()  # what other tests left
    before = count_threads()
    executable = weft.compile(dense_model(), threads=3, cache=False)
    assert count_threads() == before + 2
    del executable
    gc.collect()
    assert count_threads() == before


def count_threads() -> int:
    """The threads of this process once none comes or goes: one that was joined is listed for a
    moment more.
    """
    last, same = 0, 0
    while same < 10:
        count = len(os.listdir("/proc/self/task"))
        last, same = count, same + 1 if count == last else 0
        time.sleep(0.005)
    return last


def test_a_small_call_takes_microseconds(add: weft.Executable):
    """3 us are promised on an idle machine; this one may be shared."""
    for _ in range(1000):
        add(EIGHT, EIGHT)
    times: list[float] = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(500):
            add(EIGHT, EIGHT)
        times.append((time.perf_counter() - start) / 500)
    assert min(times) < 12e-6
