"""`weft-vmap` on every operator's samples: a batch is what each sample gives, stacked."""
# pyright: basic

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from tests.dialects.graph.test_ops import EXAMPLES as MORE
from tests.dialects.graph.test_ops import check_close, name_of
from tests.support import oracle
from tests.support.samples import SAMPLES
from weft.compiler.graph.batch.batch import batch_block
from weft.compiler.graph.differentiate.cotangents import fresh_sizes
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS, OPS_BY_NAME
from weft.dialects.graph.core.batching import spread
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.regions.fused import YieldOp
from weft.dialects.weights import Array

EXAMPLES = settings(MORE, max_examples=3)
SIZE = 3
LOOPED = {
    "gemm", "reverse_sequence", "integer_conv", "dequantize_gguf", "gguf_scales", "pack_words",
    "block_quantized_matmul", "winograd_filter", "winograd_result", "max_region_pool",
    "hash_strings", "equal_strings", "copy_strings", "argsort_strings", "match_strings",
    "find_matches", "couple_probabilities", "random_bits", "nonzero",
}  # fmt: skip
"""Operators that a loop computes sample by sample. `nonzero` finds as many elements in each."""
WITHOUT_OPERANDS = ("constant", "dims", "mersenne_twister")
WITH_OPERANDS = [op for op in OPS if name_of(op) not in WITHOUT_OPERANDS]


def rolled(array: Array, by: int) -> Array:
    """The same elements at other places, where operands need no order of them."""
    return np.roll(array.reshape(-1), by).reshape(array.shape)


@pytest.mark.parametrize("cls", WITH_OPERANDS, ids=name_of)
@EXAMPLES
@given(data=st.data())
def test_a_batch_is_what_each_sample_gives(cls, data):
    sample = data.draw(SAMPLES[cls])
    assume(sample.present)
    has_axis = [data.draw(st.booleans()) for _ in sample.present]
    assume(any(has_axis))
    moves = 1 if cls.__module__.split(".")[3] in ("ops", "reindexing") else 0
    batches = [
        np.stack([rolled(array, moves * number) for number in range(SIZE)]) if axis else array
        for array, axis in zip(sample.present, has_axis, strict=True)
    ]
    block, pairs = Block(), list(zip(batches, has_axis, strict=True))
    op = oracle.operator(cls, sample, block=block)
    expected = [
        oracle.references(op, [x[n] if axis else x for x, axis in pairs]) for n in range(SIZE)
    ]
    assume(all(len({each.shape for each in column}) == 1 for column in zip(*expected, strict=True)))
    outer = Block(arg_types=[oracle.type_of_array(each) for each in batches])
    b = GraphBuilder(InsertPoint.at_end(outer), OPS_BY_NAME)
    size = Expr.of(SIZE)
    found = batch_block(b, block, outer.args, op.results, size, fresh_sizes(block))
    values = [spread(b, x, s, size) for x, s in zip(found, op.results, strict=True)]
    has_loop = any(each.name == "graph.for" for each in outer.ops)
    assert not has_loop or name_of(cls) in LOOPED or not facet_serves(cls, has_axis)
    outer.add_op(YieldOp.create(operands=values))
    with np.errstate(all="ignore"):
        arrays = evaluate_block(outer, batches)
    for actual, column in zip(arrays, zip(*expected, strict=True), strict=True):
        check_close(np.asarray(actual), np.stack(column))


def facet_serves(cls, has_axis) -> bool:
    """Whether the operator's facet computes a batch of these operands, and not a loop."""
    return has_axis[0] and not any(has_axis[1:])
