"""Bounds of named sizes: what the compiler makes of them, and what a call outside them gets."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from xdsl.parser import Parser

import weft
from weft.compilation import options_of
from weft.compiler.driver.named_sizes import Bound, parse_bound
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.loop.nest import loops_in, most_iterations
from weft.dialects.context import WeftContext
from weft.dialects.loop.program import KernelOp

KERNEL = """
loop.kernel @copy[n0](
    %x: !loop.buffer<[n0], f32>, %y: !loop.buffer<[n0], f32>
) attributes {bounds = {n0 = #loop.exprs<[1, 32]>}} {
  loop.for %i = 0 to n0 {
    %v = loop.load %x[%i] : !loop.buffer<[n0], f32>
    loop.store %v, %y[%i] : !loop.buffer<[n0], f32>
  }
}
"""


def relu() -> ModelProto:
    """Relu of `x[batch, length, 8]`."""
    dims = ["batch", "length", 8]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)
    node = helper.make_node("Relu", ["x"], ["y"])
    return helper.make_model(helper.make_graph([node], "relu", [x], [y]))


def test_sizes_within_the_bounds_run() -> None:
    run = weft.compile(relu(), bounds={"batch": (1, 4)}, cache=False)
    for batch in (1, 4):
        assert run(np.ones((batch, 9, 8), np.float32))[0].shape == (batch, 9, 8)


@pytest.mark.parametrize("batch", [0, 5])
def test_a_size_outside_is_refused_by_input_dim_and_bound(batch: int) -> None:
    run = weft.compile(relu(), bounds={"batch": (1, 4)}, cache=False)
    rule = (
        r"requires batch \(dim 0 of shape \(batch, length, 8\) of input 'x'\) to be 1 to 4, "
        rf"got {batch} in \({batch}, 9, 8\)$"
    )
    with pytest.raises(weft.InputError, match=rule):
        run(np.ones((batch, 9, 8), np.float32))


def test_the_artifact_says_its_bounds() -> None:
    options = options_of(b"", bounds=[parse_bound("length=2..9")])
    assert compile_model(relu(), options).metadata["bounds"] == {"length": [2, 9]}


def test_bounds_are_of_sizes_of_the_inputs() -> None:
    with pytest.raises(weft.OptionError, match=r"\(batch, length\), each once, got width"):
        weft.compile(relu(), bounds={"width": (1, 4)}, cache=False)


@pytest.mark.parametrize("text", ["batch", "batch=4", "batch=1..", "=1..4", "batch=-1..4"])
def test_a_bound_has_a_name_and_two_numbers(text: str) -> None:
    with pytest.raises(weft.OptionError, match="requires a text such as batch=1..32"):
        parse_bound(text)


def test_a_bound_is_in_order() -> None:
    with pytest.raises(weft.OptionError, match=r"for batch, got 4\.\.1"):
        Bound("batch", 4, 1)


def test_loops_know_the_bounds_of_their_kernel() -> None:
    kernel = Parser(WeftContext(), KERNEL).parse_module().body.block.first_op
    assert isinstance(kernel, KernelOp)
    (loop,) = loops_in(kernel)
    assert most_iterations(loop) == 32
