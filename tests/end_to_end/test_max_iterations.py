"""Loops that may have so many iterations and no more."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft

MOST = 1000


def loop_model(trips: int | str | None, condition: bool | None) -> onnx.ModelProto:
    """The node `spin` adds 1 to x: a number of times, as often as the input `trips` says, or
    forever.
    """
    scalar = {"i": TensorProto.INT64, "c": TensorProto.BOOL, "x": TensorProto.FLOAT}
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["again"]),
            helper.make_node("Add", ["x", "one"], ["more"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, kind, []) for name, kind in scalar.items()],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("more", TensorProto.FLOAT, []),
        ],
    )
    constants = {"one": np.float32(1)}
    inputs = [helper.make_tensor_value_info("start", TensorProto.FLOAT, [])]
    if isinstance(trips, int):
        constants["trips"] = np.int64(trips)
    elif trips:
        inputs.append(helper.make_tensor_value_info("trips", TensorProto.INT64, []))
    if condition is not None:
        constants["condition"] = np.bool_(condition)
    given = ["trips" if trips else "", "condition" if condition else "", "start"]
    graph = helper.make_graph(
        [helper.make_node("Loop", given, ["y"], name="spin", body=body)],
        "spinning",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize(
    ("trips", "condition"), [(None, None), (None, True), (2**63 - 1, None), (2**63 - 1, True)]
)
def test_loop_without_end_ends_at_its_limit(trips: int | None, condition: bool | None):
    """C side: a Loop without end can be given a limit, and the error names the node."""
    model = weft.compile(loop_model(trips, condition), cache=False, max_iterations=MOST)
    got = trips or MOST + 1
    rule = f"requires loops of at most {MOST} iterations, got {got}, at spin$"
    for _ in range(2):
        with pytest.raises(weft.InputError, match=rule):
            model(np.float32(0))


def test_limit_itself_is_allowed():
    model = weft.compile(loop_model("trips", None), cache=False, max_iterations=MOST)
    assert model(np.float32(0.5), np.int64(MOST))[0] == MOST + 0.5
    with pytest.raises(
        weft.InputError, match=f"at most {MOST} iterations, got {MOST + 1}, at spin"
    ):
        model(np.float32(0.5), np.int64(MOST + 1))
    assert model(np.float32(0.5), np.int64(MOST))[0] == MOST + 0.5


def halve(x):
    while x > 1.0:
        x = x * 0.5
    return x


def halve_traced(x):
    return weft.while_loop(lambda y: y > 1.0, lambda y: y * 0.5, x)


@pytest.mark.parametrize("kind", ["jit", "trace", "compile", "step"])
def test_while_of_python_has_a_limit(kind: str):
    """C side: the same for loops of weft.jit and weft.trace; the error names the line."""
    options = {"max_iterations": 20}
    call = {
        "jit": lambda: weft.jit(halve, **options),
        "trace": lambda: weft.trace(halve_traced, 2.0, **options),
        "compile": lambda: weft.compile(halve, [weft.Spec("float64")], cache=False, **options),
        "step": lambda: weft.step(halve_traced, 2.0, **options),
    }[kind]()
    assert np.ravel(call(np.array(2.0**20)))[0] == 1.0
    rule = r"loops of at most 20 iterations, got 21, at .*test_max_iterations\.py:\d+"
    with pytest.raises(weft.InputError, match=rule):
        call(np.array(2.0**21))
    assert np.ravel(call(np.array(2.0**20)))[0] == 1.0


def test_limit_holds_for_the_derivative_of_a_loop():
    both = weft.value_and_grad(lambda x: weft.while_loop(lambda y: y < 100.0, lambda y: y * y, x))
    call = weft.trace(both, 2.0, max_iterations=3)
    assert [float(each) for each in call(np.array(2.0))] == [256.0, 8 * 2.0**7]
    with pytest.raises(weft.InputError, match="at most 3 iterations, got 4"):
        call(np.array(1.5))


def test_limit_is_a_number_of_iterations():
    with pytest.raises(weft.OptionError, match="max_iterations requires a number from 1 .*, got 0"):
        weft.compile(loop_model(3, None), max_iterations=0)
