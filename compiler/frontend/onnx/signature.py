"""ONNX names and declared types -> names and types of the graph level."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from onnx import ModelProto, TensorShapeProto, TypeProto, ValueInfoProto

from weft.compiler.frontend.onnx.node import onnx_element, onnx_number
from weft.dialects.errors import ExtentError, ModelError, OptionError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.expr_text import RESERVED
from weft.dialects.graph.core.types import TensorType, tensor

RankOf = Callable[[str], int | None]
"""The rank of a value by its name, where anything says it."""


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
        self._fixed: set[str] = set()
        self._named: dict[str, None] = {}
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
            return self._size(self.fresh(f"{owner}_dim{axis}"))
        if parameter not in self._names:
            self._names[parameter] = self.fresh(parameter)
        return self._size(self._names[parameter], parameter)

    def _size(self, name: str, parameter: str = "") -> Expr:
        """The size of that name, which users may also call what the file calls it."""
        given = next((each for each in (name, parameter) if each in self._sizes), None)
        self._named[name] = None
        if given is None:
            return Expr.of(name)
        self._fixed.add(given)
        return Expr.of(self._sizes[given])

    def fix(self, name: str, size: int) -> None:
        """Gives a named size its value, which was found out."""
        self._sizes[name] = size
        self._fixed.add(name)

    def given(self, name: str) -> int | None:
        """The value of a named size that no input has, where the user gives it."""
        if name in self._sizes:
            self._fixed.add(name)
        return self._sizes.get(name)

    def require_fixed(self) -> None:
        """Raises OptionError for values of what turned out to be no named size of the inputs."""
        unknown = [name for name in self._sizes if name not in self._fixed]
        if unknown:
            rule = f"dims require named sizes of the inputs ({', '.join(self._named)})"
            raise OptionError(f"{rule}, got {', '.join(unknown)}")

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


def input_type(value: ValueInfoProto, symbols: SymbolNames, rank_of: RankOf) -> TensorType:
    """The type of a graph input, of a rank that is declared or that `rank_of` knows. Raises
    UnsupportedError for all but tensors of known rank.
    """
    who, dims = f"input '{value.name}'", input_dims(value, symbols, rank_of)
    try:
        element = onnx_element(value.type.tensor_type.elem_type)
    except UnsupportedError as error:
        raise UnsupportedError(f"{who}: {error}") from error
    try:
        return tensor(dims, element)
    except ExtentError as error:
        raise ModelError(f"{who}: {error}") from error


def input_dims(value: ValueInfoProto, symbols: SymbolNames, rank_of: RankOf) -> list[Expr]:
    """The dims of a graph input, as `input_type` finds them."""
    who, case = f"input '{value.name}'", value.type.WhichOneof("value")
    if case != "tensor_type":
        raise UnsupportedError(f"{who} requires a tensor type, got {case}")
    declared = value.type.tensor_type
    shape = declared.shape.dim if declared.HasField("shape") else _open_dims(rank_of(value.name))
    if shape is None:
        rule = "a known rank: dims that the file declares, or a node that needs one rank of it"
        raise UnsupportedError(f"{who} requires {rule}, got none")
    return [symbols.dim(dim, value.name, axis) for axis, dim in enumerate(shape)]


def _open_dims(rank: int | None) -> list[TensorShapeProto.Dimension] | None:
    """So many dims of which nothing is declared."""
    return None if rank is None else [TensorShapeProto.Dimension() for _ in range(rank)]


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
