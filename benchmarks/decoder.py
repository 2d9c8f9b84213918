"""A decoder with weights of 4 or 8 bits in blocks of 32, one step at a time or reading a prompt,
beside onnxruntime and llama.cpp.

    python -m benchmarks.decoder -o OUT.jsonl [--layers 24] [--width 1024] [--past 128]
        [--tokens 1] [--bits 4] [--activations float] [--threads 1] [--llama FOLDER]

By default some 430 million random parameters: MatMulNBits, GroupQueryAttention with four heads of
keys, rotary embeddings and no biases; a width of 2048 has 1.2 billion with 16 layers. A step reads
one token behind `past` others, whose keys and values are in caches that it writes in place; a
prompt of several tokens has none before it. Processor time of one
thread, elapsed time of several; a call, the peers' and a loop that reads as many bytes take turns.
llama.cpp, whose activations are int8, gets the same weights as GGUF where the package `gguf` is
installed, and FOLDER has node_modules with node-llama-cpp.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import weft
from benchmarks.decoder_gguf import Llama
from benchmarks.decoder_gguf import blocks as gguf_blocks
from benchmarks.decoder_gguf import write as write_gguf
from benchmarks.quantized import SPINNING
from weft.bench.limits import READ, UNROLLED, compiled_loops, touched_memory
from weft.compiler.machine.codegen.host import host_target

Array = NDArray[Any]
Run = Callable[[], Array]

INNER, KEYS, SIZE = 4, 4, 64
"""Widths of the gated product, heads of keys, and what a head has."""

WORDS, BLOCK, LONGEST = 32000, 32, 2048
ROUNDS: Final = 15
MICROSOFT: Final = "com.microsoft"
TOKEN: Final = 7


_RESIDENT: Final = """\
import json, sys, time
from pathlib import Path
import numpy as np
import weft

def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

