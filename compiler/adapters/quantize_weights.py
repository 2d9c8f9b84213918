"""An ONNX model -> one whose products read weights of a few bits, to the nearest, in blocks that
have a scale each: `com.microsoft.MatMulNBits`, which onnxruntime takes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import onnx
from msgspec import Struct
from msgspec.structs import replace
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.machine.artifact.replace_file import replacing
from weft.dialects.errors import OptionError

Array = npt.NDArray[Any]

DOMAIN: Final = "com.microsoft"
PRODUCTS: Final = ("MatMul", "Gemm")
LEVELS: Final = {"float": 0, "int8": 4}
"""The operator's accuracy level for each form of the activations."""

SHOWN: Final = 8
"""Names that a message lists."""

LARGEST_FILE: Final = 1 << 31
"""Bytes from which on protobuf needs the weights in a file of their own."""


class Format(Struct, frozen=True):
    """Bits of a weight, weights of a block, and what they are multiplied with."""

    bits: int
    block: int
    activations: str = "float"


class Layer(Struct, frozen=True):
    """A product that was quantised: its node, the weights' name and dims, how many decibels they
    are above what rounding took from them (None for none), the largest difference, and bytes
    before and after.
    """

    node: str
    weight: str
    terms: int
    columns: int
    snr_db: float | None
    largest_error: float
    bytes_before: int
    bytes_after: int


class Kept(Struct, frozen=True):
    """A product that stays as it is, and why."""

    node: str
    reason: str


class Quantized(Struct, frozen=True):
    """The model, its layers from the worst on, and what stays."""

    model: ModelProto
    layers: Sequence[Layer]
    kept: Sequence[Kept]


class Blocks(Struct, frozen=True):
    """A matrix `[columns, terms]` in blocks: codes as MatMulNBits has them, and scales."""

    codes: Array
    scales: Array

    @property
    def bytes(self) -> int:
        """In memory and in a file."""
        return self.codes.nbytes + self.scales.nbytes


