"""graph -> graph: named sizes get values, and inputs that have one become constants.

func.func @main(%x : [n, 4], %k : []) { ... }      ->      func.func @main(%x : [2, 4]) { ... }
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from weft.compiler.frontend.fixed_value import fixed_value
from weft.compiler.frontend.imported import MAIN, ImportedModel
from weft.dialects.errors import OptionError
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.call import INPUT_TYPES, input_types
from weft.dialects.graph.regions.control import replace_sizes, size_atoms
from weft.dialects.loop.equal_sizes import note_equal_sizes, noted_equal_sizes
from weft.dialects.loop.program import BOUNDS, DONATED
from weft.dialects.weights import Array, WeightStore


def fix_graph(
    imported: ImportedModel, sizes: Mapping[str, int], values: Mapping[str, Array]
) -> ImportedModel:
    """A copy of the graph with these values; the graph itself where there are none. Raises
    OptionError for what is no named size of the inputs, no input, or does not fit one.
    """
    if not sizes and not values:
        return imported
    module = imported.module.clone()
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    function = next((each for each in functions if each.sym_name.data == MAIN), functions[0])
    unknown = [name for name in values if name not in imported.input_names]
    if unknown:
        rule = f"values require inputs ({', '.join(imported.input_names)})"
        raise OptionError(f"{rule}, got {', '.join(unknown)}")
    if values and DONATED in function.attributes:
        raise OptionError(
            "values require a graph that writes none of its inputs, got one that does"
        )
    _declare_inputs(function)
    _fix_sizes(function, sizes)
    for name, value in values.items():
        _fix(function, name, value, imported.weights)
    function.update_function_type()
    left = tuple(name for name in imported.input_names if name not in values)
    return replace(imported, module=module, input_names=left)


def _declare_inputs(function: FuncOp) -> None:
    """Gives inputs the sizes that callers name, of which some were equal to others."""
    block = function.body.block
    for argument, declared in zip(block.args, input_types(function), strict=True):
        if argument.type != declared:
            Rewriter.replace_value_with_new_type(argument, declared)
    function.attributes.pop(INPUT_TYPES, None)


def _fix(function: FuncOp, name: str, value: Array, weights: WeightStore) -> None:
    """Puts a constant in the place of an input, and values in that of sizes which it decides."""
    names = _input_names(function)
    tensor_type = type_of(function.body.block.args[names.index(name)])
    dims = [dim.constant for dim in tensor_type.shape]
    array = fixed_value(name, value, numpy_dtype(tensor_type.element), dims)
    pairs = zip(tensor_type.shape, array.shape, strict=True)
    found = {str(dim): size for dim, size in pairs if dim.constant is None}
    _fix_sizes(function, found)
    constant = ConstantOp.stored(name, array, weights)
    block = function.body.block
    argument = block.args[names.index(name)]
    if block.first_op is None:
        block.add_op(constant)
    else:
        block.insert_op_before(constant, block.first_op)
    argument.replace_all_uses_with(constant.results[0])
    block.erase_arg(argument)
    left = [each for each in names if each != name]
    function.attributes["input_names"] = ArrayAttr([StringAttr(each) for each in left])


def _fix_sizes(function: FuncOp, sizes: Mapping[str, int]) -> None:
    """Puts numbers in the place of named sizes of the inputs."""
    arguments = [type_of(each) for each in function.body.block.args]
    named = dict.fromkeys(
        name for each in arguments for dim in each.shape for name in dim.symbols()
    )
    unknown = [name for name in sizes if name not in named]
    if unknown:
        rule = f"dims require named sizes of the inputs ({', '.join(named)})"
        raise OptionError(f"{rule}, got {', '.join(unknown)}")
    values = size_atoms(sizes)
    replace_sizes(function, values)
    noted = noted_equal_sizes(function).items()
    pairs = {(a.substitute(values), b.substitute(values)): node for (a, b), node in noted}
    note_equal_sizes(function, {(a, b): node for (a, b), node in pairs.items() if a != b})
    bounds = function.attributes.get(BOUNDS)
    if isinstance(bounds, DictionaryAttr):
        left = {name: bound for name, bound in bounds.data.items() if name not in sizes}
        function.attributes[BOUNDS] = DictionaryAttr(left)


def _input_names(function: FuncOp) -> list[str]:
    names = function.attributes["input_names"]
    assert isa(names, ArrayAttr[StringAttr]), "a model's function has the names of its inputs"
    return [name.data for name in names]
