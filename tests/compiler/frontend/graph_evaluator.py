"""Evaluates an imported graph by the operators' `reference`, at the sizes of its inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from weft.compiler.frontend.imported import ImportedModel
from weft.dialects.expr import Expr, Symbol
from weft.dialects.graph import BindSizesOp, ConstantOp, GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import SEGMENTS
from weft.dialects.graph.core.types import ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.regions.effects import AssertOp


def evaluate(model: ImportedModel, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    """The outputs; every shape and element type on the way is compared with what was inferred."""
    (function,) = model.module.ops
    block = function.body.block
    sizes: dict[Symbol, int] = {}
    arrays: dict[SSAValue, NDArray[Any]] = {}
    for argument, array in zip(block.args, inputs, strict=True):
        for dim, extent in zip(type_of(argument).shape, array.shape, strict=True):
            sizes |= {atom: extent for atom in dim.atoms() if isinstance(atom, Symbol)}
        arrays[argument] = array
    for op in block.ops:
        if isinstance(op, ReturnOp):
            return [arrays[value] for value in op.operands]
        if isinstance(op, ConstantOp):
            arrays[op.result] = op.array(model.weights)
        elif isinstance(op, AssertOp):
            assert arrays[op.operands[0]], op.text.data
        elif isinstance(op, BindSizesOp):
            found = zip(op.defined_sizes, arrays[op.operand].reshape(-1).tolist(), strict=True)
            sizes |= {Symbol(name): size for name, size in found}
        else:
            results = _evaluate_op(op, [arrays[operand] for operand in op.operands], sizes)
            for result, array in zip(op.results, results, strict=True):
                _check(op, type_of(result), array, sizes)
                arrays[result] = array
    raise AssertionError("a graph function ends in func.return")


def _evaluate_op(op: GraphOp, operands: Sequence[NDArray[Any]], sizes: dict[Symbol, int]):
    """The operator's results after its symbols have been replaced by sizes."""
    kinds = [
        tensor(array.shape, type_of(operand).element)
        for array, operand in zip(operands, op.operands, strict=True)
    ]
    block = Block(arg_types=kinds)
    remaining = iter(block.args)
    slots = [None if operand is None else next(remaining) for operand in op.slots()]
    properties = {
        name: _substitute(value, sizes) for name, value in op.properties.items() if name != SEGMENTS
    }
    return type(op).from_properties(slots, properties).reference(*operands)


def _substitute(value: Any, sizes: dict[Symbol, int]) -> Any:
    if not isinstance(value, ShapeAttr):
        return value
    return ShapeAttr(tuple(Expr.of(dim.evaluate(sizes)) for dim in value.data))


def _check(op: GraphOp, kind: TensorType, array: NDArray[Any], sizes: dict[Symbol, int]) -> None:
    shape = tuple(dim.evaluate(sizes) for dim in kind.shape)
    assert np.shape(array) == shape, f"{op.name} was inferred as {kind}, is {np.shape(array)}"
    dtype = numpy_dtype(kind.element)
    assert array.dtype == dtype, f"{op.name} was inferred as {dtype}, is {array.dtype}"
