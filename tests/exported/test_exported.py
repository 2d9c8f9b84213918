"""A sample of the exported architectures; all of them: `python -m tests.exported`."""

import pytest

pytest.importorskip("torch", reason="the models are PyTorch's")
pytest.importorskip("transformers", reason="the architectures are of the transformers package")
pytest.importorskip("torchvision", reason="the architectures are of the torchvision package")
pytest.importorskip("onnxscript", reason="torch.onnx exports through it")

from tests.exported.checking import TOLERANCE, compare


@pytest.mark.parametrize(
    ("name", "exporter"), [("llama", "dynamo"), ("t5", "script"), ("mobilenet_v3", "dynamo")]
)
def test_weft_agrees_with_onnxruntime(name: str, exporter: str) -> None:
    assert compare(name, exporter) <= TOLERANCE