folder = Path(sys.argv[1])
feeds = dict(np.load(folder / "feeds.npz"))
before, start = anonymous(), time.process_time()
executable = weft.load(folder / "decoder.so", threads=1)
loaded = time.process_time()
outputs = executable(**feeds)
called = time.process_time()
own = (each for each in outputs if not any(np.shares_memory(each, x) for x in feeds.values()))
kept = sum(each.nbytes for each in own)
used = anonymous() * 1024 - before * 1024 - kept
print(json.dumps({
    "load_s": loaded - start, "first_call_s": called - loaded, "anonymous_mb": used / 1e6,
}))
"""


class Case(NamedTuple):
    """A decoder, how many steps are before the call that is measured, and its tokens."""

    layers: int
    past: int
    bits: int
    activations: str
    width: int = 1024
    tokens: int = 1
    threads: int = 1

    @property
    def known(self) -> int:
        """Positions of the caches that a call is given: those of a step have room for its own."""
        return self.past + self.tokens if self.past else 0

    @property
    def donated(self) -> dict[str, str]:
        """The caches in whose memory a step writes its own keys and values."""
        names = [f"{each}{n}" for n in range(self.layers) for each in "kv"]
        return {f"p{name}": f"n{name}" for name in names} if self.past else {}

    @property
    def heads(self) -> int:
        """Those of queries."""
        return self.width // SIZE


class Writer:
    """Nodes and weights of the decoder; `bytes` are those of codes and of scales in f16, which weft
    and llama.cpp read, `stored` are the weights as GGUF has them.
    """

    def __init__(self, case: Case) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.stored: dict[str, Array] = {}
        self.bytes = 0
        self.case, self._level = case, 4 if case.activations == "int8" else 0
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
        """A product with a weight of a few bits, whose scales are numbers of f16."""
        blocks, bits = depth // BLOCK, self.case.bits
        numbers = self._rng.integers(0, 1 << bits, (columns, blocks, BLOCK), np.uint8)
        codes = numbers if bits == 8 else numbers[..., ::2] | numbers[..., 1::2] << 4
        scales = self._rng.uniform(8, 24, (columns * blocks,)) / (depth**0.5 * (1 << bits))
        scales = scales.astype(np.float16).astype(np.float32)
        self.stored[name] = gguf_blocks(numbers, scales, bits)
        self.bytes += codes.nbytes + scales.nbytes // 2
        operands = [x, self.weight(f"{name}.w", codes), self.weight(f"{name}.s", scales)]
        sizes = {"K": depth, "N": columns, "bits": bits, "block_size": BLOCK}
        sizes["accuracy_level"] = self._level
        return self.add("MatMulNBits", operands, [name], **sizes)

    def norm(self, x: str, name: str) -> str:
        """A root mean square normalisation."""
        self.stored[name] = np.ones(self.case.width, np.float32)
        scale = self.weight(f"{name}.g", self.stored[name])
        return self.add("SimplifiedLayerNormalization", [x, scale], [name], axis=-1, epsilon=1e-5)


def build(case: Case) -> tuple[onnx.ModelProto, Writer]:
    """The decoder, and the weights that it has; logits are those of the last token."""
    net, width = Writer(case), case.width
    rng = np.random.default_rng(2)
    net.stored["table"] = rng.standard_normal((WORDS, width), np.float32)
    table = net.weight("table", net.stored["table"])
    angles = np.outer(np.arange(LONGEST), 1e4 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    for name, of in (("cos", np.cos), ("sin", np.sin)):
        net.weight(name, of(angles).astype(np.float32))
    x = net.add("Gather", [table, "ids"], ["embedded"])
    for n in range(case.layers):
        x = layer(net, x, n)
    x = net.add("Gather", [x, net.weight("end", np.array([case.tokens - 1]))], ["ended"], axis=1)
    logits = net.linear(net.norm(x, "last"), "logits", width, WORDS)
    value = helper.make_tensor_value_info
    inputs = [
        value("ids", TensorProto.INT64, [1, case.tokens]),
        value("seqlens", TensorProto.INT32, [1]),
        value("total", TensorProto.INT32, []),
    ]
    outputs = [value(logits, TensorProto.FLOAT, [1, 1, WORDS])]
    shape, grown = ([1, KEYS, count, SIZE] for count in (case.known, case.past + case.tokens))
    for name in (f"{each}{n}" for n in range(case.layers) for each in "kv"):
        inputs.append(value(f"p{name}", TensorProto.FLOAT, shape))
        outputs.append(value(f"n{name}", TensorProto.FLOAT, grown))
    graph = helper.make_graph(net.nodes, "decoder", inputs, outputs, net.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), net


def layer(net: Writer, x: str, n: int) -> str:
    """Attention with a cache, and a gated product."""
    near, width = net.norm(x, f"{n}.first"), net.case.width
    query = net.linear(near, f"{n}.q", width, width)
    key, given = (net.linear(near, f"{n}.{each}", width, KEYS * SIZE) for each in "kv")
    operands = [query, key, given, f"pk{n}", f"pv{n}", "seqlens", "total", "cos", "sin"]
    heads = {"num_heads": net.case.heads, "kv_num_heads": KEYS, "do_rotary": 1}
    mixed = net.add("GroupQueryAttention", operands, [f"{n}.mixed", f"nk{n}", f"nv{n}"], **heads)
    x = net.add("Add", [x, net.linear(mixed, f"{n}.o", width, width)], [f"{n}.sum"])
    near = net.norm(x, f"{n}.second")
    gate, up = (net.linear(near, f"{n}.{each}", width, INNER * width) for each in ("gate", "up"))
    soft = net.add("Sigmoid", [gate], [f"{n}.soft"])
    gated = net.add("Mul", [gate, soft], [f"{n}.silu"])
    inner = net.add("Mul", [gated, up], [f"{n}.inner"])
    return net.add("Add", [x, net.linear(inner, f"{n}.down", INNER * width, width)], [f"{n}.out"])


def read_loop(size: int, threads: int) -> Run:
    """A loop of weft's that reads so many bytes."""
    target = host_target()
    lanes = target.lanes(4)
    rows = size // (UNROLLED * lanes * 4 * threads)
    shape = (threads, rows, UNROLLED, lanes)
    x = touched_memory(size)[: prod(shape)].reshape(shape)
    executable = compiled_loops(READ, target, threads, 0).executable(threads)
    once = np.empty(1, np.int8)
    return lambda: np.asarray(executable(x, x, once)[0])


