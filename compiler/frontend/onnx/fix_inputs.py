"""ONNX model -> the model in which inputs that a user fixes are initialisers, and attentions know
of caches that are to stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from weft.compiler.frontend.fixed_value import fixed_value
from weft.compiler.frontend.imported import Source
from weft.compiler.frontend.onnx.load import Initializer, LoadedModel, load_model
from weft.compiler.frontend.onnx.node import onnx_element
from weft.compiler.frontend.onnx.signature import SymbolNames
from weft.dialects.errors import OptionError
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.weights import Array


def fixed_model(source: Source, values: Mapping[str, Array]) -> ModelProto:
    """The whole model with these values of inputs, for other runtimes. Raises as `fix_inputs` does,
    and as `load_model`.
    """
    loaded = load_model(source)
    return fix_inputs(loaded, values, SymbolNames(loaded.proto)).whole_proto()


def fix_inputs(
    model: LoadedModel, values: Mapping[str, Array], symbols: SymbolNames
) -> LoadedModel:
    """The model with these values of inputs, whose sizes `symbols` has from then on; in place.

    Raises OptionError for values of what is no input, and for those that do not fit theirs.
    """
    inputs = {each.name: each for each in model.proto.graph.input}
    unknown = [name for name in values if name not in inputs]
    if unknown:
        rule = f"values require inputs ({', '.join(inputs)})"
        raise OptionError(f"{model.name}: {rule}, got {', '.join(unknown)}")
    fixed = dict(model.initializers)
    for name, given in values.items():
        array = _fitted(inputs[name], given, symbols)
        fixed[name] = Initializer.of(name, numpy_helper.from_array(array, name))
        model.proto.graph.input.remove(inputs[name])
    return replace(model, initializers=fixed)


def _fitted(declared: ValueInfoProto, given: Array, symbols: SymbolNames) -> Array:
    """The value as its input is declared, whose open dims become its own."""
    name, tensor_type = declared.name, declared.type.tensor_type
    if declared.type.WhichOneof("value") != "tensor_type":
        raise OptionError(f"values require inputs that are tensors, got '{name}'")
    dtype = numpy_dtype(onnx_element(tensor_type.elem_type))
    if not tensor_type.HasField("shape"):
        return fixed_value(name, given, dtype, [None] * given.ndim)
    dims = [symbols.dim(dim, name, axis) for axis, dim in enumerate(tensor_type.shape.dim)]
    array = fixed_value(name, given, dtype, [dim.constant for dim in dims])
    for dim, size in zip(dims, array.shape, strict=True):
        if dim.constant is None:
            symbols.fix(str(dim), size)
    return array


CACHES = ((3, 1), (4, 2))
"""The inputs and outputs of `GroupQueryAttention` that are the caches of keys and values."""

SHARES_CACHE = "past_present_share_buffer"


def share_caches(model: LoadedModel, donated: Mapping[str, str]) -> None:
    """Has attentions write to caches that are donated: such a cache has its own size behind them,
    whatever the model declares; in place.
    """
    graph = model.proto.graph
    inputs = {each.name: each for each in graph.input}
    outputs = {each.name: each for each in graph.output}
    for node in graph.node:
        if node.op_type != "GroupQueryAttention" or len(node.input) <= CACHES[-1][0]:
            continue
        pairs = [
            (node.input[past], node.output[now]) for past, now in CACHES if now < len(node.output)
        ]
        if len(pairs) < len(CACHES) or any(donated.get(past) != now for past, now in pairs):
            continue
        node.attribute.append(helper.make_attribute(SHARES_CACHE, 1))
        for past, now in pairs:
            if past in inputs and now in outputs:
                outputs[now].type.CopyFrom(inputs[past].type)
