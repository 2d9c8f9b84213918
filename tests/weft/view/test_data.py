"""What a page shows, as data for scripts."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from onnx import numpy_helper

import weft
import weft.view
from tests.models.convolutional import build_lenet
from tests.support.small_models import add_model, dense_model
from tests.weft.cli.command import Command
from weft.view import Page, Run, View
from weft.view.measure import histogram
from weft.view.page import as_json

Pages = Callable[[str], tuple[Page, Path]]

UNTIMED = Run(timed=False)


def test_json_is_the_records(pages: Pages):
    view = pages("conv")[0].data
    assert msgspec.json.decode(as_json(view), type=View) == view


def test_each_call_of_a_kernel_comes_from_an_operator(pages: Pages):
    (build,) = pages("conv")[0].data.builds
    for call in build.calls:
        assert call.node is not None
        assert set(call.origin) == set(build.nodes[call.node].origin)
    assert {each.kernel for each in build.calls} == {each.name for each in build.kernels}


def test_the_times_of_a_thread_and_its_gaps_are_the_call(pages: Pages):
    (build,) = pages("conv")[0].data.builds
    time = build.time
    assert time is not None
    for thread in range(time.threads):
        own = sorted(
            (each for each in time.spans if each.thread == thread), key=lambda s: s.begin_ns
        )
        assert all(0 <= each.begin_ns <= each.end_ns <= time.median_ns for each in own)
        assert all(a.end_ns <= b.begin_ns for a, b in zip(own, own[1:], strict=False))


def test_an_artifact_shows_what_it_holds(tmp_path: Path):
    weft.compile(dense_model()).export(tmp_path / "libdense.so")
    (build,) = weft.view.data(tmp_path / "libdense.so").builds
    assert build.kernels
    assert build.calls
    assert build.time is not None
    assert "holds no graph" in build.missing["graph"]


def test_two_builds_of_one_model_compute_the_same(tmp_path: Path):
    for name, strict in (("a", False), ("b", True)):
        weft.compile(dense_model(), strict_fp=strict).export(tmp_path / f"lib{name}.so")
    view = weft.view.data(tmp_path / "liba.so", tmp_path / "libb.so", run=UNTIMED)
    assert [each.file for each in view.builds] == ["liba.so", "libb.so"]
    assert view.parting is not None
    assert [each.name for each in view.parting.outputs] == ["y"]
    assert view.parting.outputs[0].of_scale < 1e-5


def test_two_models_part_at_the_first_value_that_differs():
    model, other = build_lenet(), build_lenet()
    (node,) = [each for each in other.graph.node if each.name == "/fc1/Gemm"]
    (weight,) = [each for each in other.graph.initializer if each.name == node.input[1]]
    weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name))
    parting = weft.view.data(model, other, run=UNTIMED).parting
    assert parting is not None
    assert parting.outputs[0].of_scale > 1e-4
    assert (parting.value, parting.node) == (node.output[0], "/fc1/Gemm")
    same = weft.view.data(model, build_lenet(), run=UNTIMED).parting
    assert same is not None
    assert same.value is None


def test_sizes_that_nobody_says_leave_times_out():
    (build,) = weft.view.data(dense_model("rows"), run=UNTIMED).builds
    assert "require a size for each name" in build.missing["time"]


def test_what_depends_on_sizes_is_a_number_once_it_ran():
    (build,) = weft.view.data(dense_model("rows"), run=Run(dims={"rows": 3})).builds
    assert build.kernels[0].flops == 3 * 80 * (2 * 96 + 2)
    assert isinstance(build.calls[0].bytes, int)
    assert all(isinstance(each.offset, int) for each in build.memory.buffers)


def test_an_executable_and_a_function_have_pages():
    exe = weft.compile(add_model())
    (build,) = exe.view(run=UNTIMED).data.builds
    assert [each.name for each in build.inputs] == ["x", "y"]
    made = weft.jit(lambda x: x + 1).view(np.ones(4, np.float32))
    assert made.data.builds[0].stages
    assert "<iframe srcdoc=" in made._repr_html_()


def test_a_histogram_names_the_first_element_that_is_not_finite():
    array = np.zeros((2, 3), np.float32)
    array[1, 0], array[1, 2] = np.inf, np.nan
    found = histogram("x", array)
    assert (found.zeros, found.nans, found.infinities) == (4, 1, 1)
    assert found.first_not_finite == (1, 0)
    assert sum(found.counts) == 4


def test_the_command_writes_a_page_or_prints_its_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    command, model = Command(capsys), tmp_path / "dense.onnx"
    model.write_bytes(dense_model().SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.ones((64, 96), np.float32))
    out = tmp_path / "out.html"
    command.succeeds("view", model, "--no-time", "-o", out)
    assert out.read_text().startswith("<!DOCTYPE html>")
    how = ("--inputs", tmp_path / "x.npz", "--threads", "2", "--json")
    text = command.succeeds("view", model, *how)
    assert json.loads(text)["builds"][0]["time"]["calls_ns"]
    (kernel,) = json.loads(text)["builds"][0]["kernels"]
    own = tmp_path / "own.txt"
    own.write_text(f"schedules 2\n@{kernel['name']} {{\n}}\n")
    text = command.succeeds("view", model, "--no-time", "--schedule", own, "--json")
    first, second = json.loads(text)["builds"]
    assert first["kernels"][0]["schedules"] == ["contraction"]
    assert second["kernels"][0]["schedules"] == ["forced"]
    assert "requires inputs out of x" in command.fails("view", model, "--inputs", _wrong(tmp_path))
    assert "requires a run" in command.fails("view", model, "--no-time", "--watch", "y")


def _wrong(folder: Path) -> Path:
    np.savez(folder / "wrong.npz", z=np.ones(3))
    return folder / "wrong.npz"
