"""ONNX -> graph: one function `main` over tensors; the weights go to a store beside it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial

from onnx import TensorProto, ValueInfoProto
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue

from weft.compiler.frontend.imported import MAIN, ImportedModel, Source
from weft.compiler.frontend.model_version import version_attributes
from weft.compiler.frontend.onnx.branches import only_sound
from weft.compiler.frontend.onnx.channel_blocks import state_blocks
from weft.compiler.frontend.onnx.check import default_opset
from weft.compiler.frontend.onnx.declare_inputs import declare_inputs
from weft.compiler.frontend.onnx.declared import check_declared, check_numbered, check_strings
from weft.compiler.frontend.onnx.failure import Failure
from weft.compiler.frontend.onnx.fix_inputs import fix_inputs, share_caches
from weft.compiler.frontend.onnx.graph import brief, inner_names
from weft.compiler.frontend.onnx.importer import IMPORT_ERRORS, GraphImporter
from weft.compiler.frontend.onnx.load import LoadedModel, load_model
from weft.compiler.frontend.onnx.node import ImporterTable
from weft.compiler.frontend.onnx.ops.composites import COMPOSITES, CONTROL
from weft.compiler.frontend.onnx.opset import newest_opset, normalise
from weft.compiler.frontend.onnx.signature import SymbolNames
from weft.compiler.frontend.onnx.strings.spans import flat, packed, reshaped, shape_of
from weft.compiler.frontend.onnx.values import SequenceValue, Value
from weft.compiler.frontend.string_outputs import (
    MADE_STRINGS,
    MAP_INPUTS,
    NUMBERED_OUTPUTS,
    STRING_INPUTS,
    STRING_OUTPUTS,
    STRING_PARTS,
    map_inputs,
    numbered_outputs,
    string_outputs,
    string_parts,
)
from weft.dialects.budget import Budget
from weft.dialects.errors import (
    BudgetError,
    ModelError,
    ModelWarning,
    OptionError,
    UnsupportedError,
)
from weft.dialects.graph import OPS, GraphOp
from weft.dialects.graph.regions.watch import WatchOp
from weft.dialects.weights import Array, WeightStore

MOST_LISTED = 50
"""Nodes and inputs that one error lists."""


def import_model(
    source: Source,
    ops: Sequence[type[GraphOp]] = OPS,
    composites: ImporterTable = COMPOSITES,
    outputs: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Array] | None = None,
    *,
    replaceable: bool = False,
    budget: Budget | None = None,
    donated: Mapping[str, str] | None = None,
) -> ImportedModel:
    """Reads a model (a path, bytes or ModelProto) into the graph level.

    Operators of `ops` are found by their ONNX names, the others through `composites` and the
    function bodies that ONNX defines. `outputs` are the values that the model is to give, any of
    the graph's, by default its own outputs; `sizes` are values of named sizes of its inputs, and
    `values` those of inputs that are none any more.
    The values of weights may be `replaceable` once the model is compiled. Outputs take the memory
    of inputs as `donated` says, by name.

    Raises ModelError for a damaged model, OptionError for outputs, inputs and sizes that it does
    not have, UnsupportedError that lists every node that weft cannot compile, and BudgetError for a
    model that becomes more than the `budget` allows. What is not as the model says, and harmless,
    is a ModelWarning.
    """
    loaded = load_model(source)
    symbols = SymbolNames(loaded.proto, sizes)
    loaded = fix_inputs(loaded, values or {}, symbols)
    share_caches(loaded, donated or {})
    budget = Budget() if budget is None else budget
    budget.begin()
    model = normalise(loaded, budget=budget)
    state_blocks(model, symbols)
    names = tuple(outputs) or tuple(value.name for value in model.proto.graph.output)
    names, inner = _split_values(model, names)

    def attempt(tried: dict[str, int]) -> tuple[GraphImporter, Sequence[UnsupportedError]]:
        store = WeightStore(replaceable=replaceable, budget=budget)
        importer = GraphImporter(
            model, ops, composites, CONTROL, symbols, store, tried, watched=inner
        )
        return importer, _import_nodes(model, importer, symbols, names)

    importer, refused = only_sound(attempt)
    _report(refused, importer.failures, model.name, default_opset(loaded.proto) or newest_opset())
    _require_computed(model.name, importer, inner)
    for text in importer.warnings:
        warnings.warn(brief(f"{model.name}: {text}"), ModelWarning, stacklevel=2)
    return _with_outputs(model, importer, names)


def _import_nodes(
    model: LoadedModel, importer: GraphImporter, symbols: SymbolNames, names: Sequence[str]
) -> list[UnsupportedError]:
    """Imports what the named outputs need, and returns why inputs are refused. Raises for what ends
    the import at once; nodes that are refused are the importer's `failures`.
    """
    try:
        refused = declare_inputs(model, importer)
        symbols.require_fixed()
        importer.import_nodes(model.proto.graph.node, names)
        tensors = [name for name in names if importer.strings.get(name) is None]
        for name in tensors:
            importer.lookup(name)  # those that are initialisers become constants
        _check_declared(model, importer)
    except (BudgetError, OptionError, *IMPORT_ERRORS) as error:
        raise type(error)(f"{model.name}: {brief(error)}") from error
    return refused


def _with_outputs(
    model: LoadedModel, importer: GraphImporter, names: Sequence[str]
) -> ImportedModel:
    """The function of what was imported, which returns the named outputs; those that are strings
    of the model beside the tensors.
    """
    known = {name: importer.strings.get(name) for name in names}
    strings = {name: texts for name, texts in known.items() if texts is not None}
    tensors = [name for name in names if name not in strings]
    results: dict[str, Value] = {}
    for name in tensors:
        results |= _result(importer, name)
    imported = _finish(model, importer, *_outputs(model.name, [*results], [*results.values()]))
    function = imported.module.body.block.first_op
    assert function is not None, "an imported module has a function"
    if strings:
        function.attributes[STRING_OUTPUTS] = string_outputs(_expanded(names, importer), strings)
    made = [name for name in tensors if name in importer.strings.spans]
    if made:
        position_of = imported.output_names.index
        places = {name: position_of(name + STRING_PARTS[0]) for name in made}
        function.attributes[MADE_STRINGS] = string_parts(places)
    return imported


def _result(importer: GraphImporter, name: str) -> dict[str, Value]:
    """What the model gives for an output: two tensors for strings that it may not have."""
    spans = importer.strings.spans.get(name)
    if spans is None:
        value = importer.lookup(name)
        return {} if value is None else {name: value}
    find = partial(importer.bind_size, stem=f"{name}_bytes")
    one = packed(importer.b, find, flat(importer.b, spans))
    parts = reshaped(importer.b, one, shape_of(spans)).ends, one.data
    return {name + part: value for part, value in zip(STRING_PARTS, parts, strict=True)}


def import_inputs(
    source: Source, sizes: Mapping[str, int], values: Mapping[str, Array]
) -> ImportedModel:
    """A function of a model's inputs that gives nothing; `sizes` and `values` are as `import_model`
    has them. Raises as that does.
    """
    loaded = load_model(source)
    symbols = SymbolNames(loaded.proto, sizes)
    model = fix_inputs(loaded, values, symbols)
    importer = GraphImporter(model, OPS, COMPOSITES, CONTROL, symbols)
    _report(declare_inputs(model, importer), (), model.name, newest_opset())
    symbols.require_fixed()
    return _finish(model, importer, (), [])


def _check_declared(model: LoadedModel, importer: GraphImporter) -> None:
    """Refuses declarations that what was imported contradicts. Of outputs and initialisers that are
    declared as values too, which converters of element types forget, that does not count.
    """
    graph = model.proto.graph
    known = [each for each in graph.output if importer.has_value(each.name)]
    numbered = [each for each in known if importer.strings.are_numbers(each.name)]
    check_strings([each for each in known if each not in numbered], importer.strings.get)
    check_numbered(numbered)
    lookup, warn = importer.declared_value, importer.warn
    check_declared(graph.output, "output", lookup, warn, graph.node, dims=True)
    apart = {each.name for each in graph.output} | model.initializers.keys()
    inner = [each for each in graph.value_info if each.name not in apart]
    check_declared(inner, "value", lookup, warn)


def _expanded(names: Sequence[str], importer: GraphImporter) -> list[str]:
    """The names of all outputs, those of a sequence's elements among them."""
    expanded: list[str] = []
    for name in names:
        value = None if importer.strings.get(name) is not None else importer.lookup(name)
        count = len(value.items) if isinstance(value, SequenceValue) else None
        expanded += [name] if count is None else [f"{name}/{position}" for position in range(count)]
    return expanded


