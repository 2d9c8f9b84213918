"""BERT and GPT-2 with the chains of shape arithmetic that torch's exporter writes for them.

Extents of batch and sequence are read off the inputs at run time (Shape, Gather, Unsqueeze, Concat,
Reshape), also where the inputs' types are static; a compiler has to see through that.
"""

from math import pi, sqrt

import numpy as np
from onnx import ModelProto, TensorProto

from tests.models.graph_writer import Dim, GraphWriter

LARGEST_NEGATIVE = float(np.finfo(np.float32).min)
"""What masked attention scores get, as in torch."""


def build_bert(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    batch: Dim = "batch",
    sequence: Dim = "sequence",
    positions: int = 512,
    spelled_out: bool = False,
    seed: int = 1,
) -> ModelProto:
    """BERT: input_ids, attention_mask, token_type_ids (batch, sequence) -> hidden state, pooled.

    With `spelled_out` each LayerNormalization is ReduceMean, Sub, Pow, Sqrt and Div, as exporters
    wrote it before opset 17.
    """
    net = GraphWriter("bert", seed)
    ids, mask, types = (
        net.input(name, (batch, sequence), TensorProto.INT64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    norm = _spelled_out_norm if spelled_out else _norm
    x = _bert_embeddings(net, ids, types, hidden, vocabulary, positions)
    x = norm(net, x, "embeddings.LayerNorm", hidden)
    penalty = _mask_penalty(net, mask)
    for layer in range(layers):
        path = f"encoder.layer.{layer}"
        attended = _bert_attention(net, x, penalty, f"{path}.attention", hidden, heads)
        x = norm(net, net.op("Add", attended, x, path=path), f"{path}.attention.LayerNorm", hidden)
        widened = _linear(net, x, f"{path}.intermediate", hidden, 4 * hidden)
        narrowed = _linear(
            net, _erf_gelu(net, widened, path), f"{path}.output", 4 * hidden, hidden, gain=2.0
        )
        x = norm(net, net.op("Add", narrowed, x, path=path), f"{path}.output.LayerNorm", hidden)
    first = net.op("Gather", x, net.constant(0), axis=1, path="pooler")
    pooled = net.op("Tanh", net.dense(first, "pooler.dense", hidden, hidden), path="pooler")
    net.output(x, "last_hidden_state", (batch, sequence, hidden))
    net.output(pooled, "pooled", (batch, hidden))
    return net.model


def build_gpt2(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    batch: Dim = "batch",
    sequence: Dim = "sequence",
    context: int = 1024,
    seed: int = 1,
) -> ModelProto:
    """GPT-2: input_ids (batch, sequence) -> logits (batch, sequence, vocabulary)."""
    net = GraphWriter("gpt2", seed)
    ids = net.input("input_ids", (batch, sequence), TensorProto.INT64)
    causal = np.tril(np.ones((1, 1, context, context), np.bool_))
    causal_mask = net.stored("transformer.causal_mask", causal)
    tokens = net.weight("transformer.wte.weight", (vocabulary, hidden), 1.0)
    x = net.op("Gather", tokens, ids, path="transformer.wte")
    x = net.op("Add", x, _gpt2_positions(net, ids, hidden, context), path="transformer")
    for layer in range(layers):
        path = f"transformer.h.{layer}"
        normed = _norm(net, x, f"{path}.ln_1", hidden)
        attended = _gpt2_attention(net, normed, causal_mask, f"{path}.attn", hidden, heads)
        x = net.op("Add", attended, x, path=path)
        widened = _norm(net, x, f"{path}.ln_2", hidden)
        widened = _conv1d(net, widened, f"{path}.mlp.c_fc", hidden, 4 * hidden)
        activated = _tanh_gelu(net, widened, f"{path}.mlp.act")
        narrowed = _conv1d(net, activated, f"{path}.mlp.c_proj", 4 * hidden, hidden, gain=2.0)
        x = net.op("Add", x, narrowed, path=path)
    x = _norm(net, x, "transformer.ln_f", hidden)
    scores = net.op("Transpose", tokens, perm=[1, 0], path="lm_head")
    scale = net.constant(1.0 / sqrt(hidden), dtype=np.float32, path="lm_head")
    logits = net.op("Mul", net.op("MatMul", x, scores, path="lm_head"), scale, path="lm_head")
    net.output(logits, "logits", (batch, sequence, vocabulary))
    return net.model


def _bert_embeddings(
    net: GraphWriter, ids: str, types: str, hidden: int, vocabulary: int, positions: int
) -> str:
    """The sum of the embeddings of tokens, segments, and the first `sequence` positions."""
    path = "embeddings"
    tables = {
        "word": net.weight(f"{path}.word_embeddings.weight", (vocabulary, hidden), 1.0),
        "type": net.weight(f"{path}.token_type_embeddings.weight", (2, hidden), 0.5),
        "position": net.weight(f"{path}.position_embeddings.weight", (positions, hidden), 0.5),
    }
    numbers = net.stored(f"{path}.position_ids", np.arange(positions, dtype=np.int64)[None])
    length = _unsqueezed(net, _extent(net, ids, 1, path), path)
    zero, one, step = (net.constant([value], path=path) for value in (0, 1, 1))
    position_ids = net.op("Slice", numbers, zero, length, one, step, path=path)
    words = net.op("Gather", tables["word"], ids, path=path)
    segments = net.op("Gather", tables["type"], types, path=path)
    places = net.op("Gather", tables["position"], position_ids, path=path)
    return net.op("Add", net.op("Add", words, segments, path=path), places, path=path)


def _mask_penalty(net: GraphWriter, mask: str) -> str:
    """mask (batch, sequence) of 0 and 1 -> (batch, 1, 1, sequence) of float minimum and 0."""
    wide = net.op("Unsqueeze", net.op("Unsqueeze", mask, net.constant([1])), net.constant([2]))
    kept = net.op("Cast", wide, to=TensorProto.FLOAT)
    dropped = net.op("Sub", net.constant(1.0, dtype=np.float32), kept)
    return net.op("Mul", dropped, net.constant(LARGEST_NEGATIVE, dtype=np.float32))


def _bert_attention(
    net: GraphWriter, x: str, penalty: str, path: str, hidden: int, heads: int
) -> str:
    """The projection of softmax(q k^T / sqrt(d) + penalty) v, over `heads` heads."""
    queries, keys, values = (
        _split_heads(
            net,
            _linear(net, x, f"{path}.{part}", hidden, hidden),
            f"{path}.{part}",
            (heads, hidden // heads),
            [0, 2, 3, 1] if part == "key" else [0, 2, 1, 3],
        )
        for part in ("query", "key", "value")
    )
    scores = net.op("MatMul", queries, keys, path=path)
    width = net.constant(sqrt(hidden // heads), dtype=np.float32, path=path)
    scores = net.op("Add", net.op("Div", scores, width, path=path), penalty, path=path)
    weights = net.op("Softmax", scores, axis=-1, path=path)
    mixed = _merge_heads(net, net.op("MatMul", weights, values, path=path), path, hidden)
    return _linear(net, mixed, f"{path}.output", hidden, hidden)


def _gpt2_positions(net: GraphWriter, ids: str, hidden: int, context: int) -> str:
    """The embeddings (1, sequence, hidden) of the positions 0, 1, ... of `ids`."""
    path = "transformer.wpe"
    table = net.weight(f"{path}.weight", (context, hidden), 0.5)
    length = _extent(net, ids, 1, path)
    zero, one = net.constant(0, path=path), net.constant(1, path=path)
    numbers = _unsqueezed(net, net.op("Range", zero, length, one, path=path), path)
    return net.op("Gather", table, numbers, path=path)


def _gpt2_attention(
    net: GraphWriter, x: str, causal_mask: str, path: str, hidden: int, heads: int
) -> str:
    """The projection of softmax(where(causal, q k^T / sqrt(d), float minimum)) v."""
    joined = _conv1d(net, x, f"{path}.c_attn", hidden, 3 * hidden)
    sizes = net.constant([hidden] * 3, path=path)
    queries, keys, values = net.op_with_results(3, "Split", joined, sizes, axis=2, path=path)
    split = (heads, hidden // heads)
    queries = _split_heads(net, queries, path, split, [0, 2, 1, 3])
    keys = _split_heads(net, keys, path, split, [0, 2, 1, 3])
    values = _split_heads(net, values, path, split, [0, 2, 1, 3])
    turned = net.op("Transpose", keys, perm=[0, 1, 3, 2], path=path)
    width = net.constant(sqrt(hidden // heads), dtype=np.float32, path=path)
    scores = net.op("Div", net.op("MatMul", queries, turned, path=path), width, path=path)
    allowed = _causal_window(net, causal_mask, queries, keys, path)
    lowest = net.constant(LARGEST_NEGATIVE, dtype=np.float32, path=path)
    weights = net.op(
        "Softmax", net.op("Where", allowed, scores, lowest, path=path), axis=-1, path=path
    )
    mixed = _merge_heads(net, net.op("MatMul", weights, values, path=path), path, hidden)
    return _conv1d(net, mixed, f"{path}.c_proj", hidden, hidden)


def _causal_window(net: GraphWriter, causal_mask: str, queries: str, keys: str, path: str) -> str:
    """causal_mask[:, :, key_length - query_length : key_length, :key_length]"""
    query_length, key_length = (_extent(net, tensor, 2, path) for tensor in (queries, keys))
    start = _unsqueezed(net, net.op("Sub", key_length, query_length, path=path), path)
    stop = _unsqueezed(net, key_length, path)
    zero, rows, columns, step = (net.constant([value], path=path) for value in (0, 2, 3, 1))
    window = net.op("Slice", causal_mask, start, stop, rows, step, path=path)
    return net.op("Slice", window, zero, stop, columns, step, path=path)


def _split_heads(
    net: GraphWriter, x: str, path: str, split: tuple[int, int], order: list[int]
) -> str:
    """(batch, sequence, heads * width) -> the axes (batch, sequence, heads, width) in `order`."""
    heads, width = (net.constant([extent], path=path) for extent in split)
    shape = net.op("Concat", *_batch_and_sequence(net, x, path), heads, width, axis=0, path=path)
    return net.op("Transpose", net.op("Reshape", x, shape, path=path), perm=order, path=path)


def _merge_heads(net: GraphWriter, x: str, path: str, hidden: int) -> str:
    """(batch, heads, sequence, width) -> (batch, sequence, hidden)"""
    x = net.op("Transpose", x, perm=[0, 2, 1, 3], path=path)
    last = net.constant([hidden], path=path)
    shape = net.op("Concat", *_batch_and_sequence(net, x, path), last, axis=0, path=path)
    return net.op("Reshape", x, shape, path=path)


def _linear(
    net: GraphWriter, x: str, path: str, fan_in: int, fan_out: int, gain: float = 1.0
) -> str:
    """x W + b, as exported for inputs of rank 3: a MatMul and an Add whose bias comes first."""
    weight = net.weight(f"{path}.weight", (fan_in, fan_out), sqrt(gain / fan_in))
    bias = net.weight(f"{path}.bias", (fan_out,), 0.1)
    return net.op("Add", bias, net.op("MatMul", x, weight, path=path), path=path)


def _conv1d(
    net: GraphWriter, x: str, path: str, fan_in: int, fan_out: int, gain: float = 1.0
) -> str:
    """x W + b as GPT-2 writes it: the rows of all batches in one Gemm, between two Reshapes."""
    outer = _batch_and_sequence(net, x, path)
    rows = net.op("Reshape", x, net.constant([-1, fan_in], path=path), path=path)
    weight = net.weight(f"{path}.weight", (fan_in, fan_out), sqrt(gain / fan_in))
    bias = net.weight(f"{path}.bias", (fan_out,), 0.1)
    rows = net.op("Gemm", rows, weight, bias, path=path)
    shape = net.op("Concat", *outer, net.constant([fan_out], path=path), axis=0, path=path)
    return net.op("Reshape", rows, shape, path=path)


def _norm(net: GraphWriter, x: str, path: str, hidden: int) -> str:
    scale, bias = _norm_weights(net, path, hidden)
    return net.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5, path=path)


def _spelled_out_norm(net: GraphWriter, x: str, path: str, hidden: int) -> str:
    """(x - mean) / sqrt(mean((x - mean)^2) + 1e-5) * scale + bias"""
    scale, bias = _norm_weights(net, path, hidden)
    centred = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1], path=path), path=path)
    two = net.constant(2.0, dtype=np.float32, path=path)
    squares = net.op("Pow", centred, two, path=path)
    variance = net.op("ReduceMean", squares, axes=[-1], path=path)
    epsilon = net.constant(1e-5, dtype=np.float32, path=path)
    deviation = net.op("Sqrt", net.op("Add", variance, epsilon, path=path), path=path)
    scaled = net.op("Mul", net.op("Div", centred, deviation, path=path), scale, path=path)
    return net.op("Add", scaled, bias, path=path)


def _norm_weights(net: GraphWriter, path: str, hidden: int) -> tuple[str, str]:
    scale = net.weight(f"{path}.weight", (hidden,), 0.2, 1.0)
    return scale, net.weight(f"{path}.bias", (hidden,), 0.2)


def _erf_gelu(net: GraphWriter, x: str, path: str) -> str:
    """x / 2 * (1 + erf(x / sqrt 2))"""
    root, one, half = (
        net.constant(value, dtype=np.float32, path=path) for value in (sqrt(2.0), 1.0, 0.5)
    )
    erf = net.op("Erf", net.op("Div", x, root, path=path), path=path)
    doubled = net.op("Mul", x, net.op("Add", erf, one, path=path), path=path)
    return net.op("Mul", doubled, half, path=path)


def _tanh_gelu(net: GraphWriter, x: str, path: str) -> str:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))"""
    half, three, cubic, root, one = (
        net.constant(value, dtype=np.float32, path=path)
        for value in (0.5, 3.0, 0.044715, sqrt(2.0 / pi), 1.0)
    )
    cube = net.op("Mul", net.op("Pow", x, three, path=path), cubic, path=path)
    inner = net.op("Mul", net.op("Add", x, cube, path=path), root, path=path)
    gate = net.op("Add", net.op("Tanh", inner, path=path), one, path=path)
    return net.op("Mul", net.op("Mul", x, half, path=path), gate, path=path)


def _batch_and_sequence(net: GraphWriter, x: str, path: str) -> list[str]:
    """The first two extents of `x`, each a vector of one element."""
    return [_unsqueezed(net, _extent(net, x, axis, path), path) for axis in (0, 1)]


def _extent(net: GraphWriter, x: str, axis: int, path: str) -> str:
    shape = net.op("Shape", x, path=path)
    return net.op("Gather", shape, net.constant(axis, path=path), axis=0, path=path)


def _unsqueezed(net: GraphWriter, x: str, path: str) -> str:
    return net.op("Unsqueeze", x, net.constant([0], path=path), path=path)
