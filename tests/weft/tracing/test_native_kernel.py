"""Operators that are native functions: in every mode, in artifacts, and what is refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import weft
import weft.numpy as wnp
from weft.compilation import compile_cached
from weft.compiler.driver.options import Options
from weft.compiler.loop_to_llvm.runtime import EXPORTS, LIBC_NAMES
from weft.compiler.machine.artifact.verify import verify
from weft.compiler.machine.codegen.host import host_target

SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static const float one = 1.0f;
static int64_t calls;
void scale(const float *x, const float *w, float *y, int64_t n, int64_t m) {
  calls++;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) y[i * m + j] = x[i * m + j] * w[j] + one;
}
void turned(const double *x, double *y, int64_t *total, int64_t n) {
  double *copy = malloc(n * 8 + 8);
  memcpy(copy, x, n * 8);
  for (int64_t i = 0; i < n; i++) y[i] = copy[n - 1 - i];
  y[n] = 7;
  *total = n;
  free(copy);
}
/* another object */
float cosf(float x);
void cosine(const float *x, float *y) { *y = cosf(*x); }
"""
SCALE = "scale(float32[n, m], float32[m]) -> float32[n, m]"
TURNED = "turned(float64[n]) -> (float64[n + 1], int64[])"
X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.array([1, 2, 3], np.float32)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Object files of C: the functions that need libc alone, and one that needs more."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("requires a C compiler")
    folder = tmp_path_factory.mktemp("native")
    good, _, cosine = SOURCE.partition("/* another object */")
    found: dict[str, Path] = {}
    other = good.replace("+ one", "- one")
    for name, text in {"good": good, "other": other, "cosine": cosine}.items():
        source, found[name] = folder / f"{name}.c", folder / f"{name}.o"
        source.write_text(text)
        command = [compiler, "-O2", "-c", str(source), "-o", str(found[name])]
        subprocess.run(command, check=True, timeout=60)
    return found


@pytest.fixture(scope="module")
def scale(objects: dict[str, Path]) -> weft.NativeKernel:
    return weft.NativeKernel(SCALE, objects["good"], onnx="com.example.Scale")


def test_every_mode_calls_it(scale: weft.NativeKernel, objects: dict[str, Path]):
    turned = weft.NativeKernel(TURNED, objects["good"])
    expected = X * W + 1
    np.testing.assert_array_equal(scale(X, W), expected)
    tensor = scale(weft.Tensor(X), W)
    assert isinstance(tensor, weft.Tensor)
    np.testing.assert_array_equal(tensor, expected)
    y, total = turned(np.arange(4.0))
    assert (y.tolist(), int(total)) == ([3, 2, 1, 0, 7], 4)

    def program(x: Any, w: Any) -> Any:
        y = scale(wnp.maximum(x, 1), w)
        for _ in range(2):
            y = scale(y, w) - x  # a value around, and a constant operand
        return y + scale(x.T, np.ones(2, np.float32)).T

    def reference(x: Any, w: Any) -> Any:
        y = np.maximum(x, 1) * w + 1
        for _ in range(2):
            y = y * w + 1 - x
        return y + x + 1

    expected = reference(X, W)
    np.testing.assert_array_equal(program(weft.Tensor(X), weft.Tensor(W)), expected)
    np.testing.assert_array_equal(weft.jit(program)(X, W), expected)
    traced = weft.trace(program, weft.Spec("float32", (2, "m")), weft.Spec("float32", ("m",)))
    np.testing.assert_array_equal(traced(X, W), expected)
    assert traced.metadata["native_calls"][0]["libc"] == ["free", "malloc", "memcpy"]


def test_an_object_is_known_by_its_content(scale: weft.NativeKernel, objects: dict[str, Path]):
    """Caches and linkers take no other of its names for it."""
    other = weft.NativeKernel(SCALE, objects["other"])
    for kernel, one in ((scale, 1), (other, -1)):
        traced = weft.trace(lambda x, w, kernel=kernel: kernel(x, w) * 2, X, W)
        np.testing.assert_array_equal(traced(X, W), 2 * (X * W + one))
    both = weft.jit(lambda x, w: (scale(x, w), other(x, w)))
    np.testing.assert_array_equal(both(X, W), [X * W + 1, X * W - 1])
    unread = weft.trace(lambda x, w: (scale(x, w), x + w)[1], X, W)
    assert "native_calls" not in unread.metadata


