"""What is known of an artifact as soon as its model is imported."""

from dataclasses import dataclass, field
from functools import partial

import pytest
from onnx import parser

from tests.models.networks import build_mlp
from weft.compiler.driver.kernel_makers import ScheduledKernels, _run_times
from weft.compiler.driver.lowering import UNSCHEDULED, lower
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import optimize_graph
from weft.compiler.driver.read_model import begin
from weft.compiler.driver.session import Session
from weft.compiler.driver.workers import Task
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.context import WeftContext

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


@pytest.mark.parametrize("name", MODELS)
def test_a_worker_begins_with_the_run_time_that_is_needed(name: str):
    worker = Noting()
    session = Session(OPTIONS, worker=worker)
    imported = begin(MODELS[name](), session)
    optimize_graph(imported.module, WeftContext(imported.weights), session)
    lower(imported.module, imported.weights, ScheduledKernels(session), session, UNSCHEDULED)
    assert worker.tasks == _run_times(imported.module, OPTIONS) != []


def test_a_worker_does_not_begin_where_weights_are_outside():
    worker = Noting()
    begin(build_mlp(), Session(OPTIONS.changed(weights="file"), worker=worker))
    assert worker.tasks == []
