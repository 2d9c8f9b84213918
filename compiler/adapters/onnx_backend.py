"""ONNX's `Backend` interface: `onnx_backend.prepare(model).run([x])` compiles a model and runs it.

A model whose shapes depend on the values of inputs is compiled when these are known, once for each:
inputs that may be sizes are taken as constants, and `Prepared.is_specialised` is true. So
is a model that takes sequences or optionals: lists of arrays, None for an optional without value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict
from onnx.defs import onnx_opset_version

from weft.compiler.adapters.onnx_compounds import (
    compound_inputs,
    elements_of,
    gathered,
    with_elements,
)
from weft.compiler.driver.compile_kernels import KernelStore
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import InputError, UnsupportedError
from weft.dialects.weights import Array

LARGEST_CONSTANT = 64
"""Inputs of more elements than this are never taken as constants."""


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(
        self,
        model: ModelProto,
        options: Options,
        threads: int | None = None,
        store: KernelStore | None = None,
    ) -> None:
        self.model = model
        self.options = options
        self.store = store
        self.threads = threads
        constants = {tensor.name for tensor in model.graph.initializer}
        self.input_names = [v.name for v in model.graph.input if v.name not in constants]
        self.output_names = [value.name for value in model.graph.output]
        self._variants: dict[tuple[bytes, ...], tuple[Compiled, Executable]] = {}
        self.compounds = compound_inputs(model)
        self.refusal: UnsupportedError | None = None
        try:
            self._compile((), {}, {})
        except UnsupportedError as error:
            if not self.compounds and not self._bindable():
                raise
            self.refusal = error

    @property
    def is_specialised(self) -> bool:
        """Whether inputs are taken as constants."""
        return self.refusal is not None

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels that were emitted for all variants."""
        objects = [name for compiled, _ in self._variants.values() for name in compiled.objects]
        return [name for name in objects if name not in ("runtime", "levels", "facts", "program")]

    @property
    def has_weights(self) -> bool:
        """Whether any variant has weights, the model's own or results computed while compiling."""
        return any(compiled.metadata["weights"] for compiled, _ in self._variants.values())

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on arrays by position or name; outputs are found by position or name.

        Raises InputError for inputs that do not fit the model.
        """
        given = self._arrange(inputs)
        compounds = {name: given.pop(name) for name in list(given) if name in self.compounds}
        bound = {name: given.pop(name) for name in list(given) if self._is_bound(name, given[name])}
        key = (*map(_content, bound.values()), *map(_form, compounds.values()))
        if key not in self._variants:
            self._compile(key, bound, compounds)
        for name, value in compounds.items():
            given |= elements_of(name, value)
        results = self._variants[key][1].run(given)
        names = self.output_names
        return namedtupledict("Outputs", names)(*gathered(names, self.model, results))

    def _bindable(self) -> list[str]:
        return [name for name in self.input_names if _may_be_constant(self.model, name)]

    def _arrange(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """The inputs by name: arrays, and whatever is given for sequences and optionals."""
        if isinstance(inputs, Mapping):
            return {str(name): self._value(str(name), value) for name, value in inputs.items()}
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(values) != len(self.input_names):
            got = f"{len(self.input_names)} inputs, got {len(values)}"
            raise InputError(f"{self.model.graph.name} requires {got}")
        names = self.input_names
        return {name: self._value(name, x) for name, x in zip(names, values, strict=True)}

    def _value(self, name: str, value: Any) -> Any:
        return value if name in self.compounds else np.asarray(value)

    def _is_bound(self, name: str, array: Array) -> bool:
        return (
            self.is_specialised
            and array.size <= LARGEST_CONSTANT
            and _may_be_constant(self.model, name)
        )

    def _compile(
        self, key: tuple[bytes, ...], bound: Mapping[str, Array], compounds: Mapping[str, Any]
    ) -> None:
        model = with_elements(with_constants(self.model, bound), compounds)
        session = Session(self.options, store=self.store)
        compiled = compile_model(model, self.options, session)
        self._variants[key] = compiled, compiled.executable(self.threads)


class WeftBackend(Backend):
    """weft as ONNX knows a backend; it compiles for the CPU of this machine."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Compiles a model; raises UnsupportedError for what weft lacks, also for other devices.
        Takes a number of `threads`, and a `store` of kernels that were compiled before.
        """
        if not cls.supports_device(device):
            raise UnsupportedError(f"weft requires the device CPU, got {device}")
        options = Options(artifact=Artifact(bare=True))  # no artifact that describes itself
        return Prepared(model, options, kwargs.get("threads"), kwargs.get("store"))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compiles one node for these inputs and runs it."""
        arrays = [np.asarray(array) for array in inputs]
        model = model_of_node(node, arrays, kwargs.get("opset_version", onnx_opset_version()))
        return cls.run_model(model, arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether that is the CPU."""
        return device.partition(":")[0] == "CPU"


def with_constants(model: ModelProto, arrays: Mapping[str, Array]) -> ModelProto:
    """The model with inputs replaced by constants; the model itself where there are none."""
    if not arrays:
        return model
    bound = ModelProto()
    bound.CopyFrom(model)
    for name, array in arrays.items():
        bound.graph.initializer.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
    return bound


def model_of_node(node: NodeProto, arrays: Iterable[Array], opset: int) -> ModelProto:
    """A model of one node, whose inputs are like the arrays."""
    names = dict.fromkeys(name for name in node.input if name)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, arrays, strict=True)
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], node.op_type, inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    if node.domain:
        opsets.append(helper.make_opsetid(node.domain, 1))
    return helper.make_model(graph, opset_imports=opsets)


def _content(array: Array) -> bytes:
    """What tells apart two arrays of one element type; those of strings hold references to them."""
    elements = repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes()
    return elements + str(array.shape).encode()


def _form(value: Any) -> bytes:
    """What tells apart sequences and optionals that need code of their own."""
    elements = elements_of("", value)
    layout = [(name, array.dtype.str, array.shape) for name, array in elements.items()]
    return repr((value is None, layout)).encode()


def _may_be_constant(model: ModelProto, name: str) -> bool:
    """Whether the input may be a shape or the like: a scalar, a vector of integers or bools, or one
    of the scales that sizes follow from. Strings can be nothing but constants.
    """
    value = next((each for each in model.graph.input if each.name == name), None)
    if value is None or value.type.WhichOneof("value") != "tensor_type":
        return False
    declared = value.type.tensor_type
    rank = len(declared.shape.dim)
    if declared.elem_type == TensorProto.STRING:
        return True
    is_whole = helper.tensor_dtype_to_np_dtype(declared.elem_type).kind in "iub"
    is_sizes = is_whole or _are_scales(model, name)
    return declared.HasField("shape") and (rank == 0 or (rank == 1 and is_sizes))


def _are_scales(model: ModelProto, name: str) -> bool:
    """Whether a node that scales its first operand takes the value as another one."""
    resizing = [node for node in model.graph.node if node.op_type in ("Resize", "Upsample")]
    return any(name in node.input[1:] for node in resizing)


prepare = WeftBackend.prepare
run_model = WeftBackend.run_model
run_node = WeftBackend.run_node
supports_device = WeftBackend.supports_device
