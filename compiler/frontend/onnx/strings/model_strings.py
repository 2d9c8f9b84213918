"""Strings in ONNX models: operators on known ones are evaluated here; those that a call brings or
makes are spans of bytes, and numbers of the model's vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.strings.vocabulary import Vocabulary, tensor_texts
from weft.compiler.frontend.onnx.values import Spans
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.weights import Array

STRING_ATTRIBUTES = frozenset({"value_string", "value_strings", "values_strings"})
"""Attributes whose text becomes elements of a result."""

MOVES = frozenset(
    {
        "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather",
        "GatherElements", "GatherND", "Concat", "Split", "Expand", "Tile", "Where", "Compress",
        "ReverseSequence", "ArrayFeatureExtractor",
    }
)  # fmt: skip
"""Operators that move strings and look at none."""

MEASURES = frozenset({"Shape", "Size"})
"""Operators that look at a tensor's dims alone."""

LOOKS_UP = frozenset({"LabelEncoder", "OneHotEncoder", "CategoryMapper", "TfIdfVectorizer"})
"""Operators that compare strings with the model's own."""

READS = frozenset(
    {
        "Equal", "Unique", "StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch",
        "Tokenizer",
    }
)  # fmt: skip
"""Operators that look at the strings themselves."""

_EVALUATION_ERRORS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError)
"""What ONNX's evaluator raises for operands that it does not expect."""


class Strings:
    """The tensors of strings that are known, by ONNX name, and those that a call brings or makes:
    the names of such as stand in the model, and the spans of others. Both are numbers of the
    vocabulary.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self._arrays: dict[str, Array] = {}
        self.spans: dict[str, Spans] = {}
        self._numbered: set[str] = set()
        self._vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's own strings."""
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(self.model)
        return self._vocabulary

    def get(self, name: str) -> Array | None:
        """The elements of a tensor of strings, None for any other value."""
        initializer = self.model.initializers.get(name)
        if name in self._arrays or initializer is None:
            return self._arrays.get(name)
        if initializer.tensor.data_type != TensorProto.STRING:
            return None
        self._arrays[name] = tensor_texts(initializer.tensor)
        return self._arrays[name]

    def concern(self, node: NodeProto) -> bool:
        """Whether the node reads known strings, or makes some of what is no string."""
        reads = any(self.get(name) is not None for name in node.input)
        return reads or (node.op_type not in LOOKS_UP and _yields_strings(node))

    def read_numbers(self, node: NodeProto) -> bool:
        """Whether the node reads strings that are numbers."""
        return any(map(self.are_numbers, node.input))

    def is_known(self, name: str) -> bool:
        """Whether a value is strings that are known while compiling."""
        return self.get(name) is not None

    def are_numbers(self, name: str) -> bool:
        """Whether a value is numbers of strings."""
        return name in self.spans or name in self._numbered

    def note_numbers(self, name: str) -> None:
        """Says that a value is numbers of strings that the model has."""
        self._numbered.add(name)

    def require_readable(self, node: NodeProto) -> None:
        """Raises UnsupportedError for a node that cannot take strings of a call."""
        if node.op_type not in MOVES | MEASURES | LOOKS_UP | READS:
            name = next(name for name in node.input if self.are_numbers(name))
            rule = "requires strings that are known while compiling"
            raise UnsupportedError(f"{rule}, got those of '{name}'")

    def note_moved(self, node: NodeProto) -> None:
        """Notes which outputs are strings as operands are."""
        if node.op_type in MOVES or node.op_type == "Unique":
            moved = node.output if node.op_type in MOVES else node.output[:1]
            self._numbered.update(filter(None, moved))

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
