"""A `.pt2` file of torch.export -> graph: a zip of the program as JSON and raw weights."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from copy import copy
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from xdsl.ir import Attribute

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair
from weft.compiler.frontend.torch.graph import AtenGraph, Body
from weft.compiler.frontend.torch.operands import AtenTable
from weft.compiler.frontend.torch.ops.complex_numbers import ComplexElement, on_parts
from weft.compiler.frontend.torch.sizes import parse_size
from weft.compiler.frontend.torch.table import ATEN
from weft.dialects.errors import ModelError, UnsupportedError, WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    UI8,
    UI16,
)
from weft.dialects.weights import Array

SCHEMA: Final = 8
"""The major version of the program's schema."""

_ELEMENTS: Final[Mapping[int, Attribute | ComplexElement]] = {
    1: UI8, 2: I8, 3: I16, 4: I32, 5: I64, 6: F16, 7: F32, 8: F64, 12: BOOL, 13: BF16, 28: UI16,
    9: ComplexElement(F16), 10: ComplexElement(F32), 11: ComplexElement(F64),
}  # fmt: skip
_IGNORED: Final = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "implicit")
_CHECKS: Final = (
    "torch.ops.aten._assert_tensor_metadata.default", "torch.ops.aten._assert_scalar.default",
    "torch.ops.aten.sym_constrain_range_for_size.default",
    "torch.ops.aten.sym_constrain_range.default",
)  # fmt: skip
"""What computes nothing."""
_CONTROL: Final = "higher_order."
"""What names of control flow begin with."""
_MALFORMED: Final = (
    zipfile.BadZipFile, LookupError, StopIteration, TypeError, ValueError, AttributeError,
    RecursionError,
)  # fmt: skip
"""What reading a program raises that has other parts, or parts of other types, than the schema."""
_VIEWS: Final = frozenset(
    f"torch.ops.aten.{name}"
    for name in (
        "view.default", "reshape.default", "expand.default", "permute.default", "transpose.int",
        "t.default", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
        "slice.Tensor", "select.int", "diagonal.default", "alias.default", "detach.default",
        "split_with_sizes.default", "split.Tensor", "unbind.int", "chunk.default",
        "as_strided.default", "flatten.using_ints", "unflatten.int", "narrow.default",
        "contiguous.default", "dropout.default", "to.dtype", "expand_as.default",
    )
)  # fmt: skip
"""Operators whose results may be the memory of their operand."""


def read_pt2(source: Path | bytes, name: str, table: AtenTable = ATEN) -> ImportedModel:
    """Reads a program with its weights.

    Raises ModelError for a file that is no such program, UnsupportedError that lists every operator
    that weft lacks.
    """
    try:
        with zipfile.ZipFile(BytesIO(source) if isinstance(source, bytes) else source) as archive:
            return _Reader(archive, name, table).read()
    except _MALFORMED as error:
        rule = "a .pt2 file requires a program of torch.export"
        raise ModelError(f"{name}: {rule}, got {type(error).__name__}: {error}") from error