def test_control_flow_and_samples_call_it_each_time(scale: weft.NativeKernel):
    @weft.jit
    def program(x: Any, w: Any, n: Any) -> Any:
        i = 0
        while i < n:
            x = scale(x, w) if x[0, 0] > 3 else x + 2
            i += 1
        return x

    x = X.copy()
    for _ in range(4):
        x = x * W + 1 if x[0, 0] > 3 else x + 2
    np.testing.assert_array_equal(program(X, W, np.int64(4)), x)
    batch = np.stack([X, X + 1])
    mapped = weft.jit(weft.vmap(scale, in_axes=(0, None)))
    np.testing.assert_array_equal(mapped(batch, W), batch * W + 1)


def test_a_rule_of_the_users_is_its_derivative(scale: weft.NativeKernel):
    def loss(x: Any, w: Any) -> Any:
        return (scale(x, w) ** 2).sum()

    rule = r"the native kernel scale \(weft\.custom_vjp"
    for gradient in (weft.grad(loss), weft.jit(weft.grad(loss))):
        with pytest.raises(weft.WeftError, match=rule):
            gradient(weft.Tensor(X), weft.Tensor(W))
    ruled = weft.custom_vjp(
        scale,
        lambda x, w: (scale(x, w), (x, w)),
        lambda saved, c: (c * saved[1], (c * saved[0]).sum(axis=0)),
    )

    def repeated(x: Any, w: Any) -> Any:
        return weft.fori_loop(0, 2, lambda _, y: ruled(y, w), x).sum()

    y = X * W + 1
    for gradient in (weft.grad(repeated), weft.jit(weft.grad(repeated))):
        found = gradient(weft.Tensor(X), weft.Tensor(W))
        np.testing.assert_allclose(found, np.broadcast_to(W * W, X.shape))
    second = weft.jit(weft.grad(repeated, argnums=1))(weft.Tensor(X), weft.Tensor(W))
    np.testing.assert_allclose(second, (y + X * W).sum(axis=0))


def test_sizes_that_differ_are_refused(scale: weft.NativeKernel):
    with pytest.raises(weft.InputError):
        scale(X, W[:2])
    with pytest.raises(weft.InputError):
        scale(X.astype(np.float64), W)
    with pytest.raises(weft.TypeInferenceError, match=r"test_native_kernel\.py:\d+: .*operand 1"):
        weft.trace(lambda x: scale(x, x), X)
    with pytest.raises(weft.TypeInferenceError, match="scale's sizes as declared, got 2 and 3"):
        weft.trace(scale, X, W[:2])
    with pytest.raises(weft.TypeInferenceError, match="2 operands of scale"):
        weft.trace(scale, X)
    open_sizes = weft.trace(scale, weft.Spec("float32", ("n", "m")), weft.Spec("float32", ("k",)))
    np.testing.assert_array_equal(open_sizes(X, W), X * W + 1)
    with pytest.raises(weft.InputError, match="m"):
        open_sizes(X, W[:2])


def test_artifacts_have_the_function_in_them(scale: weft.NativeKernel, tmp_path: Path):
    """Also that of a graph file, which needs no extension; two models in one process, too."""
    graph = weft.Graph("scaled")
    rows = graph.input("x", "float32", ("n", 3))
    graph.output("y", scale(rows * 2, graph.constant(W)))
    model = weft.compile(graph)
    expected = X * 2 * W + 1
    model.export(tmp_path / "scaled.so")
    weft.save_graph(graph, tmp_path / "scaled.mlir")
    again = weft.compile(tmp_path / "scaled.mlir")
    for each in (model, weft.load(tmp_path / "scaled.so"), again):
        np.testing.assert_array_equal(each(X)[0], expected)
    again.export(tmp_path / "again.o")
    again.export(tmp_path / "again.a")
    verify(tmp_path / "scaled.so", host_target(), exports=EXPORTS, libc=LIBC_NAMES)


