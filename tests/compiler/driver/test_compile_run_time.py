"""The run time comes with weft, or is compiled once for all models of a target."""

import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import weft
from weft.compiler.driver import compile_run_time
from weft.compiler.driver.compile_run_time import (
    common_task,
    run_time_tasks,
    write_prebuilt_objects,
)
from weft.compiler.driver.options import Options
from weft.compiler.machine.artifact.cache import Cache
from weft.compiler.machine.codegen import prebuilt
from weft.compiler.target.arm import AARCH64
from weft.compiler.target.features import baseline
from weft.compiler.target.module_target import named_target
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import X86_64

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
def emitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What of the code is emitted, in a process that knows none yet and where none comes along."""
    parts: list[str] = []

    def noting(name: str):
        emit = getattr(compile_run_time, name)

        def note(*arguments):
            parts.append(name)
            return emit(*arguments)

        monkeypatch.setattr(compile_run_time, name, note)

    noting("emit_run_time")
    noting("emit_levels")
    monkeypatch.setattr(compile_run_time, "_OBJECTS", {})
    monkeypatch.setattr(prebuilt, "_FOLDER", tmp_path / "none")
    return parts


def test_models_share_one_object(emitted: list[str]):
    x, z = np.array([-1, 0, 2, 3], np.float32), np.ones((3, 5), np.float32)
    calls = {"one input": [x], "two of each": [x, z], "no input": [], "a size that it finds": [x]}
    results = {
        name: weft.compile(model(name), prefix=f"p{number}", cache=False)(*inputs)
        for number, (name, inputs) in enumerate(calls.items())
    }
    assert sorted(emitted) == ["emit_levels", "emit_run_time"]
    np.testing.assert_array_equal(results["one input"], [[0, 0, 2, 3]])
    np.testing.assert_array_equal(results["two of each"][1], -z)
    np.testing.assert_array_equal(results["no input"], [[1, 2, 3, 4]])
    np.testing.assert_array_equal(results["a size that it finds"], [[[0, 2, 3]]])


def test_a_cache_has_the_object_for_other_processes(emitted: list[str], tmp_path):
    weft.compile(model("one input"), cache=Cache(tmp_path))
    compile_run_time._OBJECTS.clear()
    weft.compile(model("two of each"), prefix="other", cache=Cache(tmp_path))
    assert sorted(emitted) == ["emit_levels", "emit_run_time"]


@pytest.mark.parametrize("name", ["neoverse-n1", "x86-64-v3", "wasm32"])
def test_only_objects_that_are_not_elf_are_of_one_prefix(name: str):
    options = [Options(named_target(name)).named(prefix) for prefix in ("a", "b")]
    first, second = map(run_time_tasks, options)
    assert (first == second) == (name != "wasm32")
    assert {each.target for each in first.values()} == {baseline(options[0].target)}


def content(path: Path) -> tuple[bytes, bytes]:
    """A key, and the object behind it."""
    key, _, packed = path.read_bytes().partition(b"\n")
    return key, zlib.decompress(packed)


@pytest.mark.parametrize("target", [X86_64, AARCH64], ids=lambda each: each.name)
def test_what_comes_with_weft_is_what_it_would_compile(
    target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Else `python -m weft.compiler.driver.compile_run_time` has to write it anew."""
    folder = prebuilt._FOLDER
    monkeypatch.setattr(prebuilt, "_FOLDER", tmp_path)
    monkeypatch.setattr(compile_run_time, "_PREBUILT", (target,))
    write_prebuilt_objects()
    written = [each.name for each in tmp_path.iterdir()]
    assert len(written) == 4
    for name in written:
        (made_from, code), (comes_from, comes) = content(tmp_path / name), content(folder / name)
        assert made_from == comes_from
        assert code == comes


def test_what_was_made_from_other_sources_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    task = common_task(Options(X86_64))
    assert task.find_prebuilt() == task.compile_anew()
    monkeypatch.setattr(compile_run_time, "_SOURCES", (Path(__file__),))
    assert task.find_prebuilt() is None
    assert common_task(Options(named_target("riscv64"))).find_prebuilt() is None


def test_code_of_another_text_is_not_taken_from_the_cache(tmp_path, monkeypatch):
    """Of another Python the entry reads other members, under the same name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def compiled(text: str) -> bytes:
        made.append(text)
        return text.encode()

    for text in ("one", "other", "one"):
        code = prebuilt.OwnCode("none_such", (), (text,), (), partial(compiled, text))
        assert code._object() == text.encode()
    assert made == ["one", "other"]
