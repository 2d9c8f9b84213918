"""Calls of an artifact: what they require, and how they fail."""

import ctypes

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.runtime.runtime_library import (
    Addition,
    Library,
    integer,
    threads_1_2_8,
    triple,
)
from weft.compiler.abi.constants import Status
from weft.dialects.extent import MOST


@threads_1_2_8
def test_emitted_program_runs_over_every_element(emitted: Library, threads: int):
    with emitted.context(threads=threads) as context:
        for count in (0, 1, 8, 9, 64, 100_001):
            values = np.arange(count)
            status, result = triple(emitted, context, values)
            assert status == Status.OK
            np.testing.assert_array_equal(result, 3 * values)


def test_failing_program_tells_status_and_numbers(emitted: Library):
    with emitted.context(threads=1) as context:
        assert emitted.last_error(context) == b""
        status, _ = triple(emitted, context, np.arange(13))
        assert status == Status.BAD_VALUE
        assert emitted.last_error(context) == b"sums require 100% luck, got 13 and -1"


@threads_1_2_8
def test_run_adds(hosted: Library, threads: int):
    with hosted.context(threads=threads) as context:
        addition = Addition()
        assert addition.run(hosted, context) == Status.OK
        np.testing.assert_array_equal(addition.sums, addition.lhs + addition.rhs)


def test_run_without_context_fails(hosted: Library):
    assert Addition().run(hosted, None) == Status.NULL_POINTER
    assert hosted.last_error(None).startswith(b"weft requires a context, got NULL")


def test_run_without_call_fails(hosted: Library):
    with hosted.context(threads=1) as context:
        assert hosted.run(context, None) == Status.NULL_POINTER
        assert hosted.last_error(context) == b"run requires a weft_call, got NULL"


SPOILED_CALLS: dict[str, tuple[dict[str, object], Status, bytes]] = {
    "size": ({"size": 56}, Status.BAD_CALL, b"run requires a weft_call of 64 bytes, got 56"),
    "reserved": (
        {"reserved": (ctypes.c_uint64 * 2)(0, 9)},
        Status.BAD_CALL,
        b"run requires reserved[1] to be 0, got 9",
    ),
    "inputs": (
        {"inputs": None},
        Status.NULL_POINTER,
        b"run requires a table of 2 inputs, got NULL",
    ),
    "outputs": (
        {"outputs": None},
        Status.NULL_POINTER,
        b"run requires a table of 1 outputs, got NULL",
    ),
    "dims": ({"dims": None}, Status.NULL_POINTER, b"run requires a table of 1 dims, got NULL"),
    "workspace": (
        {"workspace": None},
        Status.NULL_POINTER,
        b"run requires a workspace of 4000 bytes, got NULL",
    ),
    "workspace_size": (
        {"workspace_size": 3999},
        Status.BAD_WORKSPACE,
        b"run requires a workspace of 4000 bytes, got 3999",
    ),
}


@pytest.mark.parametrize("spoiled", SPOILED_CALLS)
def test_run_refuses_wrong_calls(hosted: Library, spoiled: str):
    fields, status, text = SPOILED_CALLS[spoiled]
    addition = Addition()
    for name, value in fields.items():
        setattr(addition.call, name, value)
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == status
        assert hosted.last_error(context) == text
    assert not addition.sums.any()


def test_run_refuses_null_buffers(hosted: Library):
    with hosted.context(threads=1) as context:
        addition = Addition()
        addition.inputs[1] = None
        assert addition.run(hosted, context) == Status.NULL_POINTER
        assert hosted.last_error(context) == (
            b"run requires a buffer of float32 (n0,) for input 'x1', got NULL"
        )
        addition = Addition()
        addition.outputs[0] = None
        assert addition.run(hosted, context) == Status.NULL_POINTER
        assert hosted.last_error(context) == (
            b"run requires a buffer of float32 (n0,) for output 'y0', got NULL"
        )


@pytest.mark.parametrize("size", [-4, MOST + 1, 2**63 - 1])
def test_run_refuses_dims_that_are_no_extents(hosted: Library, size: int):
    """S5."""
    addition = Addition()
    addition.dims[0] = size
    rule = f"size n0 (dim 0 of shape (n0,) of input 'x0') to be 0 to {MOST}"
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == Status.BAD_DIMS
        assert hosted.last_error(context).decode() == f"run requires {rule}, got {size}"


def test_run_refuses_a_workspace_off_its_alignment(hosted: Library):
    addition = Addition()
    addition.call.workspace += 32
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == Status.BAD_WORKSPACE
        expected = b"run requires a workspace aligned to 64 bytes, got one 32 bytes beyond"
        assert hosted.last_error(context) == expected


def test_no_workspace_is_needed_for_nothing(hosted: Library):
    addition = Addition()
    addition.dims[0] = 0
    addition.call.workspace, addition.call.workspace_size = None, 0
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == Status.OK


def test_workspace_size_is_a_function_of_the_dims(hosted: Library):
    assert hosted.workspace_size((integer * 1)(250)) == 1000
    assert hosted.workspace_size((integer * 1)(-1)) == 2**64 - 1
    assert hosted.workspace_size(None) == 2**64 - 1
