"""What a worker is at while a model is imported."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from onnx import parser

from tests.models.networks import build_mlp
from weft.compiler.driver import compile_run_time
from weft.compiler.driver.compile_run_time import common_task, run_time_tasks
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.read_model import begin
from weft.compiler.driver.session import Session
from weft.compiler.driver.workers import Task
from weft.compiler.machine.codegen import prebuilt
from weft.compiler.machine.codegen.host import host_target

OPTIONS = Options(host_target(), artifact=Artifact("net"))
FINDS = """<ir_version: 10, opset_import: ["" : 22]>
main (float[n] x) => (int64[1, found] y) { y = NonZero(x) }"""
MODELS = {
    "static": build_mlp,
    "symbolic": partial(build_mlp, "batch"),
    "a size that it finds": partial(parser.parse_model, FINDS),
}


@dataclass
class Noting:
    """In a worker's place: notes what it is to begin with."""

    tasks: list[Task] = field(default_factory=list)

    def begin(self, task: Task) -> None:
        self.tasks.append(task)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compile_run_time, "_OBJECTS", {})
    monkeypatch.setattr(prebuilt, "_FOLDER", tmp_path)


@pytest.mark.usefixtures("own_kernels")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weights", ["embedded", "file"])
def test_a_worker_begins_with_the_run_time_that_is_needed(name: str, weights: str):
    worker, options = Noting(), OPTIONS.changed(weights=weights)
    imported = begin(MODELS[name](), Session(options, worker=worker))
    (task,) = worker.tasks
    objects = compile_model(imported, options).objects
    assert task == common_task(options)
    assert objects["runtime"] == task.object_for("net")
    assert {*compile_run_time._OBJECTS} == {*run_time_tasks(options).values()}


def test_a_worker_does_not_begin_with_a_run_time_that_is_known():
    common_task(OPTIONS).compile()
    worker = Noting()
    begin(build_mlp(), Session(OPTIONS, worker=worker))
    assert worker.tasks == []
