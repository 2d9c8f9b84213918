"""Exported kernels are valid upstream MLIR, before and after they are scheduled."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.compiler.loop.kernels import (
    convolution,
    gather,
    kernel,
    loops,
    matmul,
    pointwise,
    row_sum,
    scatter,
    softmax,
)
from weft.compiler.loop.export_mlir import export_kernel
from weft.compiler.loop.primitives import (
    collapse,
    pack,
    panels,
    parallelize,
    prefetch,
    split_reduction,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import LoadOp
from weft.dialects.loop.program import KernelOp

DEBIAN = Path("/usr/lib/llvm-22/bin/mlir-opt")
MLIR_OPT = shutil.which("mlir-opt") or shutil.which("mlir-opt-22") or str(DEBIAN)
needs_mlir_opt = pytest.mark.skipif(
    not Path(MLIR_OPT).exists(), reason="no mlir-opt here (Debian: mlir-22-tools)"
)
TO_LLVM = [
    "--lower-affine",
    "--convert-scf-to-cf",
    "--expand-strided-metadata",
    "--convert-math-to-llvm",
    "--convert-arith-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-cf-to-llvm",
    "--convert-func-to-llvm",
    "--reconcile-unrealized-casts",
]


def read_ahead() -> KernelOp:
    op = row_sum()
    prefetch(next(each for each in op.walk() if isinstance(each, LoadOp)), loops(op, "i")[0], 2)
    return op


def tiled_and_packed() -> KernelOp:
    op = matmul(12, 32, 8)
    (b,) = (v for v in op.body.block.args if v.name_hint == "B")
    pack(b, panels(b.type, 1, 16))
    i, j = loops(op, "i", "j")
    tile(j, 16)
    tiles = tile(i, 5)
    stage_tile(next(v for v in op.body.block.args if v.name_hint == "A"), tiles.inner, "scratch")
    parallelize(tiles.outer)
    return op


def symbolic_and_collapsed() -> KernelOp:
    op = pointwise("n", "m", ["n", "m"])
    tiles = tile(collapse(*loops(op, "m", "n")), 16)
    unroll(vectorize(tiles.inner, 8))
    return op


def partial_sums() -> KernelOp:
    op = row_sum(3, 21)
    split_reduction(loops(op, "k")[0], 8)
    return op


def branch() -> KernelOp:
    def br(b: LoopBuilder, x, y):
        with b.loops(["n"], "i") as (i,), b.when(b.load(x, (i,)) > 0):
            b.store(y, (i,), b.load(x, (i,)).math("exp"))

    return kernel(br, ["n"], x=["n"], y=["n"])


def activation() -> KernelOp:
    def twice(b: LoopBuilder, x, y):
        with b.loops(["n"], "i") as (i,):
            b.store(y, (i,), b.load(x, (i,)).math("gelu").math("gelu"))

    return kernel(twice, ["n"], x=["n"], y=["n"])


EXPORTED = [
    matmul,
    softmax,
    convolution,
    gather,
    scatter,
    branch,
    activation,
    read_ahead,
    tiled_and_packed,
    symbolic_and_collapsed,
    partial_sums,
]


def run_mlir_opt(text: str, *passes: str) -> str:
    process = subprocess.run(
        [MLIR_OPT, "-", *passes], input=text, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, f"{process.stderr}\n{text}"
    return process.stdout


@needs_mlir_opt
@pytest.mark.parametrize("make", EXPORTED, ids=lambda make: make.__name__)
def test_mlir_opt_verifies_and_lowers_what_is_exported(make):
    text = export_kernel(make())
    assert "llvm.func" in run_mlir_opt(text, *TO_LLVM)


@needs_mlir_opt
def test_mlir_opt_refuses_what_is_broken():
    text = export_kernel(matmul()).replace("affine.load %A[%i, %k]", "affine.load %A[%i]")
    with pytest.raises(AssertionError, match="error"):
        run_mlir_opt(text)


def test_affine_loops_and_accesses_are_exported_as_such():
    text = export_kernel(matmul(3, "n", 4, ["n"]))
    assert "affine.for %j = 0 to affine_map<()[s0] -> (s0)>()[%size_n]" in text
    assert "affine.load %A[%i, %k] : memref<3x4xf32>" in text
    assert "scf" not in text


def test_subscripts_from_memory_are_exported_as_index_arithmetic():
    text = export_kernel(gather())
    assert "memref.load %x[" in text
    assert "affine.load %ids[%i]" in text
