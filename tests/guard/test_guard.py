"""The fuzzer with guard pages: it sees what strays, it knows every operator that takes numbers, and
it finds nothing.
"""
# pyright: basic

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType

from tests.guard.call import GuardedModel
from tests.guard.cases import COMPUTED, ROUNDED, Case, Judge, WrongResult, imported
from tests.guard.emulated import EMULATORS, emulated_machine
from tests.guard.known import KNOWN, reason_of
from tests.guard.pool import run_cases
from tests.guard.probes import (
    DATA_ALONE,
    PROBES,
    model_of,
    operators_with_numbers,
    probed_operators,
)
from tests.guard.process import Machine, own_machine
from tests.support import oracle
from tests.support.samples import SAMPLES
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_loops, compile_model
from weft.compiler.graph_to_loop.naive_kernels import lower_group
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.memory.guard_buffers import GUARD_SIDES
from weft.dialects.graph import OPS, group_of

CASES, EMULATED_CASES, SECONDS = 90, 8, 60
"""How much of the fuzzer every run of the tests has; `python -m tests.guard` has more."""

PROGRAM = """
loop.kernel @first(%x: !loop.buffer<[{n}], f32>, %y: !loop.buffer<[{n}], f32>) {{
  loop.for %i = 0 to {n} {{
    %v = loop.load %x[%i] : !loop.buffer<[{n}], f32>
    loop.store %v, %y[%i] : !loop.buffer<[{n}], f32>
  }}
}}
loop.kernel @second(%x: !loop.buffer<[{n}], f32>, %y: !loop.buffer<[{n}], f32>) {{
  loop.for %i = {first} to {last} {{
    %v = loop.load %x[{load}] : !loop.buffer<[{n}], f32>
    loop.store %v, %y[{store}] : !loop.buffer<[{n}], f32>
  }}
}}
loop.program @main(%x: !loop.buffer<[{n}], f32>, %y: !loop.buffer<[{n}], f32>) inputs 1 {{
  %a = loop.alloc workspace : !loop.buffer<[{n}], f32>
  %b = loop.alloc workspace : !loop.buffer<[{n}], f32>
  loop.call @first(%x, %a) : !loop.buffer<[{n}], f32>, !loop.buffer<[{n}], f32>
  loop.call @{one}({o}) : !loop.buffer<[{n}], f32>, !loop.buffer<[{n}], f32>
  loop.call @first(%a, %y) : !loop.buffer<[{n}], f32>, !loop.buffer<[{n}], f32>
}}
"""


ON_THE_STACK = """
loop.kernel @staged(%x: !loop.buffer<[{n}], f32>, %y: !loop.buffer<[{n}], f32>) {{
  %t = loop.alloc scratch : !loop.buffer<[{n}], f32>
  loop.for %i = {first} to {last} {{
    %v = loop.load %x[%i] : !loop.buffer<[{n}], f32>
    loop.store %v, %t[{store}] : !loop.buffer<[{n}], f32>
  }}
  loop.for %i = 0 to {n} {{
    %v = loop.load %t[{load}] : !loop.buffer<[{n}], f32>
    loop.store %v, %y[%i] : !loop.buffer<[{n}], f32>
  }}
}}
loop.program @main(%x: !loop.buffer<[{n}], f32>, %y: !loop.buffer<[{n}], f32>) inputs 1 {{
  loop.call @staged(%x, %y) : !loop.buffer<[{n}], f32>, !loop.buffer<[{n}], f32>
}}
"""


