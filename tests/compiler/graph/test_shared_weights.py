"""Weights of equal bytes are stored once: in the artifact, in this process and in the cache."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft

ROWS, COLUMNS = 96, 160


def _model(copies: int) -> bytes:
    """Products with copies of one weight, and a sum with the last under another shape."""
    weight = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    nodes, tensors = [], []
    for n in range(3):
        name = f"w{n if n < copies else 0}"
        nodes.append(helper.make_node("MatMul", [f"x{n}", name], [f"y{n}"]))
        if n < copies:
            tensors.append(numpy_helper.from_array(weight, name))
    last = numpy_helper.from_array(weight.reshape(1, -1), "flat")
    nodes.append(helper.make_node("Add", ["x3", "flat"], ["y3"]))
    shapes = [[4, ROWS]] * 3 + [[2, ROWS * COLUMNS]]
    results = [[4, COLUMNS]] * 3 + [[2, ROWS * COLUMNS]]
    value, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    inputs = [value(f"x{n}", kind, shape) for n, shape in enumerate(shapes)]
    outputs = [value(f"y{n}", kind, shape) for n, shape in enumerate(results)]
    graph = helper.make_graph(nodes, "copies", inputs, outputs, [*tensors, last])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize(("naive", "forms"), [(True, 1), (False, 2)])
def test_copies_of_a_weight_take_no_space(tmp_path: Path, naive: bool, forms: int):
    sizes: list[int] = []
    for copies in (1, 3):
        exe = weft.compile(_model(copies), naive=naive, cache=False)
        path = tmp_path / f"libcopies{copies}.so"
        exe.export(path)
        sizes.append(path.stat().st_size)
    assert sizes[0] == sizes[1]
    assert sizes[0] < (forms + 1.5) * ROWS * COLUMNS * 4


def test_shared_weights_compute_the_same_from_everywhere(tmp_path: Path):
    rng = np.random.default_rng(1)
    x = [rng.standard_normal((4, ROWS)).astype(np.float32) for _ in range(3)]
    x.append(rng.standard_normal((2, ROWS * COLUMNS)).astype(np.float32))
    cache = weft.Cache(tmp_path / "cache")
    weight = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    expected = [*(each @ weight for each in x[:3]), x[3] + weight.reshape(1, -1)]
    first = weft.compile(_model(3), cache=cache)
    again = weft.compile(_model(3), cache=cache)
    first.export(tmp_path / "libmodel.so")
    for exe in (first, again, weft.load(tmp_path / "libmodel.so")):
        for got, wanted in zip(exe(*x), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


TOKENS, WIDTH = 16384, 16


def _tied(rows: int, product: str) -> tuple[bytes, np.ndarray]:
    """Looks `rows` rows of a table up and multiplies their mean with the table, which stands in the
    product as it is, or transposed by an operator or in the file.
    """
    rng = np.random.default_rng(2)
    table = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    tensors = [numpy_helper.from_array(table, "table")]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["looked_up"]),
        helper.make_node("ReduceMean", ["looked_up"], ["mean"], axes=[0]),
    ]
    size = WIDTH if product == "plain" else TOKENS
    if product == "stored":
        tensors.append(numpy_helper.from_array(np.ascontiguousarray(table.T), "turned"))
    elif product == "transposed":
        nodes.append(helper.make_node("Transpose", ["table"], ["turned"]))
    if product == "plain":
        nodes.append(helper.make_node("ReduceSum", ["mean"], ["sum"]))
        nodes.append(helper.make_node("Expand", ["sum", "shape"], ["wide"]))
        nodes.append(helper.make_node("MatMul", ["wide", "table"], ["scores"]))
        tensors.append(numpy_helper.from_array(np.array([1, TOKENS]), "shape"))
    else:
        nodes.append(helper.make_node("MatMul", ["mean", "turned"], ["scores"]))
    value = helper.make_tensor_value_info
    inputs = [value("ids", TensorProto.INT64, [rows])]
    outputs = [value("scores", TensorProto.FLOAT, [1, size])]
    graph = helper.make_graph(nodes, "tied", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model.SerializeToString(), table


@pytest.mark.parametrize("product", ["plain", "transposed", "stored"])
def test_a_table_lies_as_the_product_with_it_reads_it(product: str):
    model, table = _tied(1, product)
    exe = weft.compile(model, cache=False)
    assert [each["bytes"] for each in exe.metadata["weights"]] == [table.nbytes]
    for row in (0, 33, -1):
        (got,) = exe(np.array([row]))
        if product == "plain":
            expected = table[row].sum() * table.sum(0, keepdims=True)
        else:
            expected = table[[row]] @ table.T
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-2)


def test_a_table_that_is_looked_up_much_has_a_copy_of_its_own():
    model, table = _tied(4096, "transposed")
    exe = weft.compile(model, cache=False)
    assert sum(each["bytes"] for each in exe.metadata["weights"]) == 2 * table.nbytes


def test_the_caller_hands_over_a_tied_table_once():
    model, _ = _tied(1, "transposed")
    exe = weft.compile(model, cache=False, weights="caller")
    assert [each["name"] for each in exe.metadata["logical_weights"]] == ["table"]


def test_tensors_of_equal_bytes_and_other_element_types_share_storage():
    """As 64-bit integers, and as 32-bit ones of which every other is 0; one byte differs."""
    numbers = np.arange(100, 164)
    same, other = numbers.view(np.int32), numbers.view(np.int32).copy()
    other[31] += 1
    tensors = {"wide": numbers, "narrow": same, "other": other}
    nodes = [helper.make_node("Add", [f"x_{name}", name], [f"y_{name}"]) for name in tensors]
    kinds = {name: helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in tensors.items()}
    value = helper.make_tensor_value_info
    inputs = [value(f"x_{name}", kinds[name], each.shape) for name, each in tensors.items()]
    outputs = [value(f"y_{name}", kinds[name], each.shape) for name, each in tensors.items()]
    stored = [numpy_helper.from_array(each, name) for name, each in tensors.items()]
    graph = helper.make_graph(nodes, "bytes", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    exe = weft.compile(model.SerializeToString(), cache=False)
    assert len({each["offset"] for each in exe.metadata["weights"]}) == 2
    results = exe(*(each[::-1] for each in tensors.values()))
    for got, each in zip(results, tensors.values(), strict=True):
        np.testing.assert_array_equal(got, each[::-1] + each)