def round_to_nearest(matrix: Array, form: Format) -> tuple[Blocks, Array]:
    """The blocks of a matrix `[columns, terms]`, and what they stand for. The element of the
    greatest magnitude becomes the lowest code, of which there is one more than on the other side.
    """
    columns, terms = matrix.shape
    count = -(-terms // form.block)
    padded = np.zeros((columns, count * form.block), np.float32)
    padded[:, :terms] = matrix
    blocks = padded.reshape(columns, count, form.block)
    half = 1 << (form.bits - 1)
    at = np.abs(blocks).argmax(-1, keepdims=True)
    scales = (np.take_along_axis(blocks, at, -1) / -half).astype(matrix.dtype)
    steps = scales.astype(np.float32)
    levels = np.zeros_like(blocks)
    np.divide(blocks, steps, out=levels, where=steps != 0)
    levels = np.clip(np.rint(levels), -half, half - 1)
    real = (levels * steps).reshape(columns, -1)[:, :terms]
    codes = (levels + half).astype(np.uint8)
    fields = codes.reshape(columns, count, -1, 8 // form.bits)
    packed = np.zeros(fields.shape[:-1], np.uint8)
    for n in range(8 // form.bits):
        packed |= fields[..., n] << (form.bits * n)
    return Blocks(packed, scales[..., 0]), real


def quantize(loaded: LoadedModel, form: Format, keep: Sequence[str] = ()) -> Quantized:
    """The model with every product of constant weights quantised, but for nodes that are named in
    `keep`. Raises OptionError for a name that no product has, and where none is left.
    """
    nodes = list(loaded.proto.graph.node)
    names = {node_name(node) for node in nodes if _is_product(node)}
    unknown = sorted(set(keep) - names)
    if unknown:
        rule = "--keep requires the name of a MatMul or Gemm"
        some = ", ".join([*sorted(names)[:SHOWN], *(["..."] if len(names) > SHOWN else [])])
        raise OptionError(f"{loaded.name}: {rule} ({some}), got {', '.join(unknown)}")
    writer = _Writer(loaded, form)
    kept: list[Kept] = []
    written: list[NodeProto] = []
    for node in nodes:
        if not _is_product(node):
            written.append(node)
            continue
        reason = "--keep" if node_name(node) in keep else writer.reason(node)
        if reason is None:
            written += writer.replace(node)
        else:
            kept.append(Kept(node_name(node), reason))
            written.append(node)
    if not writer.layers:
        reasons = "; ".join(f"{each.node}: {each.reason}" for each in kept[:3]) or "no products"
        rule = "weft quantize requires a MatMul or Gemm of constant weights"
        raise OptionError(f"{loaded.name}: {rule}, got {reasons}")
    layers = sorted(writer.layers, key=lambda each: np.inf if each.snr_db is None else each.snr_db)
    return Quantized(writer.model(written), layers, kept)


def _is_product(node: NodeProto) -> bool:
    return node.op_type in PRODUCTS and node.domain in ("", "ai.onnx")


def node_name(node: NodeProto) -> str:
    """The node's name, or that of its result."""
    return node.name or node.output[0]


class _Writer:
    """The model under construction."""

    def __init__(self, loaded: LoadedModel, form: Format):
        self.loaded, self.form = loaded, form
        self.layers: list[Layer] = []
        self.blocks: dict[tuple[str, bool], tuple[list[str], Layer]] = {}
        self.added: list[TensorProto] = []
        taken = [name for node in loaded.proto.graph.node for name in node.output]
        self.taken = {
            *taken,
            *loaded.initializers,
            *(each.name for each in loaded.proto.graph.input),
        }

    def reason(self, node: NodeProto) -> str | None:
        """Why a product stays as it is; None for one that is quantised."""
        weights = self.loaded.initializers.get(node.input[1])
        attributes = _numbers(node)
        if weights is None:
            return "its weights are no constant"
        if len(weights.tensor.dims) != 2:
            return f"its weights are no matrix but of rank {len(weights.tensor.dims)}"
        if weights.tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
            name = TensorProto.DataType.Name(weights.tensor.data_type).lower()
            return f"its weights are of {name}"
        if attributes.get("transA") or any(attributes.get(each, 1.0) != 1 for each in _SCALES):
            return "it is a Gemm with transA, alpha or beta"
        terms = weights.tensor.dims[1 if attributes.get("transB") else 0]
        if terms < self.form.block:
            return f"its sums are of {terms} terms, less than a block"
        return None if self._is_finite(node.input[1]) else "its weights are not all finite"

    def _is_finite(self, name: str) -> bool:
        return bool(np.isfinite(self.loaded.array(name)).all())

    def replace(self, node: NodeProto) -> Iterator[NodeProto]:
        """The nodes that take the place of a product."""
        transposed = bool(_numbers(node).get("transB"))
        names, layer = self._weights(node.input[1], transposed)
        self.layers.append(replace(layer, node=node_name(node)))
        addend = node.input[2] if len(node.input) > 2 and node.input[2] else None
        result = node.output[0] if addend is None else self._unused(f"{node.output[0]}_product")
        yield helper.make_node(
            "MatMulNBits",
            [node.input[0], *names],
            [result],
            name=node.name,
            domain=DOMAIN,
            K=layer.terms,
            N=layer.columns,
            bits=self.form.bits,
            block_size=self.form.block,
            accuracy_level=LEVELS[self.form.activations],
        )
        if addend is not None:
            name = f"{node.name}_bias" if node.name else ""
            yield helper.make_node("Add", [result, addend], [node.output[0]], name=name)

    def _weights(self, name: str, transposed: bool) -> tuple[list[str], Layer]:
        """The names of the codes and the scales of a weight, quantised once, and its layer."""
        if (name, transposed) not in self.blocks:
            stored = self.loaded.array(name)
            matrix = stored if transposed else stored.T
            blocks, real = round_to_nearest(np.ascontiguousarray(matrix), self.form)
            names = [self._unused(f"{name}_{part}") for part in ("codes", "scales")]
            for each, array in zip(names, (blocks.codes, blocks.scales), strict=True):
                self.added.append(numpy_helper.from_array(array, each))
            columns, terms = matrix.shape
            errors = matrix.astype(np.float64) - real
            layer = Layer(
                "",
                name,
                terms,
                columns,
                _decibels(matrix, errors),
                float(np.abs(errors).max()),
                stored.nbytes,
                blocks.bytes,
            )
            self.blocks[name, transposed] = names, layer
        return self.blocks[name, transposed]

    def _unused(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def model(self, nodes: Sequence[NodeProto]) -> ModelProto:
        """The model with other nodes, and the initialisers that these, results or the bodies of
        control flow use.
        """
        made = ModelProto()
        made.CopyFrom(self.loaded.proto)
        del made.graph.node[:]
        made.graph.node.extend(nodes)
        used = set(_used_names(made.graph))
        for name in self.loaded.initializers:
            if name in used:
                tensor = numpy_helper.from_array(np.array(self.loaded.array(name)), name)
                made.graph.initializer.append(tensor)
        made.graph.initializer.extend(self.added)
        if all(each.domain != DOMAIN for each in made.opset_import):
            made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return made


_SCALES: Final = ("alpha", "beta")


def _numbers(node: NodeProto) -> dict[str, float]:
    """A node's attributes that are numbers."""
    return {
        each.name: each.f if each.type == AttributeProto.FLOAT else each.i
        for each in node.attribute
        if each.type in (AttributeProto.FLOAT, AttributeProto.INT)
    }


def _decibels(matrix: Array, errors: Array) -> float | None:
    """Signal to noise; None where nothing was lost."""
    noise = float(np.square(errors).sum())
    signal = float(np.square(matrix.astype(np.float64)).sum())
    return None if noise == 0 else round(float(10 * np.log10(signal / noise)), 2)


def _used_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (each.name for each in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _used_names(inner)


def save(model: ModelProto, path: Path) -> None:
    """Writes a model, of two gigabytes or more with its weights in `<path>.data`."""
    if sum(len(each.raw_data) for each in model.graph.initializer) >= LARGEST_FILE - (1 << 24):
        write = cast(Any, onnx).save_model
        write(model, path, save_as_external_data=True, location=f"{path.name}.data")
        return
    with replacing(path) as out:
        out.write(model.SerializeToString())