def _outputs(
    model: str, names: Sequence[str], values: Sequence[Value]
) -> tuple[tuple[str, ...], list[SSAValue]]:
    """Names and tensors of what the model returns: an element of the sequence `y` is `y/0`, ..."""
    pairs: list[tuple[str, SSAValue]] = []
    for name, value in zip(names, values, strict=True):
        if isinstance(value, SequenceValue):
            elements = [(f"{name}/{position}", item) for position, item in enumerate(value.items)]
            taken = [each for each, _ in elements if each in names]
            if taken:
                rule = f"output '{name}' requires elements of names that are free"
                raise UnsupportedError(f"{model}: {rule}, got '{taken[0]}'")
            pairs += elements
        elif isinstance(value, SSAValue):
            pairs.append((name, value))
        else:
            raise UnsupportedError(f"{model}: output '{name}' requires a value, got {value}")
    return tuple(name for name, _ in pairs), [value for _, value in pairs]


def _split_values(
    model: LoadedModel, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The outputs that the graph itself has, and those that subgraphs have. Refuses those that no
    node produces; lists them all, and what they may have meant.
    """
    graph = model.proto.graph
    known = {name for node in graph.node for name in node.output if name}
    known |= {value.name for value in graph.input} | model.initializers.keys()
    others = [name for name in names if name not in known]
    within = {name for node in graph.node for name in inner_names(node)} if others else set[str]()
    unknown = [name for name in others if name not in within]
    if unknown:
        close = [match for name in unknown for match in get_close_matches(name, known | within)]
        hint = f"; close ones are {', '.join(dict.fromkeys(close))}" if close else ""
        got = ", ".join(unknown)
        raise OptionError(f"{model.name}: outputs require values of the graph, got {got}{hint}")
    return tuple(name for name in names if name in known), tuple(others)


def _require_computed(model: str, importer: GraphImporter, inner: Sequence[str]) -> None:
    """Refuses outputs of branches that are never taken."""
    ops = importer.block.walk() if inner else ()
    found = {op.label.data for op in ops if isinstance(op, WatchOp)}
    unknown = [name for name in inner if name not in found]
    if unknown:
        got = ", ".join(unknown)
        raise OptionError(f"{model}: outputs require values that calls compute, got {got}")


def _finish(
    model: LoadedModel,
    importer: GraphImporter,
    output_names: tuple[str, ...],
    outputs: Sequence[SSAValue],
) -> ImportedModel:
    """Wraps the block into the function `main`, which carries the model's own names."""
    block, graph = importer.block, model.proto.graph
    block.add_op(ReturnOp(*outputs))
    types = [value.type for value in block.args], [value.type for value in outputs]
    function = FuncOp(MAIN, types, Region(block))
    input_names, places = _argument_names(graph.input)
    if places:
        function.attributes[STRING_INPUTS] = string_parts(places)
    if importer.maps:
        found = {name: (input_names.index(name), keys) for name, keys in importer.maps.items()}
        function.attributes[MAP_INPUTS] = map_inputs(found)
    numbered = [name for name in output_names if importer.strings.are_numbers(name)]
    if numbered:
        texts, outputs_at = importer.strings.vocabulary.texts, list(output_names).index
        function.attributes[NUMBERED_OUTPUTS] = numbered_outputs(
            numbered, texts, [outputs_at(name) for name in numbered]
        )
    function.attributes["input_names"] = _strings(input_names)
    function.attributes["output_names"] = _strings(output_names)
    function.attributes["model_name"] = StringAttr(graph.name)
    function.attributes |= version_attributes(model.proto.model_version)
    module = ModuleOp([function])
    return ImportedModel(module, importer.store, graph.name, input_names, output_names)


def _argument_names(inputs: Sequence[ValueInfoProto]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of the function's arguments, and where those of strings begin."""
    names: list[str] = []
    places: dict[str, int] = {}
    for value in inputs:
        strings = value.type.tensor_type.elem_type == TensorProto.STRING
        if strings:
            places[value.name] = len(names)
        names += [value.name + part for part in (STRING_PARTS if strings else ("",))]
    return tuple(names), places


def _report(
    refused: Sequence[UnsupportedError], failures: Sequence[Failure], model: str, opset: int
) -> None:
    """Raises one error that lists all inputs that are refused and all failures, if any."""
    if refused:
        texts = [brief(error) for error in refused]
        texts += [failure.describe(opset) for failure in failures]
        raise UnsupportedError(f"{model}: {_listed(texts)}")
    if not failures:
        return
    first, *others = (failure.describe(opset) for failure in failures)
    if any(isinstance(failure.error, UnsupportedError) for failure in failures):
        rule = f"weft requires nodes that it can compile, got {len(failures)} others"
        listed = _listed([brief(f"{rule}: {first}"), *others])
        raise UnsupportedError(f"{model}: {listed}")
    raise ModelError(f"{model}: {_listed([first, *others])}")


def _listed(texts: Sequence[str]) -> str:
    """The first of the texts, and how many others there are."""
    others = len(texts) - MOST_LISTED
    return "; ".join([*texts[:MOST_LISTED], *([f"and {others} others"] if others > 0 else [])])


def _strings(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(text) for text in texts])