@dataclass
class Straying:
    """A case of the fuzzer whose kernel is written by hand."""

    side: str
    buffers: str = "%a, %b"
    load: str = "%i"
    store: str = "%i"
    first: int = 0
    last: int = 16
    n: int = 16
    number: int = 0
    title: str = "by hand"
    operators: str = "by hand"
    program: str = PROGRAM
    machine: Machine = field(default_factory=own_machine)

    def run(self, note: Callable[[str], None]) -> Generator[str]:
        text = self.program.format(
            one="second", o=self.buffers, n=self.n, load=self.load, store=self.store,
            first=self.first, last=self.last,
        )  # fmt: skip
        compiled = compile_loops(text, Options(self.machine.targets[0], guarded=self.side))
        x = np.arange(self.n, dtype=np.float32)
        (name,) = (spec.name for spec in compiled.signature.inputs)
        with closing(self.machine.start()) as process:
            model = GuardedModel(compiled, self.side, process)
            (y,) = model({name: x})
            np.testing.assert_array_equal(y, x)
            model.close()
        yield "computed"


def finding(case):
    (report,) = run_cases(iter([case]), 60)
    return report.finding


@pytest.mark.parametrize("side", GUARD_SIDES)
def test_a_kernel_that_keeps_to_its_buffers_is_fine(side):
    assert finding(Straying(side)) is None


@pytest.mark.parametrize("buffers", ["%a, %b", "%x, %b", "%a, %y"])
@pytest.mark.parametrize(("side", "last", "first"), [("after", 17, 0), ("before", 16, -1)])
def test_a_load_or_store_beyond_a_buffer_traps(side, last, first, buffers):
    found = finding(Straying(side, buffers, first=first, last=last))
    assert "SIGSEGV" in found.text


def test_bytes_of_alignment_behind_a_buffer_of_the_workspace_are_checked():
    found = finding(Straying("after", load="%i - 1", first=1, last=16, n=15))
    assert (found.kind, "the workspace" in found.text) == ("StrayWrite", True)


@pytest.mark.parametrize("store", ["%i - 1", "%i + 1", "%i + 60", "%i - 60"])
def test_a_store_beside_a_buffer_on_the_stack_traps(store):
    found = finding(Straying("after", store=store, program=ON_THE_STACK))
    assert "SIGILL" in found.text or "SIGTRAP" in found.text


def test_what_nobody_wrote_on_the_stack_is_no_result():
    assert finding(Straying("after", last=15, program=ON_THE_STACK)).kind == "AssertionError"
    assert finding(Straying("after", load="%i + 1", program=ON_THE_STACK)).kind == "AssertionError"


def test_a_kernel_that_keeps_to_its_buffers_on_the_stack_is_fine():
    assert finding(Straying("after", program=ON_THE_STACK)) is None


FAR = np.array([[0, 1, 2, 4, -(2.0**63)], [0, -(2.0**63), 0, 2.0**63, 3]], np.float32)
POINTS = np.array([[[[0.5, 1e30]], [[-1e30, -1]], [[2.0**31, 2.0**61]]]], np.float32)


@pytest.mark.parametrize(
    ("operator", "coordinates"),
    [
        ("MaxRoiPool<pooled_shape = [3, 3]>", FAR),
        ('GridSample<mode = "linear", padding_mode = "reflection">', POINTS),
        ('GridSample<mode = "cubic", padding_mode = "reflection">', POINTS),
    ],
)
def test_coordinates_far_outside_of_an_image_have_one_meaning(operator, coordinates):
    dims = ", ".join(map(str, coordinates.shape))
    model = model_of(f"(float[1, 2, h, w] x, float[{dims}] c) => (y) {{ y = {operator}(x, c) }}")
    options = Options(host_target())
    x = np.arange(1, 171, dtype=np.float32).reshape(1, 2, 5, 17)
    outputs = compile_model(model, options).executable(1)(x, coordinates)
    assert Judge(model, options).computed({"x": x, "c": coordinates}, list(outputs)) == COMPUTED


