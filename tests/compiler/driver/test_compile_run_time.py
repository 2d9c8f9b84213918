"""The run time is compiled once for all models of a target."""

import numpy as np
import pytest
from onnx import parser

import weft
from weft.compiler.driver import compile_run_time
from weft.compiler.driver.compile_run_time import run_time_task
from weft.compiler.driver.options import Options
from weft.compiler.machine.artifact.cache import Cache
from weft.compiler.target.features import baseline
from weft.compiler.target.module_target import named_target

MODELS = {
    "one input": ("float[4] x", "float[4] y", "y = Relu(x)"),
    "two of each": (
        "float[4] x, float[n, 5] z",
        "float[4] y, float[n, 5] w",
        "y = Exp(x) w = Neg(z)",
    ),
    "no input": ("", "float[4] y", "y = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>()"),
    "a size that it finds": ("float[n] x", "int64[1, found] y", "y = NonZero(x)"),
}


def model(name: str):
    inputs, outputs, nodes = MODELS[name]
    text = f'<ir_version: 10, opset_import: ["" : 22]> main ({inputs}) => ({outputs}) {{ {nodes} }}'
    return parser.parse_model(text)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prefixes for which code is emitted, in a process that knows none yet."""
    prefixes: list[str] = []
    emit = compile_run_time.emit_run_time

    def noting(target, prefix, levels):
        prefixes.append(prefix)
        return emit(target, prefix, levels)

    monkeypatch.setattr(compile_run_time, "_OBJECTS", {})
    monkeypatch.setattr(compile_run_time, "emit_run_time", noting)
    return prefixes


def test_models_share_one_object(emitted: list[str]):
    x, z = np.array([-1, 0, 2, 3], np.float32), np.ones((3, 5), np.float32)
    calls = {"one input": [x], "two of each": [x, z], "no input": [], "a size that it finds": [x]}
    results = {
        name: weft.compile(model(name), prefix=f"p{number}", cache=False)(*inputs)
        for number, (name, inputs) in enumerate(calls.items())
    }
    assert len(emitted) == 1
    np.testing.assert_array_equal(results["one input"], [[0, 0, 2, 3]])
    np.testing.assert_array_equal(results["two of each"][1], -z)
    np.testing.assert_array_equal(results["no input"], [[1, 2, 3, 4]])
    np.testing.assert_array_equal(results["a size that it finds"], [[[0, 2, 3]]])


def test_a_cache_has_the_object_for_other_processes(emitted: list[str], tmp_path):
    weft.compile(model("one input"), cache=Cache(tmp_path))
    compile_run_time._OBJECTS.clear()
    weft.compile(model("two of each"), prefix="other", cache=Cache(tmp_path))
    assert len(emitted) == 1


@pytest.mark.parametrize("name", ["neoverse-n1", "x86-64-v3", "wasm32"])
def test_only_objects_that_are_not_elf_are_of_one_prefix(name: str):
    first, second = (run_time_task(Options(named_target(name)).named(p)) for p in ("a", "b"))
    assert (first == second) == (name != "wasm32")
    assert first.target == baseline(first.target)
