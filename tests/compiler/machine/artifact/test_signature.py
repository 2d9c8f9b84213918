"""Signatures: what they compute, and their way through JSON."""

import json

import ml_dtypes
import numpy as np
import pytest

from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.dialects.errors import ArtifactError

SIGNATURE = Signature(
    (TensorSpec("x", "bfloat16", ("batch", "2*seq", 4)), TensorSpec("flag", "bool", ())),
    (TensorSpec("y", "float64", (2, 3)),),
    ("batch", "seq"),
)


def test_signature_survives_json():
    assert Signature.from_json(json.loads(json.dumps(SIGNATURE.to_json()))) == SIGNATURE


def test_other_keys_of_the_metadata_are_left_alone():
    assert Signature.from_json(SIGNATURE.to_json() | {"kernels": 3}) == SIGNATURE


def test_static_tensor_knows_its_size():
    tensor = TensorSpec("x", "bfloat16", (2, 3))
    assert (tensor.is_static, tensor.elements, tensor.bytes) == (True, 6, 12)
    assert TensorSpec("scalar", "float64", ()).bytes == 8


def test_symbolic_tensor_has_no_size():
    tensor = TensorSpec("x", "float32", (2, "n"))
    assert (tensor.is_static, tensor.elements, tensor.bytes) == (False, None, None)


def test_dtype_is_found_by_name():
    assert TensorSpec("x", "bfloat16", ()).numpy_dtype == np.dtype(ml_dtypes.bfloat16)
    assert TensorSpec("x", "bool", ()).numpy_dtype == np.dtype(np.bool_)


def test_unknown_dtype_is_refused():
    with pytest.raises(ArtifactError, match=r"requires one of the types .*, got float8 for .* 'x'"):
        TensorSpec("x", "float8", ())


def test_negative_size_is_refused():
    with pytest.raises(ArtifactError, match=r"sizes of at least 0, got \[2, -1\] for tensor 'x'"):
        TensorSpec("x", "float32", (2, -1))


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"inputs": [], "outputs": []},
        {"inputs": {}, "outputs": [], "symbols": []},
        {"inputs": [], "outputs": [], "symbols": [1]},
        {"inputs": [3], "outputs": [], "symbols": []},
        {"inputs": [{"name": "x", "dtype": "float32"}], "outputs": [], "symbols": []},
        {"inputs": [{"name": 1, "dtype": "bool", "dims": []}], "outputs": [], "symbols": []},
        {"inputs": [{"name": "x", "dtype": "bool", "dims": [1.5]}], "outputs": [], "symbols": []},
        {"inputs": [{"name": "x", "dtype": "bool", "dims": [True]}], "outputs": [], "symbols": []},
    ],
)
def test_damaged_signature_is_refused(content: object):
    with pytest.raises(ArtifactError, match="signature requires"):
        Signature.from_json(content)