def inputs(case: Case, total: int) -> dict[str, Array]:
    """The operands of a call whose last token is the `total`-th."""
    rng = np.random.default_rng(3)
    shape = (1, KEYS, case.known, SIZE)
    feeds: dict[str, Array] = {
        f"p{each}{n}": rng.standard_normal(shape, np.float32)
        for n in range(case.layers)
        for each in "kv"
    }
    counts = {"seqlens": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    return feeds | {"ids": np.full((1, case.tokens), TOKEN)} | counts


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """A model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def bound(session: onnxruntime.InferenceSession, case: Case, feeds: dict[str, Array]) -> Run:
    """Calls of onnxruntime whose caches are written in place, as `donated` says; their logits."""
    binding, caches = session.io_binding(), {}
    for name, array in feeds.items():
        caches[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        binding.bind_ortvalue_input(name, caches[name])
    for output in session.get_outputs():
        binding.bind_output(output.name)
    for source, target in case.donated.items():
        binding.bind_ortvalue_output(target, caches[source])

    def run() -> Array:
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()

    return run


def save(model: onnx.ModelProto, folder: Path, name: str) -> Path:
    """The model as a file, with its weights beside it."""
    path = folder / f"{name}.onnx"
    onnx.save(model, path, save_as_external_data=True, location=f"{name}.bin")
    return path


def difference(left: Array, right: Array) -> float:
    """The greatest difference, in parts of the greatest number."""
    return float(np.abs(left - right).max() / np.abs(right).max())


def first_step(case: Case, folder: Path, llama: Llama) -> dict[str, Any]:
    """How far logits of the first step are from llama.cpp's, less the mean of each, and whether the
    greatest is the same. Of llama.cpp only logarithms of probabilities are known.
    """
    case = case._replace(past=1, tokens=1)
    path, feeds = save(build(case)[0], folder, "first"), inputs(case, 1)
    executable = weft.compile(path, threads=1, donate=case.donated)
    given = np.asarray(executable(**feeds)[0]).ravel()
    theirs = llama.log_probabilities(TOKEN)
    apart = difference(given - given.mean(), theirs - theirs.mean())
    return {"difference_llama": apart, "argmax_llama": bool(given.argmax() == theirs.argmax())}


def measure(case: Case, folder: Path, llama: Path | None) -> dict[str, Any]:
    """The row: milliseconds of a call, bytes of weights and caches, and what can be read."""
    model, net = build(case)
    path, feeds = save(model, folder, "decoder"), inputs(case, case.past + case.tokens)
    start = time.process_time()
    executable = weft.compile(path, threads=case.threads, donate=case.donated)
    compile_s = time.process_time() - start
    size = net.bytes + sum(each.nbytes for each in feeds.values())
    calls: dict[str, Run] = {
        "weft": lambda: np.asarray(executable(**feeds)[0]),
        "onnxruntime": bound(session(path, case.threads), case, feeds),
        "read": read_loop(size, case.threads),
    }
    given, theirs = (calls[name]() for name in ("weft", "onnxruntime"))
    row: dict[str, Any] = {"bytes": size, "compile_s": compile_s}
    row["difference"] = difference(given, theirs)
    row |= resident(executable, feeds, folder)
    with ExitStack() as opened:
        clock = time.process_time if case.threads == 1 else time.perf_counter
        measured = {name: partial(_seconds, call, clock) for name, call in calls.items()}
        if llama is not None:
            heads = {"q": case.heads, "k": KEYS}
            write_gguf(folder / "decoder.gguf", net.stored, case.bits, heads)
            process = opened.enter_context(Llama(folder / "decoder.gguf", llama, case.threads))
            row |= first_step(case, folder, process)
            for _ in range(case.past):
                process.step(TOKEN)
            reads = process.step if case.tokens == 1 else process.prompt
            measured["llama"] = partial(reads, TOKEN, case.tokens)
        spent: dict[str, list[float]] = {name: [] for name in measured}
        for _ in range(ROUNDS):
            for name, seconds in measured.items():
                if case.threads > 1:
                    time.sleep(SPINNING)
                spent[name].append(seconds())
    row |= {name: 1e3 * median(times) for name, times in spent.items()}
    best = min(row[name] for name in ("onnxruntime", "llama") if name in row)
    return row | {"share_of_bandwidth": row["read"] / row["weft"], "ratio": best / row["weft"]}


def resident(executable: weft.Executable, feeds: dict[str, Array], folder: Path) -> dict[str, Any]:
    """What a process of its own takes to load the decoder as an artifact, whose weights were packed
    by the compiler, and to call it once, in seconds; and its anonymous megabytes beside the caches.
    """
    executable.export(folder / "decoder.so")
    np.savez(folder / "feeds.npz", **feeds)
    command = [sys.executable, "-c", _RESIDENT, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Seconds of a call."""
    start = clock()
    call()
    return clock() - start


def main() -> None:
    """Measures, prints and records one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--past", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=1, help="of a prompt; its past is 0 then")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bits", type=int, default=4, choices=(4, 8))
    parser.add_argument("--activations", default="float", choices=("float", "int8"))
    parser.add_argument("--llama", type=Path, help="a folder with node-llama-cpp")
    chosen = parser.parse_args()
    past = chosen.past if chosen.tokens == 1 else 0
    case = Case(
        chosen.layers, past, chosen.bits, chosen.activations,
        chosen.width, chosen.tokens, chosen.threads,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        row = measure(case, Path(scratch), chosen.llama)
    line = json.dumps({**case._asdict(), **row})
    print(line)
    with chosen.output.open("a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    main()
