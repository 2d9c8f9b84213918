"""What is refused of onnxruntime's own operators: one error, with the node's name and the rule."""
# pyright: basic

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.compiler.frontend.microsoft.attention import (
    attention,
    grouped,
    ints,
    multi_head,
    quantised_caches,
)
from tests.compiler.frontend.microsoft.fused import convolution, floats, gemm
from tests.compiler.frontend.microsoft.quantised import (
    U8,
    binary,
    blocks,
    codes,
    concat,
    gathered,
    integers,
)
from tests.compiler.frontend.microsoft.samples import Sample, model_of
from tests.compiler.frontend.microsoft.transformers import rotary, skip_norm
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.errors import ModelError, UnsupportedError


def add() -> Sample:
    return binary("QLinearAdd", integers(2, 3), integers(3), 0.1)


def having(sample: Sample, **operands: Any) -> Sample:
    """The sample with other operands."""
    return replace(sample, operands={**sample.operands, **operands})


def lacking(sample: Sample, *names: str) -> Sample:
    """The sample without those attributes."""
    kept = {name: each for name, each in sample.attributes.items() if name not in names}
    return replace(sample, attributes=kept)


ONE = np.array([1])
BYTES = quantised_caches(8, "PER_TENSOR")

REFUSED: dict[str, tuple[Sample, str]] = {
    "an attribute": (replace(add(), attributes={"axis": 1}), "attributes out of none, got axis"),
    "a type": (having(add(), a=floats(2, 3)), "operand a requires i8, ui8, got f32"),
    "two types": (
        having(add(), b=integers(3, dtype=np.int8)),
        "operand b requires the type ui8 of others",
    ),
    "no operand": (having(add(), b=None), "requires its operand b, got none"),
    "no attribute": (lacking(gemm("Relu"), "activation"), "requires attribute activation"),
    "dims": (having(add(), a_scale=floats(2)), "operand 1 requires dims"),
    "further operands": (
        having(add(), more=floats(1), most=floats(1)),
        "requires at most 8 operands, got 10",
    ),
    "an activation": (convolution("Mish"), "requires an activation out of .*, got Mish"),
    "parameters": (convolution("Clip", 1.0), "requires 2 parameters of its activation Clip"),
    "parts": (
        having(concat(U8), further=integers(3, 2)),
        "requires a scale and a zero point for each tensor",
    ),
    "statistics": (replace(skip_norm("", 2, 3, 8), outputs="ym"), "no statistics as results"),
    "a scale of angles": (rotary((2, 3, 16), ONE, 4, scale=2.0), "requires a scale of 1"),
    "packed batches": (rotary((2, 3, 16), ONE, 4, is_packed_batching=1), "not packed"),
    "parts of heads": (rotary((2, 3, 20), ONE, 4), "columns of whole heads, got 20 of 8"),
    "angles without heads": (
        rotary((2, 3, 16), ONE, 4, rotary_embedding_dim=4),
        "requires num_heads beside rotary_embedding_dim",
    ),
    "rotary attention": (
        attention(do_rotary=1, rotary_embedding_dim=6),
        "requires pairs of the 4 columns of a head, got 6",
    ),
    "a shared past": (attention(past_present_share_buffer=1), "no past_present_share_buffer"),
    "packed operands of other heads": (
        having(multi_head(), q=floats(2, 3, 4, 3, 2), k=None, v=None),
        "requires 2 heads of 3 parts in one operand",
    ),
    "packed operands of other parts": (
        having(multi_head(), k=floats(2, 3, 2, 3, 4), v=None),
        "requires 2 heads of 2 parts in one operand",
    ),
    "a mask of sums": (attention(ints(*range(8))), "a mask of 2 or 4 ends"),
    "unequal parts": (attention(qkv_hidden_sizes=[8, 8, 4]), "sizes of queries, keys and values"),
    "uneven heads": (replace(attention(), attributes={"num_heads": 3}), "columns for 3 heads"),
    "keys of one size": (attention(size=3, outputs="yp"), "keys and values of one size"),
    "half a past": (having(multi_head(given="p"), pv=None), "past keys and values, got one"),
    "no keys": (having(multi_head(), k=None), "requires its operands key and value"),
    "uneven groups": (
        replace(grouped([3], 3, steps=3), attributes={"num_heads": 4, "kv_num_heads": 3}),
        "queries in whole groups, got 4 for 3",
    ),
    "a cache of no bits": (
        grouped([3], 3, steps=3, k_quant_type="PER_TENSOR"),
        "requires a kv_cache_bit_width of 4 or 8, got 0",
    ),
    "a cache by rows": (
        grouped([3], 3, steps=3, k_quant_type="PER_ROW", kv_cache_bit_width=8),
        "requires a k_quant_type that it has, got PER_ROW",
    ),
    "a cache of another type": (
        having(
            grouped([5], 5, past=4, **quantised_caches(8, "PER_TENSOR")), pv=floats(1, 1, 4, 16)
        ),
        r"requires a cache of i8, got \[1, 1, 4, 16\] f32",
    ),
    "scales of other heads": (
        having(grouped([5], 5, past=4, **BYTES), v_scale=floats(16)),
        "requires 1 numbers as v_scale",
    ),
    "a window of later keys": (
        grouped([3], 3, steps=3, causal=0, local_window_size=2),
        "no local_window_size beside causal = 0",
    ),
    "scores as results": (grouped([3], 3, steps=3, qk_output=1), "no scores, got qk_output"),
    "one norm": (
        having(grouped([3], 3, steps=3), k_scale=None, v_scale=None, q_norm=floats(16)),
        "requires scales of queries and keys, got one",
    ),
    "odd bits": (
        replace(blocks(8), attributes={"N": 5, "K": 40, "bits": 3, "block_size": 16}),
        "bits out of 2, 4, 8, got 3",
    ),
    "codes of other blocks": (
        replace(codes(1), attributes={**codes(1).attributes, "block_size": 32}),
        "requires 18 bytes and a number for each block of 32",
    ),
    "codes of rows": (
        replace(codes(1), attributes={**codes(1).attributes, "transB": 0}),
        "requires transB = 1",
    ),
    "half a gate": (
        Sample("BiasSplitGelu", {"x": floats(1, 2, 3), "bias": floats(3)}),
        "requires two halves of columns, got 3",
    ),
    "columns of no block": (blocks(4, g=ints(*range(39))), "a block for each of 40 columns"),
    "weights of other dims": (
        replace(blocks(4), attributes={"N": 6, "K": 40, "bits": 4, "block_size": 16}),
        r"requires weights \[6, 3, 8\]",
    ),
    "parts of blocks": (
        replace(gathered(U8, bits=4, axis=2), attributes={"bits": 4, "quantize_axis": 0}),
        "requires slices of whole blocks",
    ),
    "scales of other blocks": (
        replace(
            gathered(U8, bits=8, axis=2),
            attributes={"bits": 8, "quantize_axis": 2, "block_size": 32},
        ),
        "requires scales for 48 in blocks of 32",
    ),
    "a norm in halves": (
        Sample(
            "SimplifiedLayerNormalization",
            {"x": floats(2, 8), "scale": floats(8)},
            {"stash_type": 10},
            domain="",
        ),
        "requires a stash_type of 1, got 10",
    ),
    "an operator that weft lacks": (
        Sample("MurmurHash3", {"x": ints(1, 2)}),
        "requires an operator that it has, got MurmurHash3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    sample, rule = REFUSED[case]
    model, _ = model_of([sample])
    with pytest.raises((ModelError, UnsupportedError), match=rule) as caught:
        import_model(model)
    assert "node 'n0'" in str(caught.value)
