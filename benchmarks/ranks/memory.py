"""The memory of a model whose weights are on two ranks, by the stages of a pipeline, or each cut:

    python -m benchmarks.ranks.memory 64 4096 stage       layers, and their width: 4.3 GB
    python -m benchmarks.ranks.memory 64 4096 model

writes the model, compiles it for `stage=2` or `model=2` with the weights in a file, and calls it on
two processes. Each may have half of the weights, its workspace and 300 MB at most, and 200 MB
beside them that it had not before it loaded the model.
"""
# pyright: basic

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

import weft

MOST_BESIDE, MOST_MORE = 300e6, 200e6
CALLS = 3


def write_model(folder: Path, layers: int, width: int) -> Path:
    """Products and tanh one behind the other, with one file of weights."""
    block = np.random.default_rng(0).normal(0, width**-0.5, (width, width)).astype(np.float32)
    weights, nodes = [], []
    with (folder / "weights.bin").open("wb") as out:
        for n in range(layers):
            weight = onnx.TensorProto(name=f"w{n}", data_type=1, dims=[width, width])
            weight.data_location = onnx.TensorProto.EXTERNAL
            places = {"location": "weights.bin", "offset": out.tell(), "length": block.nbytes}
            for key, value in places.items():
                entry = weight.external_data.add()
                entry.key, entry.value = key, str(value)
            weights.append(weight)
            (block * np.float32(1 + n / layers)).tofile(out)
            nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"y{n}"], f"/{n}"))
            nodes.append(helper.make_node("Tanh", [f"y{n}"], [f"x{n + 1}"]))
    ends = [helper.make_tensor_value_info(f"x{n}", 1, (4, width)) for n in (0, layers)]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    path = folder / "layers.onnx"
    opset = [helper.make_opsetid("", 21)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    )
    return path


def most_memory() -> float:
    """The most bytes that this process has had resident."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def run_rank(artifact: Path, weight_bytes: float) -> None:
    """Calls the artifact; refuses more memory than a rank may have."""
    before = most_memory()
    executable = weft.load(artifact, threads=1)
    x = np.ones(executable.inputs[0].dims, np.float32)
    for _ in range(CALLS):
        (y,) = executable(x)
    assert np.isfinite(y).all()
    most = most_memory()
    own = weight_bytes / 2 + executable.metadata["workspace_bytes"]
    found = f"{most / 1e6:.0f} MB at most, {before / 1e6:.0f} of them before"
    print(f"rank {weft.rank()}: {found}; its part is {own / 1e6:.0f} MB", flush=True)
    assert most <= own + MOST_BESIDE, "a rank has the memory of its part alone"
    assert most - before <= own + MOST_MORE, "a rank loads its part of the weights"


def cut(layers: int, axis: str) -> list[str]:
    """How the weights are on two ranks: those of half of the layers, or columns of a layer's and
    rows of the next one's.
    """
    if axis == "stage":
        return ["--mesh", "stage=2", "--stage", f"/{layers // 2}=1"]
    dims = [f"w{n}={',model' if n % 2 == 0 else 'model'}" for n in range(layers)]
    return ["--mesh", "model=2", *(word for each in dims for word in ("--shard", each))]


def main(layers: int, width: int, axis: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, artifact = write_model(folder, layers, width), folder / "layers.so"
        command = [sys.executable, "-m", "weft"]
        how = ["-o", artifact, "--weights", "file", *cut(layers, axis)]
        subprocess.run([*command, "compile", model, *how, "--no-cache"], check=True)
        size = str(4.0 * layers * width * width)
        ranks = ["launch", "-n", "2", "--all-output", "--timeout", "300", __file__]
        subprocess.run([*command, *ranks, artifact, size], check=True)


if __name__ == "__main__":
    if sys.argv[1].isdecimal():
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    else:
        run_rank(Path(sys.argv[1]), float(sys.argv[2]))