class _Reader:
    """One program."""

    def __init__(self, archive: zipfile.ZipFile, name: str, table: AtenTable) -> None:
        self._archive = archive
        self._name = name
        path = next(each for each in archive.namelist() if each.endswith("models/model.json"))
        self._root = path.removesuffix("models/model.json")
        self._program = json.loads(self._bytes(path))
        version = self._program["schema_version"]["major"]
        if version != SCHEMA:
            rule = f"requires a program of schema {SCHEMA}"
            raise UnsupportedError(f"{name} {rule}, got {version}")
        self._graph = self._program["graph_module"]["graph"]
        self._out = AtenGraph(name, table)
        self._values: dict[str, Any] = {}
        self._failures: list[str] = []

    def _bytes(self, path: str) -> bytes:
        """A part of the file, stored as it is, so that none is larger than the file."""
        if self._archive.getinfo(path).compress_type != zipfile.ZIP_STORED:
            raise ModelError(f"{self._name} requires parts that are not compressed, got {path}")
        return self._archive.read(path)

    def read(self) -> ImportedModel:
        """The program as a graph."""
        signature = self._program["graph_module"]["signature"]
        self._changed = {
            content["buffer_name"]
            for spec in signature["output_specs"]
            for sort, content in spec.items()
            if sort == "buffer_mutation"
        }
        for spec in sorted(signature["input_specs"], key=self._is_changed):
            self._input(spec)
        for position, node in enumerate(self._graph["nodes"]):
            self._node(position, node)
        if self._failures:
            listed = "; ".join(dict.fromkeys(self._failures))
            raise UnsupportedError(f"{self._name}: {len(self._failures)} nodes: {listed}")
        outputs: dict[str, Term | Pair] = {}
        donated: dict[str, str] = {}
        for spec in sorted(signature["output_specs"], key=lambda each: "user_output" not in each):
            self._output(spec, outputs, donated)
        return self._out.imported(outputs, self._bounds(), donated)

    def _bounds(self) -> dict[str, tuple[int, int]]:
        """The least and greatest value of the sizes of inputs that have both."""
        ranges = self._program.get("range_constraints", {})
        pairs = {name: (each["min_val"], each["max_val"]) for name, each in ranges.items()}
        return {
            name: (low, high)
            for name, (low, high) in pairs.items()
            if name in self._out.sizes and low is not None and high is not None and low >= 0
        }

    def _is_changed(self, spec: Mapping[str, Any]) -> bool:
        """Whether an input is a buffer that the program changes: callers hand it in last."""
        return spec.get("buffer", {}).get("buffer_name") in self._changed

    def _input(self, spec: Mapping[str, Any]) -> None:
        (sort, content), *_ = spec.items()
        if sort == "user_input":
            argument = content["arg"]
            if "as_tensor" in argument:
                name = argument["as_tensor"]["name"]
                dims, element = self._type(name)
                self._values[name] = self._out.input(name, element, dims)
            return
        keys = {"parameter": "parameter_name", "buffer": "buffer_name",
                "tensor_constant": "tensor_constant_name"}  # fmt: skip
        if sort not in keys:
            raise UnsupportedError(f"{self._name} requires tensors as inputs, got a {sort}")
        key = content[keys[sort]]
        if self._is_changed(spec):
            dims, element = self._type(content["arg"]["name"])
            self._values[content["arg"]["name"]] = self._out.input(key, element, dims)
            return
        self._values[content["arg"]["name"]] = self._out.constant(key, self._weight(key))

    def _weight(self, key: str) -> Array:
        """A tensor of the state: its storage, read by its strides."""
        for folder, config in (("weights", "model_weights"), ("constants", "model_constants")):
            path = f"{self._root}data/{folder}/{config}_config.json"
            if path not in self._archive.namelist():
                continue
            found = json.loads(self._bytes(path))["config"].get(key)
            if found is not None:
                if found["use_pickle"]:
                    raise UnsupportedError(f"{self._name} requires raw weights, got {key} pickled")
                data = self._bytes(f"{self._root}data/{folder}/{found['path_name']}")
                return self._strided(key, data, found["tensor_meta"])
        raise ModelError(f"{self._name} requires a value of {key}, got none")

    def _strided(self, key: str, data: bytes, meta: Mapping[str, Any]) -> Array:
        element = self._element(meta["dtype"])
        if isinstance(element, ComplexElement):
            raise UnsupportedError(f"{self._name} requires weights of reals, got complex {key}")
        dtype = numpy_dtype(element)
        sizes = [each["as_int"] for each in meta["sizes"]]
        steps = [each["as_int"] for each in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        if min((offset, *sizes, *steps)) < 0:
            got = f"{sizes}, {steps} and {offset}"
            raise ModelError(f"{self._name} requires sizes and strides of {key} from 0, got {got}")
        flat = np.frombuffer(data, dtype)
        last = offset + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        if 0 not in sizes and not 0 <= last < flat.size:
            offset = 0  # weights are written without what is around them
            last = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        if 0 not in sizes and last >= flat.size:
            rule = f"requires {last + 1} elements of {key}"
            raise ModelError(f"{self._name} {rule}, got {flat.size}")
        strides = [step * dtype.itemsize for step in steps]
        return np.lib.stride_tricks.as_strided(flat[offset:], sizes, strides, writeable=False)

    def _element(self, number: int) -> Attribute | ComplexElement:
        if number not in _ELEMENTS:
            rule = "requires numbers or bools"
            raise UnsupportedError(f"{self._name} {rule}, got torch's type {number}")
        return _ELEMENTS[number]

    def _type(self, name: str) -> tuple[list[Expr], Attribute | ComplexElement]:
        meta = self._graph["tensor_values"][name]
        return [self._size(each) for each in meta["sizes"]], self._element(meta["dtype"])

    def _size(self, size: Mapping[str, Any]) -> Expr:
        if "as_int" in size:
            return Expr.of(size["as_int"])
        return parse_size(size["as_expr"]["expr_str"])

    def _node(self, position: int, node: Mapping[str, Any]) -> None:
        """What a node computes; its failure is noted, and its results have the types that the
        program says.
        """
        target, outputs = node["target"], node["outputs"]
        if target in _CHECKS:
            return
        if outputs and all("as_sym_int" in each for each in outputs):
            for each in outputs:
                name = each["as_sym_int"]["as_name"]
                self._values[name] = self._size(self._graph["sym_int_values"][name])
            return
        names = _output_names(outputs)
        try:
            self._require_functional(position, node)
            given = [self._argument(e["arg"]) for e in node["inputs"] if e.get("kind", 1) == 1]
            named = {
                e["name"]: self._argument(e["arg"])
                for e in node["inputs"]
                if e.get("kind", 1) == 2 and e["name"] not in _IGNORED
            }
            overload = _functional(target.removeprefix("torch.ops."))
            found = (
                self._out.control(overload.removeprefix(_CONTROL), given, node["name"])
                if overload.startswith(_CONTROL)
                else self._out.call(overload, given, named, node["name"])
            )
            results = [found] if isinstance(found, Term | Pair) else list(found)
            for name, value in zip(names, results, strict=False):
                if name is not None and value is not None:
                    self._values[name] = self._checked(name, value)
        except WeftError as error:
            self._failures.append(f"{node['name']}: {error}")
            for name in names:
                if name is not None:
                    dims, element = self._type(name)
                    self._values[name] = self._out.input(name, element, dims)

    def _require_functional(self, position: int, node: Mapping[str, Any]) -> None:
        """An operator that writes its operand computes a new value, where nobody else sees the old
        one.
        """
        target = node["target"]
        if _functional(target) == target:
            return
        written = node["inputs"][0]["arg"].get("as_tensor", {}).get("name")
        nodes = self._graph["nodes"]
        later = json.dumps([nodes[position + 1 :], self._graph["outputs"]])
        source = next((each for each in nodes if written in _output_names(each["outputs"])), None)
        mention = f'{{"name": "{written}"}}'
        views = any(
            each["target"] in _VIEWS and mention in json.dumps(each["inputs"])
            for each in nodes[:position]
        )
        if source is None or views or mention in later or source["target"] in _VIEWS:
            advice = "ExportedProgram.run_decompositions() makes one"
            raise UnsupportedError(
                f"{target} requires a program without writes into {written} ({advice})"
            )

    def _checked(self, name: str, found: Term | Pair) -> Term | Pair:
        dims, element = self._type(name)
        pairs = zip(found.shape, dims, strict=False)
        if len(dims) != len(found.shape) or any((one - other).constant for one, other in pairs):
            got = f"{list(map(str, found.shape))}, torch {list(map(str, dims))}"
            raise UnsupportedError(f"{name} requires equal shapes, got {got}")
        if isinstance(element, ComplexElement) != isinstance(found, Pair):
            raise UnsupportedError(f"{name} requires the elements that the program says")
        of_parts = element.part if isinstance(element, ComplexElement) else element
        return on_parts(found, lambda part: part.cast(of_parts))

    def _argument(self, argument: Mapping[str, Any]) -> Any:
        (sort, value), *_ = argument.items()
        match sort:
            case "as_none" | "as_device" | "as_layout" | "as_memory_format":
                return None
            case "as_tensor":
                return self._values[value["name"]]
            case "as_tensors":
                return [self._values[each["name"]] for each in value]
            case "as_optional_tensors":
                return [
                    self._values[e["as_tensor"]["name"]] if "as_tensor" in e else None
                    for e in value
                ]
            case "as_sym_int":
                return self._symbolic(value)
            case "as_sym_ints":
                return [self._symbolic(each) for each in value]
            case "as_graph":
                return self._region(value["graph"])
            case "as_scalar_type":
                return self._element(value)
            case (
                "as_int"
                | "as_ints"
                | "as_float"
                | "as_floats"
                | "as_bool"
                | "as_bools"
                | "as_string"
            ):
                return float(value) if sort == "as_float" else value
            case _:
                raise UnsupportedError(f"requires tensors and numbers, got {sort[3:]}")

    def _region(self, graph: Mapping[str, Any]) -> Body:
        """What fills a region of control flow."""

        def body(inner: AtenGraph, arguments: Sequence[Any]) -> Sequence[Term]:
            region = copy(self)
            region._graph, region._out, region._values = graph, inner, {}
            for given, value in zip(graph["inputs"], arguments, strict=True):
                (content,) = given.values()
                region._values[content.get("name") or content.get("as_name")] = value
            for position, node in enumerate(graph["nodes"]):
                region._node(position, node)
            return [region._argument(each) for each in graph["outputs"]]

        return body

    def _symbolic(self, value: Mapping[str, Any]) -> Any:
        return self._values[value["as_name"]] if "as_name" in value else value["as_int"]

    def _output(
        self, spec: Mapping[str, Any], outputs: dict[str, Term | Pair], donated: dict[str, str]
    ) -> None:
        (sort, content), *_ = spec.items()
        if sort in ("buffer_mutation", "user_input_mutation"):
            source = content.get("buffer_name") or content["user_input_name"]
            donated[source] = f"{source}_next"
            outputs[donated[source]] = self._values[content["arg"]["name"]]
            return
        if sort != "user_output":
            raise UnsupportedError(f"{self._name} requires tensors as outputs, got a {sort}")
        argument = content["arg"]
        if "as_tensor" in argument:
            name = argument["as_tensor"]["name"]
            unique = name if name not in outputs else f"{name}_{len(outputs)}"
            outputs[unique] = self._values[name]
        elif "as_none" not in argument:
            got = next(iter(argument)).removeprefix("as_")
            raise UnsupportedError(f"{self._name} requires tensors as outputs, got {got}")


def _output_names(outputs: Sequence[Mapping[str, Any]]) -> list[str | None]:
    names: list[str | None] = []
    for each in outputs:
        if "as_tensor" in each:
            names.append(each["as_tensor"]["name"])
        elif "as_tensors" in each:
            names += [tensor["name"] for tensor in each["as_tensors"]]
        else:
            names.append(None)
    return names


def _functional(target: str) -> str:
    """`aten.add_.Tensor` -> `aten.add.Tensor`."""
    path, _, overload = target.rpartition(".")
    return f"{path.removesuffix('_')}.{overload}" if not path.endswith("__") else target
