"""ONNX's backend interface and test suite.

Every case is to be computed by emitted kernels but for those that expected_failures.txt lists with
a reason. A listed case that passes fails the test. Every other case is run; with WEFT_STRESS=1 all.
"""

import os
from fnmatch import fnmatchcase

import numpy as np
import pytest
from onnx import helper, parser

from tests.compiler.adapters.onnx_suite import (
    FOLDED,
    MOVED,
    NATIVE,
    WITHOUT_FAILURE,
    all_cases,
    expectations,
    expected_reason,
    outcome,
    reason_of,
)
from weft.compiler.adapters import onnx_backend
from weft.dialects.errors import InputError, UnsupportedError

SHARDS = 64
STRESS = "WEFT_STRESS" in os.environ
NATIVE_AT_LEAST = 1976
"""With the nine real networks, which tests/models has, 1,985."""


def model_of(text: str):
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')


RESHAPE = "agraph (float[2, 3] x, int64[n] s) => (float[] y) { t = Neg(x) y = Reshape(t, s) }"


@pytest.mark.parametrize("shard", range(SHARDS) if STRESS else range(0, SHARDS, 2))
def test_cases_come_to_what_is_expected(shard):
    reasons = expectations()
    wrong: list[str] = []
    for name, case in list(all_cases().items())[shard::SHARDS]:
        expected, found = expected_reason(name, reasons), outcome(case)
        wanted = expected or NATIVE
        passes = {wanted, found} & set(WITHOUT_FAILURE)
        if passes and wanted != found:
            wrong.append(f"{name}: expected {expected or 'native'}, got {found}")
    assert not wrong, "\n".join(wrong)


def test_enough_cases_are_computed_natively():
    reasons = expectations()
    names = list(all_cases())
    native = [name for name in names if expected_reason(name, reasons) in (None, MOVED)]
    assert len(native) >= NATIVE_AT_LEAST, f"{len(native)} of {len(names)}"


def test_every_expectation_names_a_case():
    names = list(all_cases())
    stale = [
        pattern
        for pattern in expectations()
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
    assert stale == []


def test_a_reason_that_a_person_worded_stays_unless_a_category_fits():
    message = "AssertionError: m.onnx: node 'a' (Add): 2 of 9 elements differ"
    assert reason_of(message, "f16 is rounded") == "f16 is rounded"
    assert reason_of(message, FOLDED) == reason_of(message, None) == "2 of 9 elements differ"
    lacking = "node 'd' (Det): weft requires an operator that it has, got Det"
    assert reason_of(lacking, "f16 is rounded") == "no operator Det"


def test_run_model_takes_arrays_by_position_or_name():
    model = model_of("agraph (float[2] x, float[2] z) => (float[2] y) { y = Sub(x, z) }")
    x, z = np.array([1, 2], np.float32), np.array([5, 7], np.float32)
    for inputs in ([x, z], {"z": z, "x": x}):
        (y,) = onnx_backend.run_model(model, inputs)
        np.testing.assert_array_equal(y, x - z)


def test_outputs_are_found_by_name():
    model = model_of("agraph (float[1] x) => (float[1] y) { y = Neg(x) }")
    outputs = onnx_backend.prepare(model).run([np.ones(1, np.float32)])
    assert outputs["y"][0] == -1


def test_run_node_compiles_for_the_given_arrays():
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.ones((2, 3), np.float32), np.full(3, 2, np.float32)
    (c,) = onnx_backend.run_node(node, [a, b])
    np.testing.assert_array_equal(c, a + b)


def test_shapes_among_the_inputs_are_compiled_for_each_value():
    prepared = onnx_backend.prepare(model_of(RESHAPE))
    assert prepared.is_specialised
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape in ((3, 2), (6, 1), (3, 2)):
        (y,) = prepared.run([x, np.array(shape, np.int64)])
        np.testing.assert_array_equal(y, -x.reshape(shape))


def test_what_weft_lacks_is_refused_while_preparing():
    model = model_of("agraph (uint8[2, 2] x) => (uint8[n] y) { y = com.acme.Fancy(x) }")
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    with pytest.raises(UnsupportedError, match="got Fancy"):
        onnx_backend.prepare(model)


def test_missing_inputs_are_refused():
    model = model_of("agraph (float[1] x) => (float[1] y) { y = Neg(x) }")
    with pytest.raises(InputError, match="requires 1 inputs, got 0"):
        onnx_backend.run_model(model, [])


def test_supports_the_cpu_alone():
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA:0")
