"""onnxruntime's attentions in graphs of any batch, steps and past, as exporters of decoders write
them; and that the scores of all of them stay in one kernel.
"""
# pyright: basic

import numpy as np
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.func import FuncOp

import weft
from tests.compiler.frontend.microsoft.attention import FAMILIES
from tests.compiler.frontend.microsoft.samples import MICROSOFT, model_of
from tests.models.peer import run_onnxruntime
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.compiler.graph.fuse.fuse_attention import fuse_attention
from weft.dialects.graph.ops.softmax import SoftmaxOp
from weft.dialects.graph.regions.fused import FusedOp

RNG = np.random.default_rng(19)


def floats(*shape: int):
    return RNG.standard_normal(shape).astype(np.float32)


def decoder():
    """Queries, keys and values in one tensor, a mask of all steps, and a cache."""
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["ends_"]),
        helper.make_node("Cast", ["ends_"], ["ends"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["dims"], start=1),
        helper.make_node("Cast", ["dims"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "", "", "past_k", "past_v", "ends", "total", "cos", "sin"],
            ["y", "k", "v"],
            domain=MICROSOFT,
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
        ),
    ]
    cache = ["batch", 2, "past", 16]
    inputs = {"q": ["batch", "steps", 128], "past_k": cache, "past_v": cache}
    typed = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in inputs.items()
    ]
    typed.append(helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "total"]))
    constants = {"axis": np.array([1]), "one": np.array([1]), "cos": floats(40, 8)}
    constants["sin"] = floats(40, 8)
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in "ykv"]
    graph = helper.make_graph(nodes, "decoder", typed, results, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_a_decoder_agrees_at_its_prompt_and_at_steps_behind_it() -> None:
    """A row of fewer steps is padded in the prompt, where what follows its end is arbitrary, and
    has a shorter cache later.
    """
    model = decoder()
    compiled = weft.compile(model, threads=1)
    for batch, steps, past in ((2, 5, 0), (1, 3, 4), (2, 1, 5)):
        mask = np.ones((batch, past + steps), np.int64)
        mask[1:, -2:] = 0
        inputs = {"q": floats(batch, steps, 128), "mask": mask}
        inputs |= {name: floats(batch, 2, past, 16) for name in ("past_k", "past_v")}
        expected, given = run_onnxruntime(model, inputs), list(compiled(**inputs))
        if past == 0:
            given[0][1, -2:] = expected[0][1, -2:]
        for ours, theirs in zip(given, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def attention(**dims):
    sample = FAMILIES["attention"][4]  # one with a mask of keys
    return model_of([replace(sample, dims=dims)])[0]


def multi_head(**dims):
    sample = FAMILIES["multi-head attention"][4]  # one with a past
    return model_of([replace(sample, dims=dims)])[0]


ROWS = ["batch", "steps", 8]

MODELS = {
    "Attention": attention(x=["batch", "steps", 5], mask=["batch", "steps"]),
    "MultiHeadAttention": multi_head(
        q=ROWS, k=ROWS, v=ROWS, **dict.fromkeys(("pk", "pv"), ["batch", 2, "past", 4])
    ),
    "GroupQueryAttention": decoder(),
}


@pytest.mark.parametrize("op_type", MODELS)
def test_scores_of_attentions_are_in_one_group(op_type: str) -> None:
    (function,) = import_model(MODELS[op_type]).module.ops
    assert isinstance(function, FuncOp)
    block = function.body.block
    before = [op for op in block.ops if isinstance(op, SoftmaxOp)]
    fuse_attention(block)
    after = [op for op in block.walk() if isinstance(op, SoftmaxOp)]
    assert len(before) == len(after) == 1
    assert isinstance(after[0].parent_op(), FusedOp)