@pytest.mark.parametrize("strict", [False, True])
def test_a_product_of_2_to_the_31_may_round_before_it_is_added_to_or_not(strict):
    model = model_of("""(float[1, 1, 5, 6] x, float[2, 4] r, int64[2] b) => (y) {
        y = RoiAlign<output_height = 3, output_width = 3, sampling_ratio = 1>(x, r, b) }""")
    options = Options(host_target(), strict_fp=strict)
    x = np.arange(1, 31, dtype=np.float32).reshape(1, 1, 5, 6)
    corners = np.array([[2.0**31, 0, -(2.0**31), 3], [0, 0, 3, 3]], np.float32)
    inputs = {"x": x, "r": corners, "b": np.zeros(2, np.int64)}
    (y,) = compile_model(model, options).executable(1)(*inputs.values())
    judge = Judge(model, options)
    assert judge.computed(inputs, [y]) in ((COMPUTED,) if strict else (COMPUTED, ROUNDED))
    y[1, 0, 2, 2] += 0.01
    with pytest.raises(WrongResult):
        judge.computed(inputs, [y])


def test_the_reference_of_very_many_copies_of_nothing_takes_no_time():
    model = model_of("(float[n, 3] x, int64[2] r) => (float[a, b] y) { y = Tile(x, r) }")
    inputs = {"x": np.ones((2, 3), np.float32), "r": np.array([2**40, 0])}
    outputs = [np.empty((2**41, 0), np.float32)]
    Judge(model, Options(host_target())).computed(inputs, outputs)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    emulator, _ = EMULATORS["aarch64"]
    if (missing := emulator.missing()) is not None:
        pytest.skip(missing)
    return emulated_machine("aarch64", tmp_path_factory.mktemp("emulated"))


@pytest.mark.parametrize(("side", "last", "first"), [("after", 17, 0), ("before", 16, -1)])
def test_what_strays_in_an_emulator_is_seen(side, last, first, emulated):
    found = finding(Straying(side, first=first, last=last, machine=emulated))
    assert (found.kind, "SIGSEGV at 0x" in found.text) == ("Crashed", True)


def test_what_strays_on_the_stack_in_an_emulator_is_seen(emulated):
    found = finding(Straying("after", store="%i + 1", program=ON_THE_STACK, machine=emulated))
    assert "SIGTRAP" in found.text


def test_a_wrong_result_is_found():
    assert finding(Straying("before", "%b, %a")).kind == "AssertionError"


def test_every_operator_that_takes_numbers_has_a_probe():
    assert operators_with_numbers() - probed_operators() == set(DATA_ALONE)


def test_every_operator_that_reads_indices_while_it_runs_is_made_of_some_probe():
    made = {op.name for probe in PROBES for op in imported(probe).module.walk()}
    missing = {op.name for op in OPS if reads_indices(op)} - made
    assert missing == {"graph.solve"}  # which no operator of ONNX becomes


def reads_indices(cls):
    """Whether the operator's loops take numbers out of tensors for subscripts."""
    found = []

    @settings(max_examples=1, phases=[Phase.generate])
    @given(SAMPLES[cls])
    def lower(sample):
        group = group_of(oracle.operator(cls, sample))
        found.extend(lower_group(group, list(group.body.block.args), {}).walk())

    lower()
    casts = (op for op in found if isinstance(op, arith.IndexCastOp))
    return any(isinstance(op.result.type, IndexType) for op in casts)


def test_what_is_known_has_a_reason():
    assert all(known.reason for known in KNOWN)


def test_the_fuzzer_finds_nothing():
    assert computed(Case(number, 0) for number in range(CASES)) > 100


def test_the_fuzzer_finds_nothing_in_an_emulator(emulated):
    cases = (Case(number, 1, machine=emulated) for number in range(EMULATED_CASES))
    assert computed(cases) > 20


def computed(cases: Iterator[Case]) -> int:
    """How many calls of the cases gave results; all were right."""
    reports = list(run_cases(cases, SECONDS))
    findings = [report.finding for report in reports if report.finding is not None]
    assert [str(each) for each in findings if reason_of(each) is None] == []
    return sum(report.outcomes["computed"] for report in reports)
