"""What operators say of parts of tensors, against their references: cut along each factor, the
operator computes the parts of its results, or what is reduced to them.
"""
# pyright: basic

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from tests.dialects.graph.test_ops import check_close, name_of
from tests.support import oracle
from tests.support.sample import Sample
from tests.support.samples import SAMPLES
from weft.dialects.graph import OPS, OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import I64, ShapeAttr, TensorType, tensor, type_of

ELEMENTWISE = ("graph.where", "graph.clip", "graph.neg", "graph.pow")
"""Some that broadcast their operands: the rule is one for all."""

WITH_RULE = [
    op
    for op in OPS
    if op.sharding_rule is not GraphOp.sharding_rule
    and (op.name in ELEMENTWISE or not issubclass(op, ElementwiseOp))
]
COMBINED = {
    "sum": lambda parts: np.add.reduce(parts, dtype=parts[0].dtype),
    "mean": lambda parts: np.add.reduce([each / len(parts) for each in parts]),
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
}
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


@pytest.mark.parametrize("cls", WITH_RULE, ids=name_of)
@settings(max_examples=3)
@given(data=st.data())
def test_parts_compute_parts(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    op = oracle.operator(cls, sample)
    rule = op.sharding_rule()
    if rule is None:  # of this sample
        return
    assert [len(each) for each in rule.operands] == [each.rank for each in op.tensor_types()]
    assert [len(each) for each in rule.results] == [type_of(each).rank for each in op.results]
    expected = oracle.references(op, sample.present)
    for factor in dict.fromkeys(name for each in rule.named() for name in each if name):
        dims = [
            type_of(value).shape[axis].constant or 0
            for value, factors in zip((*op.results, *op.operands), rule.named(), strict=True)
            for axis, name in enumerate(factors)
            if name == factor
        ]
        parts = next((n for n in (2, 3, min(dims)) if n > 1 and not any(d % n for d in dims)), None)
        if parts is not None and min(dims) > 0:
            check_factor(op, sample, factor, parts, expected)


def check_factor(op: GraphOp, sample: Sample, factor: str, parts: int, expected) -> None:
    rule = op.sharding_rule()
    assert rule is not None
    found = []
    for part in range(parts):
        operands = [
            cut(x, factors, factor, parts, part)
            for x, factors in zip(sample.present, rule.operands, strict=True)
        ]
        whole = [type_of(each) for each in op.results]
        local = [
            part_type(each, factors, factor, parts)
            for each, factors in zip(whole, rule.results, strict=True)
        ]
        begins = [
            part * (dim.constant or 0) if name == factor else None
            for dim, name in zip(local[0].shape, rule.results[0], strict=True)
        ]
        found.append(evaluate(op, operands, local, begins))
    for number, (factors, array) in enumerate(zip(rule.results, expected, strict=True)):
        results = [each[number] for each in found]
        if factor in rule.reduced and factor not in factors:
            whole = all(each.dtype.kind in "iub" for each in results)
            wide = results if whole else [np.asarray(each, np.float64) for each in results]
            joined = np.asarray(COMBINED[rule.reduced[factor]](wide)).astype(array.dtype)
        else:
            joined = np.concatenate(results, factors.index(factor))
        check_close(joined, array, TOLERANCES)


def cut(x, factors, factor: str, parts: int, part: int):
    for axis, name in enumerate(factors):
        if name == factor:
            x = np.split(x, parts, axis)[part]
    return np.array(x, order="C")


def part_type(whole: TensorType, factors, factor: str, parts: int) -> TensorType:
    shape = [
        (dim.constant or 0) // parts if name == factor else dim
        for dim, name in zip(whole.shape, factors, strict=True)
    ]
    return tensor(shape, whole.element)


def evaluate(op: GraphOp, operands, local: list[TensorType], begins: list[int | None]):
    """The operator with local properties and operands on parts, as partitioning builds it."""
    types = [
        TensorType(ShapeAttr(tensor(x.shape, each.element).dims.data), each.element)
        for x, each in zip(operands, op.tensor_types(), strict=True)
    ]
    block = Block(arg_types=types)
    b, remaining = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME), iter(block.args)
    slots = [None if each is None else next(remaining) for each in op.slots()]
    slots = op.local_operands(
        slots, lambda: [None if at is None else b.constant_of(at, I64) for at in begins], b
    )
    properties = {k: v for k, v in op.local_properties(local).items() if k != "operandSegmentSizes"}
    own = b.builder.insert(type(op).from_properties(slots, properties))
    assert [each.type for each in own.results] == local
    block.add_op(ReturnOp(*own.results))
    return evaluate_block(block, operands)
