"""ONNX names and declared types -> names and types of the graph level."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx import ModelProto, TensorShapeProto, TypeProto, ValueInfoProto

from weft.compiler.frontend.onnx.node import onnx_element, onnx_number
from weft.dialects.errors import ExtentError, ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.expr_text import RESERVED
from weft.dialects.graph.core.types import TensorType, tensor


def name_hint(name: str) -> str | None:
    """The ONNX name as IR text allows it: `/layer1.0/conv` becomes `layer1.0_conv`."""
    text = re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_.")
    if not text:
        return None
    return f"v{text}" if text[0].isdigit() else text


class SymbolNames:
    """Gives each `dim_param` of a model an identifier, and unnamed dims one of their own; those of
    `sizes` are these numbers.
    """

    def __init__(self, model: ModelProto, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = dict(sizes or {})
        self._names: dict[str, str] = {}
        self._taken = set(RESERVED)
        for value in model.graph.input:  # names that need no change come first
            for dim in value.type.tensor_type.shape.dim:
                if _identifier(dim.dim_param) == dim.dim_param and dim.dim_param not in RESERVED:
                    self._names[dim.dim_param] = dim.dim_param
                    self._taken.add(dim.dim_param)

    def dim(self, dim: TensorShapeProto.Dimension, owner: str, axis: int) -> Expr:
        """The size of one dimension of the input `owner`."""
        if dim.HasField("dim_value"):
            return Expr.of(dim.dim_value)
        parameter = dim.dim_param
        if not parameter.strip("? "):
            name = self.fresh(f"{owner}_dim{axis}")
            return Expr.of(self._sizes.get(name, name))
        if parameter not in self._names:
            self._names[parameter] = self.fresh(parameter)
        name = self._names[parameter]
        return Expr.of(self._sizes.get(name, name))

    def fresh(self, text: str) -> str:
        """An identifier that no other size has, made of the text."""
        stem = name = _identifier(text)
        count = 0
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def _identifier(text: str) -> str:
    """`d0` and its like are formal operands in attributes and become `dim_d0`."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "dim"
    return f"dim_{name}" if re.match(r"\d|d\d+$", name) else name


def input_type(value: ValueInfoProto, symbols: SymbolNames) -> TensorType:
    """The type of a graph input; raises UnsupportedError for all but tensors of known rank."""
    who, dims = f"input '{value.name}'", input_dims(value, symbols)
    try:
        element = onnx_element(value.type.tensor_type.elem_type)
    except UnsupportedError as error:
        raise UnsupportedError(f"{who}: {error}") from error
    try:
        return tensor(dims, element)
    except ExtentError as error:
        raise ModelError(f"{who}: {error}") from error


def input_dims(value: ValueInfoProto, symbols: SymbolNames) -> list[Expr]:
    """The dims of a graph input; raises UnsupportedError for all but tensors of known rank."""
    case = value.type.WhichOneof("value")
    if case != "tensor_type":
        raise UnsupportedError(f"input '{value.name}' requires a tensor type, got {case}")
    declared = value.type.tensor_type
    if not declared.HasField("shape"):
        raise UnsupportedError(f"input '{value.name}' requires a known rank, got none")
    return [symbols.dim(dim, value.name, axis) for axis, dim in enumerate(declared.shape.dim)]


def type_proto(tensor_type: TensorType) -> TypeProto:
    """The ONNX type of a graph value, for operators whose function body depends on it."""
    proto = TypeProto()
    proto.tensor_type.elem_type = onnx_number(tensor_type.element)
    if tensor_type.has_rank:
        proto.tensor_type.shape.SetInParent()
        for dim in tensor_type.shape:
            field = proto.tensor_type.shape.dim.add()
            if dim.constant is None:
                field.dim_param = str(dim)
            else:
                field.dim_value = dim.constant
    return proto
