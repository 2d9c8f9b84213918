"""Sizes of a call that are too large, or wrap: refused before anything is computed from them."""

import json
import subprocess
import sys

import pytest

from weft.dialects.extent import MOST

RULE = f"extents of 0 to {MOST}, and no more bytes, for"


@pytest.fixture(scope="module")
def told() -> dict[str, object]:
    """What calls say, made in a process of their own."""
    command = [sys.executable, "-m", "tests.compiler.machine.artifact.call_with_sizes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("call", "name", "size"), [("s1", "Reshape", 3), ("s2", "Tile", 0)])
def test_a_found_size_that_is_no_extent_is_refused(told, call: str, name: str, size: int):
    """S1: a shape whose product wraps to the operand's size. S2: a repeat of 2**61."""
    assert f"requires a size of 0 to {MOST} for {name}_0_size" in told[call]
    assert told[call].endswith(f"got {2**61 + size}, at {name}_0")


def test_found_sizes_are_refused_together(told):
    """S2: each repeat is an extent, the result has too many bytes."""
    assert f"{RULE} output 'z' of shape" in told["s2 bytes"] or "a tensor" in told["s2 bytes"]
    assert told["s2 bytes"].endswith(", at Tile_0")


def test_a_product_of_the_sizes_of_a_call_is_refused(told):
    """S3: (2**32, 0) times its transpose."""
    rule = f"run requires {RULE} output 'z' of shape (n, n), got n = {2**32}"
    assert told["s3"] == f"model {rule}"


@pytest.mark.parametrize("call", ["s4 concat", "s4 flatten"])
def test_extents_beside_a_zero_are_refused(told, call: str):
    """S4: no element, but strides and extents that wrap."""
    assert RULE in told[call]


def test_a_call_without_a_workspace_is_refused(told):
    """S5: bytes that wrap to few are no size, and `m_run` does not accept them."""
    rule = f"run requires {RULE} output 'z' of shape (n, n), got n = {2**32}"
    assert told["s5 run"] == told["s5 dlpack"] == f"3 {rule}"
    assert "requires n (dim 0 of shape (n, m) of input 'x') to be 1 to 32" in told["s5 bounds"]
    allowed = {size for size, allows in told["s5 workspace"].items() if allows}
    assert allowed == {"small", "most"}
    assert told["zero"] == [[4, 4]]


def test_an_extent_below_zero_is_refused(told):
    """S5: a window that does not fit."""
    assert f"{RULE} output 'y' of shape (1, 1, h - 2, w - 2), got h = 1" in told["window"]


def test_a_growing_buffer_of_too_many_bytes_is_refused(told):
    """S5: what the program allocates itself."""
    assert RULE in told["growing"]
    assert told["growing"].endswith(", at ConstantOfShape_0")
