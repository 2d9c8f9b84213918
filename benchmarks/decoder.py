"""A decoder with weights of 4 bits in blocks of 32, one step at a time, beside onnxruntime.

    python -m benchmarks.decoder -o OUT.jsonl [--layers 24] [--past 128]

By default some 430 million random parameters: MatMulNBits, GroupQueryAttention with four heads of
keys, rotary embeddings and no biases. Processor time of one thread; a step, the peer's and a loop
that reads as many bytes take turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.bench.limits import READ, UNROLLED, compiled_loops, touched_memory
from weft.compiler.machine.codegen.host import host_target

Array = NDArray[Any]

WIDTH, INNER, HEADS, KEYS, SIZE = 1024, 4096, 16, 4, 64
WORDS, BLOCK, LONGEST = 32000, 32, 2048
ROUNDS: Final = 15
MICROSOFT: Final = "com.microsoft"


class Writer:
    """Nodes and weights of the decoder; `bytes` are those of codes and scales."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.bytes = 0
        self._rng = np.random.default_rng(1)

    def add(self, op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> str:
        """A node, whose first output is returned."""
        standard = op in ("Gather", "Mul", "Sigmoid", "Add", "SimplifiedLayerNormalization")
        domain = "" if standard else MICROSOFT
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def weight(self, name: str, array: Array) -> str:
        """A constant."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def linear(self, x: str, name: str, depth: int, columns: int) -> str:
        """A product with a weight of 4 bits."""
        blocks = depth // BLOCK
        codes = self._rng.integers(0, 256, (columns, blocks, BLOCK // 2), np.uint8)
        scales = self._rng.uniform(0.5, 1.5, (columns * blocks,)) / (4 * depth**0.5)
        scales = scales.astype(np.float32)
        self.bytes += codes.nbytes + scales.nbytes
        operands = [x, self.weight(f"{name}.w", codes), self.weight(f"{name}.s", scales)]
        sizes = {"K": depth, "N": columns, "bits": 4, "block_size": BLOCK}
        return self.add("MatMulNBits", operands, [name], **sizes)

    def norm(self, x: str, name: str) -> str:
        """A root mean square normalisation."""
        scale = self.weight(f"{name}.g", np.ones(WIDTH, np.float32))
        return self.add("SimplifiedLayerNormalization", [x, scale], [name], axis=-1, epsilon=1e-5)


def build(layers: int, past: int) -> tuple[onnx.ModelProto, int]:
    """The decoder, and the bytes of weights that a step reads."""
    net = Writer()
    rng = np.random.default_rng(2)
    table = net.weight("table", rng.standard_normal((WORDS, WIDTH), np.float32))
    angles = np.outer(np.arange(LONGEST), 1e4 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    for name, of in (("cos", np.cos), ("sin", np.sin)):
        net.weight(name, of(angles).astype(np.float32))
    x = net.add("Gather", [table, "ids"], ["embedded"])
    for n in range(layers):
        x = layer(net, x, n)
    logits = net.linear(net.norm(x, "last"), "logits", WIDTH, WORDS)
    value = helper.make_tensor_value_info
    inputs = [
        value("ids", TensorProto.INT64, [1, 1]),
        value("seqlens", TensorProto.INT32, [1]),
        value("total", TensorProto.INT32, []),
    ]
    outputs = [value(logits, TensorProto.FLOAT, [1, 1, WORDS])]
    for n in range(layers):
        for each in "kv":
            inputs.append(value(f"p{each}{n}", TensorProto.FLOAT, [1, KEYS, past, SIZE]))
            outputs.append(value(f"n{each}{n}", TensorProto.FLOAT, [1, KEYS, past + 1, SIZE]))
    graph = helper.make_graph(net.nodes, "decoder", inputs, outputs, net.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), net.bytes


def layer(net: Writer, x: str, n: int) -> str:
    """Attention with a cache, and a gated product."""
    near = net.norm(x, f"{n}.first")
    query = net.linear(near, f"{n}.q", WIDTH, HEADS * SIZE)
    key, given = (net.linear(near, f"{n}.{each}", WIDTH, KEYS * SIZE) for each in "kv")
    operands = [query, key, given, f"pk{n}", f"pv{n}", "seqlens", "total", "cos", "sin"]
    heads = {"num_heads": HEADS, "kv_num_heads": KEYS, "do_rotary": 1}
    mixed = net.add("GroupQueryAttention", operands, [f"{n}.mixed", f"nk{n}", f"nv{n}"], **heads)
    x = net.add("Add", [x, net.linear(mixed, f"{n}.o", HEADS * SIZE, WIDTH)], [f"{n}.sum"])
    near = net.norm(x, f"{n}.second")
    gate, up = (net.linear(near, f"{n}.{each}", WIDTH, INNER) for each in ("gate", "up"))
    soft = net.add("Sigmoid", [gate], [f"{n}.soft"])
    gated = net.add("Mul", [gate, soft], [f"{n}.silu"])
    inner = net.add("Mul", [gated, up], [f"{n}.inner"])
    return net.add("Add", [x, net.linear(inner, f"{n}.down", INNER, WIDTH)], [f"{n}.out"])


def read_loop(size: int) -> Callable[[], object]:
    """A loop of weft's that reads so many bytes on one thread."""
    target = host_target()
    lanes = target.lanes(4)
    rows = size // (UNROLLED * lanes * 4)
    x = touched_memory(size)[: rows * UNROLLED * lanes].reshape(1, rows, UNROLLED, lanes)
    executable = compiled_loops(READ, target, 1, 0).executable(1)
    once = np.empty(1, np.int8)
    return lambda: executable(x, x, once)


def measure(layers: int, past: int, folder: Path) -> dict[str, Any]:
    """The row: milliseconds of a step, bytes of weights and caches, and what can be read."""
    model, weights = build(layers, past)
    path = folder / "decoder.onnx"
    onnx.save(model, path, save_as_external_data=True, location="decoder.bin")
    rng = np.random.default_rng(3)
    shape = (1, KEYS, past, SIZE)
    feeds: dict[str, Array] = {
        f"p{each}{n}": rng.standard_normal(shape, np.float32)
        for n in range(layers)
        for each in "kv"
    }
    feeds |= {"ids": np.array([[7]]), "seqlens": np.array([past], np.int32)}
    feeds["total"] = np.array(past + 1, np.int32)
    start = time.process_time()
    executable = weft.compile(path, threads=1, cache=False)
    compile_s = time.process_time() - start
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    size = weights + sum(each.nbytes for each in feeds.values())
    calls: dict[str, Callable[[], Any]] = {
        "weft": lambda: executable(**feeds),
        "onnxruntime": lambda: session.run(None, feeds),
        "read": read_loop(size),
    }
    given, theirs = (np.asarray(calls[name]()[0]) for name in ("weft", "onnxruntime"))
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            spent[name].append(time.process_time() - start)
    row: dict[str, Any] = {name: 1e3 * median(times) for name, times in spent.items()}
    return row | {
        "bytes": size,
        "share_of_bandwidth": row["read"] / row["weft"],
        "ratio": row["onnxruntime"] / row["weft"],
        "difference": float(np.abs(given - theirs).max() / np.abs(theirs).max()),
        "compile_s": compile_s,
    }


def main() -> None:
    """Measures, prints and records one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--past", type=int, default=128)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        row = measure(arguments.layers, arguments.past, Path(scratch))
    line = json.dumps({"layers": arguments.layers, "past": arguments.past, **row})
    print(line)
    with arguments.output.open("a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    main()
