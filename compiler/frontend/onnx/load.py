"""An ONNX file, bytes or ModelProto -> a checked LoadedModel whose weights stay where they were."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import DecodeError, Message
from msgspec import Struct
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from weft.compiler.frontend.imported import Source
from weft.compiler.frontend.onnx.check import check_model
from weft.compiler.frontend.onnx.graph import all_graphs, all_nodes, brief, sort_nodes
from weft.compiler.frontend.onnx.tensor import Array, is_stated, tensor_array
from weft.compiler.frontend.onnx.wire import split_model
from weft.dialects.errors import ModelError

# A Constant node above this size is taken out of the graph, so that rewriting nodes never copies
# weights.
INLINE_CONSTANT_BYTES = 1024


class Initializer(Struct, frozen=True):
    """One top-level constant: its value name, its proto, and its bytes where it is stored as such;
    protobuf would copy them anew each time that it is asked for them.
    """

    name: str
    tensor: TensorProto
    payload: memoryview | None = None

    @classmethod
    def of(cls, name: str, tensor: TensorProto) -> Initializer:
        """An initialiser whose bytes are copied out of its proto, once."""
        raw = tensor.raw_data
        return cls(name, tensor, memoryview(raw) if raw else None)


class LoadedModel(Struct, frozen=True):
    """A sound model: nodes sorted, names unique, `proto` without top-level initialisers.

    `proto` belongs to this object and is small. `initializers` holds every top-level constant by
    value name; a graph input with an initialiser counts as that constant and is not among the
    inputs of `proto`. `name` is for messages; `base_dir` is the folder that external data may lie
    in, None if there is none.
    """

    proto: ModelProto
    name: str
    base_dir: Path | None
    initializers: Mapping[str, Initializer]

    def array(self, value_name: str) -> Array:
        """The elements of one initialiser, read-only and perhaps unaligned; nothing is cached."""
        initializer = self.initializers[value_name]
        try:
            return tensor_array(initializer.tensor, self.base_dir, initializer.payload)
        except ModelError as error:
            raise ModelError(f"{self.name}: {brief(error)}") from error

    def whole_proto(self) -> ModelProto:
        """A new ModelProto with all inline initialisers copied into it, for other runtimes."""
        whole = ModelProto()
        whole.CopyFrom(self.proto)
        for initializer in self.initializers.values():
            tensor = whole.graph.initializer.add()
            tensor.CopyFrom(initializer.tensor)
            if initializer.payload is not None:
                tensor.raw_data = bytes(initializer.payload)
            tensor.name = initializer.name
        return whole


def load_model(source: Source, base_dir: str | os.PathLike[str] | None = None) -> LoadedModel:
    """Read and check a model; weights of a file are not copied, and external data is not even
    opened.

    `base_dir` permits external data for a model given as bytes or proto; a file brings its own
    folder. Raises ModelError for a damaged or inconsistent model, UnsupportedError for an opset
    that weft does not know.
    """
    folder = None if base_dir is None else Path(base_dir)
    if isinstance(source, ModelProto):
        return _from_proto(source, "<model>", folder)
    if isinstance(source, bytes):
        return _from_bytes(memoryview(source), "<bytes>", folder)
    path = Path(source)
    return _from_bytes(_map_file(path), str(path), path.parent if folder is None else folder)


def _map_file(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"{path}: a model requires a readable file, got: {reason}") from error


def _from_bytes(data: memoryview, name: str, base_dir: Path | None) -> LoadedModel:
    if not data:
        raise ModelError(f"{name}: a model requires at least a graph, got an empty file")
    split = split_model(data, name)
    try:
        proto = ModelProto.FromString(split.skeleton)
        initializers = [
            Initializer(tensor.name, tensor, payload)
            for tensor, payload in (
                (TensorProto.FromString(header), payload) for header, payload in split.initializers
            )
        ]
    except DecodeError as error:
        rule = "an ONNX file requires a whole protobuf message nested less than 100 deep"
        raise ModelError(f"{name}: {rule}, got: {brief(error)}") from error
    return _from_parsed(proto, initializers, name, base_dir)


def _from_proto(source: ModelProto, name: str, base_dir: Path | None) -> LoadedModel:
    """The caller keeps its proto: all of it is copied, once."""
    initializers = [Initializer.of(tensor.name, tensor) for tensor in source.graph.initializer]
    check_model(source, [(each.tensor, each.payload) for each in initializers], name, base_dir)
    proto = ModelProto()
    _copy_except(source, proto, {"graph"})
    _copy_except(source.graph, proto.graph, {"initializer", "node"})
    for node in source.graph.node:
        constant = _large_constant(node)
        if constant is None:
            proto.graph.node.add().CopyFrom(node)
        else:
            initializers.append(Initializer.of(node.output[0], constant))
    return _assemble(proto, initializers, name, base_dir)


def _from_parsed(
    proto: ModelProto, initializers: list[Initializer], name: str, base_dir: Path | None
) -> LoadedModel:
    check_model(proto, [(each.tensor, each.payload) for each in initializers], name, base_dir)
    for index in range(len(proto.graph.node) - 1, -1, -1):
        node = proto.graph.node[index]
        constant = _large_constant(node)
        if constant is not None:
            initializers.append(Initializer.of(node.output[0], constant))
            del proto.graph.node[index]
    return _assemble(proto, initializers, name, base_dir)


def _assemble(
    proto: ModelProto, initializers: list[Initializer], name: str, base_dir: Path | None
) -> LoadedModel:
    by_name = {each.name: each for each in initializers}
    for index in range(len(proto.graph.input) - 1, -1, -1):
        if proto.graph.input[index].name in by_name:
            del proto.graph.input[index]
    for graph in all_graphs(proto):
        sort_nodes(graph, name)
        _forget_unknown_dims(graph)
    for node in all_nodes(proto):
        if node.domain == "ai.onnx":  # the other spelling of the default domain
            node.domain = ""
    return LoadedModel(proto, name, base_dir, by_name)


def _forget_unknown_dims(graph: GraphProto | FunctionProto) -> None:
    """Dims that state no size become such that say nothing; inputs of functions have none."""
    typed = (*graph.input, *graph.output) if isinstance(graph, GraphProto) else ()
    for value in (*typed, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and not is_stated(dim):
                dim.ClearField("dim_value")


def _large_constant(node: NodeProto) -> TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.t.ByteSize() > INLINE_CONSTANT_BYTES:
            return attribute.t
    return None


def _copy_except(source: Message, target: Message, left_out: set[str]) -> None:
    """Copy all fields of a message but some; `source` is only read."""
    for descriptor, value in source.ListFields():
        if descriptor.name in left_out:
            continue
        if descriptor.is_repeated:
            getattr(target, descriptor.name).MergeFrom(value)
        elif descriptor.message_type is not None:
            getattr(target, descriptor.name).CopyFrom(value)
        else:
            setattr(target, descriptor.name, value)
