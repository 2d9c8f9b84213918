"""Strings in ONNX models: compiled code holds none, so operators on them are evaluated here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.node import decode
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.weights import Array

STRING_ATTRIBUTES = frozenset({"value_string", "value_strings", "values_strings"})
"""Attributes whose text becomes elements of a result."""

_EVALUATION_ERRORS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError)
"""What ONNX's evaluator raises for operands that it does not expect."""


class Strings:
    """The tensors of strings that are known, by ONNX name."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self._arrays: dict[str, Array] = {}

    def get(self, name: str) -> Array | None:
        """The elements of a tensor of strings, None for any other value."""
        initializer = self.model.initializers.get(name)
        if name in self._arrays or initializer is None:
            return self._arrays.get(name)
        if initializer.tensor.data_type != TensorProto.STRING:
            return None
        stored = tensor_array(initializer.tensor)
        texts = np.array([decode(text) for text in stored.reshape(-1).tolist()], np.object_)
        self._arrays[name] = texts.reshape(stored.shape)
        return self._arrays[name]

    def concern(self, node: NodeProto) -> bool:
        """Whether the node reads strings, or gives some."""
        return any(self.get(name) is not None for name in node.input) or _yields_strings(node)

    def define(self, name: str, array: Array) -> bool:
        """Whether the elements are strings, which are then known by the name."""
        if array.dtype.kind not in "OUT":
            return False
        self._arrays[name] = array.astype(np.object_)
        return True

    def evaluate(self, node: NodeProto, operands: Sequence[Array | None]) -> Sequence[Array]:
        """The results by ONNX's reference evaluator; raises ModelError where it gives none."""
        # Brings in all of ONNX's evaluator, which few models need.
        from onnx.reference import ReferenceEvaluator

        given = dict(zip(node.input, operands, strict=True))
        feeds = {name: array for name, array in given.items() if array is not None}
        try:
            evaluator = cast(Any, ReferenceEvaluator)(self._model_of(node, feeds))
            results: list[Any] = evaluator.run(None, feeds)
        except _EVALUATION_ERRORS as error:
            got = " ".join(str(error).split())[:200]
            raise ModelError(f"requires operands that it can be evaluated on, got {got}") from error
        if any(not isinstance(result, (np.ndarray, np.generic)) for result in results):
            raise UnsupportedError("requires tensors of strings, got sequences of them")
        return [np.asarray(result) for result in results]

    def _model_of(self, node: NodeProto, feeds: dict[str, Array]) -> ModelProto:
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "strings", inputs, outputs)
        return helper.make_model(graph, opset_imports=list(self.model.proto.opset_import))


def _yields_strings(node: NodeProto) -> bool:
    return any(
        attribute.name in STRING_ATTRIBUTES
        or (attribute.type == AttributeProto.TENSOR and attribute.t.data_type == TensorProto.STRING)
        or (node.op_type == "Cast" and attribute.i == TensorProto.STRING)
        for attribute in node.attribute
    )
