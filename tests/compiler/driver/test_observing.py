"""Somebody who looks at a compilation sees each pass, why operators stay apart, and each kernel."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.models.convolutional import build_lenet
from tests.support.small_models import dense_model
from weft.compiler.driver.compile_kernels import KernelTask, parse_kernel
from weft.compiler.driver.observing.kernel_texts import KernelTexts
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import IMPORTED, compile_model, naive_kernels
from weft.compiler.driver.session import Session
from weft.compiler.loop.pseudocode import pseudocode
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.context import Refusals

OPTIONS = Options(host_target())


class Looking:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.refusals: Refusals = {}
        self.stages: list[str] = []
        self.kernels: dict[str, KernelTexts] = {}

    def look_at_module(self, stage: str, module: ModuleOp) -> None:
        self.stages.append(stage)

    def look_at_kernel(self, name: str, texts: KernelTexts) -> None:
        self.kernels[name] = texts


@pytest.fixture(scope="module")
def looking() -> Looking:
    seen = Looking()
    compile_model(build_lenet(), OPTIONS, Session(OPTIONS, observer=seen))
    return seen


def test_each_pass_is_shown(looking: Looking):
    first, *rest = looking.stages
    assert first == IMPORTED
    assert rest.index("weft-fuse") < rest.index("weft-graph-to-loop") < len(rest) - 1


def test_the_steps_of_a_schedule_end_at_the_scheduled_kernel():
    (text,) = naive_kernels(dense_model(), OPTIONS).values()
    code = KernelTask(
        "k", text, OPTIONS.target, options(), keep_texts=True, observed=True
    ).compile()
    assert code.texts is not None
    lines = code.texts.naive.splitlines()
    for step in code.texts.steps:
        for edit in step.edits:
            lines[edit.start : edit.start + edit.removed] = edit.added
    assert lines != code.texts.naive.splitlines()
    # The workspace that became arguments is declared elsewhere.
    loops = [line for line in pseudocode(parse_kernel(code.kernel)).splitlines() if "for " in line]
    assert [line for line in lines if "for " in line] == loops


def test_kernels_are_shown_to_their_assembly(looking: Looking):
    (conv, *_) = [texts for name, texts in looking.kernels.items() if name.startswith("conv")]
    assert "reduction(add)" in conv.naive
    assert any(step.call.startswith("vectorize") for step in conv.steps)
    assert "define" in conv.ir
    assert "Inner Loop Header" in conv.assembly
    gemm = next(texts for name, texts in looking.kernels.items() if name.startswith("gemm"))
    (plans,) = gemm.plans
    assert plans.chosen.plan
    assert plans.extents


def test_why_operators_stay_apart(looking: Looking):
    reasons = looking.refusals["conv1_Tanh_output", "pool1_AveragePool_output"]
    assert reasons[0] == "both are more than elementwise operators and movements"


def test_nothing_is_kept_where_nobody_looks():
    (text,) = naive_kernels(dense_model(), OPTIONS).values()
    assert KernelTask("k", text, OPTIONS.target, options()).compile().texts is None


def options():
    from weft.dialects.module_attributes import CodeOptions

    return CodeOptions(prefix="m")
