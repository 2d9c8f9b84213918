"""What operators are judged by: `reference`, run on one operator or on a graph function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tests.compiler.loop.interpreter import run_kernel
from tests.support.sample import Sample
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module
from weft.compiler.graph_to_loop.naive_kernels import lower_group
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.graph import OPS_BY_NAME, GraphOp, group_of
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.types import Shape, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.weights import Array, WeightStore


def type_of_array(array: Array, shape: Shape | None = None) -> TensorType:
    """The tensor type of an array, or that type with other dims."""
    return tensor(array.shape if shape is None else shape, element_type(array.dtype))


def operator(
    cls: type[GraphOp],
    sample: Sample,
    shapes: Sequence[Shape] | None = None,
    block: Block | None = None,
) -> GraphOp:
    """The operator on new arguments of a block; `shapes` stand for the present operands' own."""
    block = Block() if block is None else block
    present = sample.present
    dims = [None] * len(present) if shapes is None else shapes
    arguments: list[SSAValue] = []
    for array, shape in zip(present, dims, strict=True):
        position = len(block.args)
        arguments.append(block.insert_arg(type_of_array(array, shape), position))
        arguments[-1].name_hint = f"x{position}"
    remaining = iter(arguments)
    op = cls.of(
        *(None if operand is None else next(remaining) for operand in sample.operands),
        **sample.attributes,
    )
    block.add_op(op)
    return op


def function_of(block: Block, results: Sequence[SSAValue]) -> FuncOp:
    """The graph function `main` of a block, which returns the results."""
    block.add_op(ReturnOp(*results))
    kinds = [value.type for value in block.args], [value.type for value in results]
    return FuncOp("main", kinds, Region(block))


def module_of(op: GraphOp) -> ModuleOp:
    """A module whose one function is the operator; the operator's block goes into it."""
    block = op.parent
    assert block is not None, "the operator stands in a block"
    return ModuleOp([function_of(block, op.results)])


def references(op: GraphOp, operands: Sequence[Array]) -> list[Array]:
    """The results as arrays of the inferred element types."""
    with np.errstate(all="ignore"):
        return [np.asarray(result) for result in op.reference(*operands)]


def evaluate(
    function: FuncOp, inputs: Sequence[Array], weights: WeightStore | None = None
) -> list[Array]:
    """Runs a graph function operator by operator through `reference`."""
    block = function.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        if isinstance(op, ReturnOp):
            return [values[operand] for operand in op.operands]
        assert isinstance(op, GraphOp), f"a graph function holds graph operators, not {op.name}"
        if isinstance(op, ConstantOp):
            values[op.result] = op.array(weights)
        else:
            results = references(op, [values[operand] for operand in op.operands])
            values |= dict(zip(op.results, results, strict=True))
    raise AssertionError("a graph function ends in func.return")


def run_lowered(
    op: GraphOp,
    operands: Sequence[Array],
    expected: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
) -> list[Array]:
    """Runs the operator's naive loop nests; `expected` gives the results' dims.

    `sizes` are those of symbolic dims.
    """
    distinct = dict(zip(op.operands, operands, strict=True))
    group = group_of(op)
    kernel = lower_group(group, list(group.body.block.args), {})
    kernel.verify()
    blank = [
        np.zeros(array.shape, numpy_dtype(type_of(result).element))
        for array, result in zip(expected, op.results, strict=True)
    ]
    known = {name: size for name, size in (sizes or {}).items() if name in kernel.symbol_names}
    outputs = run_kernel(kernel, *distinct.values(), *blank, **known)
    return list(outputs[len(distinct) :])


def run_compiled(
    cls: type[GraphOp], samples: Sequence[Sample]
) -> tuple[list[GraphOp], list[list[Array]]]:
    """The operator on each sample, all compiled into one program, and what that computes."""
    block = Block()
    ops = [operator(cls, sample, block=block) for sample in samples]
    counts = [len(op.results) for op in ops]
    function = function_of(block, [result for op in ops for result in op.results])
    options = Options(host_target())
    compiled = compile_module(ModuleOp([function.clone()]), WeightStore(), options)
    outputs = iter(compiled.executable(1)(*(x for sample in samples for x in sample.present)))
    return ops, [[next(outputs) for _ in range(count)] for count in counts]


def gradients(op: GraphOp, operands: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The operator's vjp, built as a graph of operators and evaluated; zeros where it has None."""
    block = op.parent
    assert block is not None, "the operator stands in a block"
    arguments = [block.insert_arg(type_of(result), len(block.args)) for result in op.results]
    builder = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    found = op.vjp(arguments, builder)
    present = [value for value in found if value is not None]
    for operand, value in zip(op.operands, found, strict=True):
        assert value is None or value.type == operand.type, "a cotangent has its operand's type"
    function = function_of(block, present)
    function.verify()
    computed = iter(evaluate(function, [*operands, *cotangents]))
    return [
        np.zeros(operand.shape) if value is None else next(computed)
        for operand, value in zip(operands, found, strict=True)
    ]
