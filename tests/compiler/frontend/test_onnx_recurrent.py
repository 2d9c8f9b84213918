"""RNN, GRU and LSTM with every attribute, compiled at symbolic sizes, against onnxruntime."""
# pyright: basic

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import weft
from tests.models.peer import run_onnxruntime
from weft.dialects.errors import ModelError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
HIDDEN, INPUTS = 3, 2
RNG = np.random.default_rng(5)


def floats(*shape: int):
    return RNG.standard_normal(shape).astype(np.float32)


def operands_of(kind: str, directions: int, given: str) -> dict[str, np.ndarray]:
    """Weights, and those optional operands whose letters are given."""
    gates = GATES[kind]
    arrays = {
        "W": floats(directions, gates * HIDDEN, INPUTS),
        "R": floats(directions, gates * HIDDEN, HIDDEN),
        "B": floats(directions, 2 * gates * HIDDEN),
        "L": np.array([4, 1, 3], np.int32),
        "H": floats(directions, 3, HIDDEN),
        "C": floats(directions, 3, HIDDEN),
        "P": floats(directions, 3 * HIDDEN),
    }
    return {name: array for name, array in arrays.items() if name in "WR" + given}


def model_of(kind: str, operands: dict[str, np.ndarray], **attributes) -> ModelProto:
    """One node on inputs whose number of steps varies."""
    names = "XWRBLHCP" if kind == "LSTM" else "XWRBLH"
    outputs = ["Y", "Yh", "Yc"] if kind == "LSTM" else ["Y", "Yh"]
    slots = [name if name == "X" or name in operands else "" for name in names]
    node = helper.make_node(kind, slots, outputs, hidden_size=HIDDEN, **attributes)
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["steps", 3, INPUTS])]
    for name, array in operands.items():
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(name, element, array.shape))
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], kind.lower(), inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


CASES = [
    ("RNN", "forward", "", {}),
    ("RNN", "bidirectional", "BH", {"activations": ["Relu", "Softsign"], "clip": 0.5}),
    ("RNN", "reverse", "BLH", {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
    ("GRU", "forward", "B", {}),
    ("GRU", "bidirectional", "BLH", {"linear_before_reset": 1, "clip": 1.0}),
    ("GRU", "reverse", "BH", {"activations": ["HardSigmoid", "Tanh"]}),
    ("LSTM", "forward", "", {}),
    ("LSTM", "bidirectional", "BLHCP", {"clip": 0.8}),
    ("LSTM", "reverse", "BHCP", {"activations": ["Sigmoid", "Softplus", "Elu"]}),
    ("LSTM", "forward", "BP", {"input_forget": 1}),
]


@pytest.mark.parametrize(("kind", "direction", "given", "attributes"), CASES)
def test_recurrent_layers_are_those_of_onnxruntime(kind, direction, given, attributes):
    operands = operands_of(kind, 2 if direction == "bidirectional" else 1, given)
    model = model_of(kind, operands, direction=direction, **attributes)
    compiled = weft.compile(model)
    for steps in (4, 6):
        feeds = {"X": floats(steps, 3, INPUTS), **operands}
        expected = run_onnxruntime(model, feeds)
        results = compiled.run(feeds)
        for name, array in zip([o.name for o in model.graph.output], expected, strict=True):
            np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-5)


def test_batches_may_come_first():
    operands = operands_of("GRU", 2, "BH")
    y, last = run(model_of("GRU", operands, direction="bidirectional"), operands)
    operands["H"] = operands["H"].transpose(1, 0, 2)
    model = model_of("GRU", operands, direction="bidirectional", layout=1)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value, dims[1].dim_param = 3, "steps"
    swapped, swapped_last = run(model, operands, batch_first=True)
    np.testing.assert_allclose(swapped, y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(swapped_last, last.transpose(1, 0, 2), rtol=1e-5, atol=1e-6)


def run(model: ModelProto, operands: dict[str, np.ndarray], *, batch_first: bool = False):
    x = np.arange(5 * 3 * INPUTS, dtype=np.float32).reshape(5, 3, INPUTS) / 30
    feeds = {"X": np.ascontiguousarray(x.transpose(1, 0, 2)) if batch_first else x, **operands}
    results = weft.compile(model).run({name: np.ascontiguousarray(a) for name, a in feeds.items()})
    return results["Y"], results["Yh"]


def test_unknown_activations_are_refused():
    operands = operands_of("RNN", 1, "")
    with pytest.raises(ModelError, match="an activation that ONNX has, got Cosine"):
        weft.compile(model_of("RNN", operands, activations=["Cosine"]))
