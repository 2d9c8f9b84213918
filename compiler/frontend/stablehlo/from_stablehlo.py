"""StableHLO -> graph: a module's text or portable bytecode becomes one function `main`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DenseResourceAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import ParseError

from weft.compiler.frontend.imported import MAIN, ImportedModel
from weft.compiler.frontend.onnx.constant_values import ConstantValues
from weft.compiler.frontend.stablehlo.content import BYTECODE
from weft.compiler.frontend.stablehlo.importer import ModuleImporter, functions_of
from weft.compiler.frontend.stablehlo.interleaved import joined_parts, separated
from weft.compiler.frontend.stablehlo.jaxlib_text import read_bytecode
from weft.compiler.frontend.stablehlo.ops.dynamic import sized_arguments
from weft.compiler.frontend.stablehlo.ops.table import (
    CUSTOM_CALLS,
    IMPORTERS,
    OF_SCALARS,
    complex_importer,
    quantized_importer,
)
from weft.compiler.frontend.stablehlo.text import HloParser
from weft.compiler.frontend.stablehlo.types import (
    attribute_text,
    declared,
    held_as,
    is_complex,
    is_token,
    leaves_of,
    parts_of,
)
from weft.dialects.budget import Budget
from weft.dialects.errors import ModelError, UnsupportedError, WeftError
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import TensorType, tensor
from weft.dialects.weights import Array, WeightStore

MOST_LISTED = 50


def read_stablehlo(text: str, name: str) -> ModuleOp:
    """The module of a text. Raises ModelError for one that cannot be read."""
    try:
        return HloParser(text, name).parse_module()
    except ParseError as problem:
        raise ModelError(f"{name} requires text of StableHLO, got {problem}") from problem


def import_file(source: str | os.PathLike[str] | bytes, budget: Budget | None) -> ImportedModel:
    """The graph of a file, or of bytes, of text or of portable bytecode."""
    if isinstance(source, bytes):
        name, data = "model", source
    else:
        name = Path(source).stem
        try:
            data = Path(source).read_bytes()
        except OSError as problem:
            raise ModelError(
                f"{source} requires a file that can be read, got {problem}"
            ) from problem
    if data.startswith(BYTECODE):
        text, arrays = read_bytecode(data, name)
    else:
        arrays = []
        try:
            text = data.decode()
        except UnicodeDecodeError as problem:
            raise ModelError(f"{name} requires text in UTF-8, got {problem}") from problem
    return import_stablehlo(read_stablehlo(text, name), name, budget, arrays)


def import_stablehlo(
    module: ModuleOp,
    name: str,
    budget: Budget | None = None,
    elided: Sequence[Array] = (),
    *,
    interleaved: bool = False,
) -> ImportedModel:
    """The graph of a module's `main`, or of its only function that is not private; `elided` are the
    constants that the text leaves out, in its order. With `interleaved`, complex inputs and outputs
    are one tensor with a last dim of 2, and not two, and tokens one without elements.

    Raises UnsupportedError that lists every operator that weft lacks, and ModelError for a module
    that is damaged.
    """
    budget = Budget() if budget is None else budget
    budget.begin()
    functions = functions_of(module)
    main = _main(functions, name)
    _require_known(main, functions, name)
    store = WeightStore(budget=budget)
    importer = ModuleImporter(
        functions,
        IMPORTERS,
        complex_importer,
        quantized_importer,
        OF_SCALARS,
        store,
        budget,
        elided_constants(module, elided),
        ConstantValues(store),
    )
    block = Block(arg_types=_argument_types(main, interleaved))
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    given = [Term(b, each) for each in block.args]
    try:
        parts = separated(given, main.body.block.args) if interleaved else given
        arguments = sized_arguments(main, functions, parts)
        results = importer.import_block(main.body.block, arguments, b)
    except WeftError as error:
        raise type(error)(f"{name}: {error}") from error
    if interleaved:
        results = joined_parts(results, returned_by(main), b)
    block.add_op(ReturnOp(*(each.value for each in results)))
    return _finished(main, block, store, name, interleaved)


def elided_constants(module: ModuleOp, arrays: Sequence[Array]) -> Mapping[Operation, Array]:
    """The arrays of constants that are written as resources, by operation."""
    written = [
        op
        for op in module.walk()
        if op.name == "stablehlo.constant"
        and isinstance(op.properties.get("value"), DenseResourceAttr)
    ]
    return dict(zip(written, arrays, strict=True))


def main_function(module: ModuleOp, name: str) -> FuncOp:
    """The function that callers call. Raises ModelError where that is not clear."""
    return _main(functions_of(module), name)


def _main(functions: dict[str, FuncOp], name: str) -> FuncOp:
    """The function that callers call."""
    if MAIN in functions:
        return functions[MAIN]
    public = [
        each
        for each in functions.values()
        if each.sym_visibility is None or each.sym_visibility.data == "public"
    ]
    if len(public) != 1:
        raise ModelError(f"{name} requires one public function, or @{MAIN}, got {len(public)}")
    return public[0]


def _reachable(function: FuncOp, functions: dict[str, FuncOp]) -> Iterator[Operation]:
    """The operators of a function and of those that it calls, each function once."""
    seen, waiting = {function.sym_name.data}, [function]
    while waiting:
        for op in waiting.pop().body.walk():
            yield op
            called = op.attributes | op.properties if op.name == "stablehlo.composite" else {}
            callee = op.callee if isinstance(op, CallOp) else called.get("decomposition")
            target = str(callee).removeprefix("@").strip('"') if callee is not None else ""
            if target in functions and target not in seen:
                seen.add(target)
                waiting.append(functions[target])


def _require_known(main: FuncOp, functions: dict[str, FuncOp], name: str) -> None:
    """Refuses a module with operators or element types that weft lacks, all of them at once."""
    lacking: dict[str, None] = {}
    for op in _reachable(main, functions):
        if op.name == "stablehlo.custom_call":
            target = attribute_text(op.properties.get("call_target_name"))
            if target not in CUSTOM_CALLS:
                lacking[f"custom_call @{target}"] = None
        elif op.name not in IMPORTERS and not _is_structure(op):
            lacking[op.name] = None
        for leaf in (leaf for value in op.results for leaf in leaves_of(value.type)):
            if is_token(leaf):
                continue
            try:
                declared(leaf)
            except UnsupportedError as error:
                lacking[str(error)] = None
    if lacking:
        listed = ", ".join([*lacking][:MOST_LISTED])
        raise UnsupportedError(f"{name}: weft lacks {listed}")


def _is_structure(op: Operation) -> bool:
    """Whether an operation calls, or ends a region."""
    return isinstance(op, (CallOp, FuncOp, ReturnOp)) or op.name == "stablehlo.return"


def _argument_types(main: FuncOp, interleaved: bool) -> list[TensorType]:
    """The types of the inputs: each dim that varies has a name."""
    types: list[TensorType] = []
    for position, argument in enumerate(main.body.block.args):
        if is_token(argument.type) and not interleaved:
            continue
        given = held_as(argument.type)
        dims = [
            f"arg{position}_dim{axis}" if dim is None else dim
            for axis, dim in enumerate(given.shape)
        ]
        if interleaved and is_complex(argument.type):
            types.append(tensor([*dims, 2], given.element))
        else:
            count = 1 if interleaved else parts_of(argument.type)
            types += [tensor(dims, given.element)] * count
    return types


def returned_by(main: FuncOp) -> Sequence[SSAValue]:
    """What a function returns."""
    returned = main.body.block.last_op
    assert returned is not None, "a function ends in a return"
    return returned.operands


def _finished(
    main: FuncOp, block: Block, store: WeightStore, name: str, interleaved: bool
) -> ImportedModel:
    """The function of a block, with the names of what it takes and returns."""
    last = block.last_op
    assert last is not None, "a block of a function ends in a return"
    types = [each.type for each in block.args], [each.type for each in last.operands]
    function = FuncOp(MAIN, types, Region(block))
    arguments = enumerate(main.body.block.args)
    named = [(each.name_hint or f"arg{at}", each.type) for at, each in arguments]
    returned = [leaf for each in returned_by(main) for leaf in leaves_of(each.type)]
    results = [(f"result{at}", each) for at, each in enumerate(returned)]
    input_names, output_names = (_names(each, interleaved) for each in (named, results))
    function.attributes["input_names"] = _strings(input_names)
    function.attributes["output_names"] = _strings(output_names)
    function.attributes["model_name"] = StringAttr(name)
    return ImportedModel(ModuleOp([function]), store, name, input_names, output_names)


def _names(values: Sequence[tuple[str, Attribute]], interleaved: bool) -> tuple[str, ...]:
    """The names of the tensors that values are: of complex ones `x.real` and `x.imag`."""
    suffixes = {0: (), 1: ("",), 2: (".real", ".imag")}
    return tuple(
        name + part
        for name, kind in values
        for part in suffixes[1 if interleaved else parts_of(kind)]
    )


def _strings(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(text) for text in texts])