def test_nodes_of_a_model_call_it(scale: weft.NativeKernel):
    value = helper.make_tensor_value_info
    node = helper.make_node("Scale", ["x", "w"], ["y"], domain="com.example")
    inputs = [value("x", TensorProto.FLOAT, ["n", 3]), value("w", TensorProto.FLOAT, [3])]
    graph = helper.make_graph([node], "g", inputs, [value("y", TensorProto.FLOAT, ["n", 3])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(weft.UnsupportedError, match="Scale, com.example"):
        weft.compile(model)
    (y,) = weft.compile(model, extensions=(weft.Extension(kernels=(scale,)),))(X, W)
    np.testing.assert_array_equal(y, X * W + 1)


def test_what_no_artifact_can_have_is_refused(objects: dict[str, Path], tmp_path: Path):
    good = objects["good"]
    with pytest.raises(weft.ArtifactError, match=r"defines sort for others, got scale, turned"):
        weft.NativeKernel("sort(float32[n]) -> float32[n]", good)
    with pytest.raises(weft.ArtifactError, match=r"kernel cosine .*libc alone, got cosf"):
        weft.NativeKernel("cosine(float32[]) -> float32[]", objects["cosine"])
    with pytest.raises(weft.ArtifactError, match="64-bit little-endian"):
        weft.NativeKernel(SCALE, b"no object")
    with pytest.raises(weft.ArtifactError, match=r"none\.o requires a readable file"):
        weft.NativeKernel(SCALE, tmp_path / "none.o")


@pytest.mark.parametrize(
    ("signature", "got"),
    [
        ("scale(float32[n])", "requires a signature"),
        ("scale(float32[n]) -> float32[n] x", "requires a signature"),
        ("scale(floaty[n]) -> float32[n]", "requires a signature"),
        ("scale(float32[n]) -> ()", "requires a signature"),
        ("a.b(float32[n]) -> float32[n]", "requires a signature"),
        ("scale(float32[n + 1]) -> float32[n]", "dims of their own, got n \\+ 1|1 \\+ n"),
        ("scale(float32[n]) -> float32[k]", "dims of their own, got k"),
        ("scale(int4[n]) -> float32[n]", "whole bytes|requires a signature"),
    ],
)
def test_signatures_are_read_whole(signature: str, got: str):
    with pytest.raises(weft.OptionError, match=got):
        weft.NativeKernel(signature, b"")


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
def _doubled(x: int, y: int, n: int) -> None:
    given, filled = (np.ctypeslib.as_array((ctypes.c_float * n).from_address(at)) for at in (x, y))
    filled[:] = 2 * given


def test_a_pointer_works_in_this_process_alone(tmp_path: Path):
    doubled = weft.NativeKernel("doubled(float32[n]) -> float32[n]", pointer=_doubled)
    np.testing.assert_array_equal(doubled(W), 2 * W)
    traced = weft.trace(lambda x: doubled(x + 1), W)
    for program in (traced, weft.jit(lambda x: doubled(x + 1))):
        np.testing.assert_array_equal(program(W), 2 * (W + 1))
    address = ctypes.cast(_doubled, ctypes.c_void_p).value
    again = weft.NativeKernel("other(float32[n]) -> float32[n]", pointer=address)
    np.testing.assert_array_equal(again(W), 2 * W)
    graph = weft.Graph("g")
    graph.output("y", doubled(graph.input("x", "float32", ("n",))))
    model = weft.compile(graph)
    np.testing.assert_array_equal(model(W)[0], 2 * W)
    rule = "requires native kernels of object files, got doubled at an address of this process"
    for name in ("m.so", "m.a", "m.o"):
        with pytest.raises(weft.ArtifactError, match=rule):
            model.export(tmp_path / name)
    with pytest.raises(weft.OptionError, match=rule):
        weft.save_graph(graph, tmp_path / "m.mlir")
    assert not [*tmp_path.iterdir()]
    compiled = compile_cached(graph.imported(), Options().named("g"), None)
    cache = weft.Cache(tmp_path / "cache")
    assert cache.keep("0" * 64, compiled) is compiled
    for wrong in ({}, {"pointer": 0}, {"pointer": "f"}, {"pointer": 1, "object": b""}):
        with pytest.raises(weft.OptionError, match="native kernel doubled requires"):
            weft.NativeKernel("doubled(float32[n]) -> float32[n]", **wrong)
