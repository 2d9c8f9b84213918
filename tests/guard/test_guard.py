"""The fuzzer with guard pages: it sees what strays, it knows every operator that takes numbers, and
it finds nothing.
"""
# pyright: basic

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest

from compiler.machine.host import host_target
from compiler.options import Options
from compiler.pipeline import compile_loops
from compiler.program.guard_buffers import GUARD_SIDES
from tests.guard.call import GuardedModel
from tests.guard.cases import Case
from tests.guard.known import KNOWN, reason_of
from tests.guard.pool import run_cases
from tests.guard.probes import DATA_ALONE, operators_with_numbers, probed_operators

CASES, SECONDS = 90, 60
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

    def run(self, note: Callable[[str], None]) -> Generator[str]:
        text = PROGRAM.format(
            one="second", o=self.buffers, n=self.n, load=self.load, store=self.store,
            first=self.first, last=self.last,
        )  # fmt: skip
        model = GuardedModel(
            compile_loops(text, Options(host_target(), guarded=self.side)), self.side
        )
        x = np.arange(self.n, dtype=np.float32)
        (name,) = (spec.name for spec in model.signature.inputs)
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


def test_a_wrong_result_is_found():
    assert finding(Straying("before", "%b, %a")).kind == "AssertionError"


def test_every_operator_that_takes_numbers_has_a_probe():
    assert operators_with_numbers() - probed_operators() == set(DATA_ALONE)


def test_what_is_known_has_a_reason():
    assert all(known.reason for known in KNOWN)


def test_the_fuzzer_finds_nothing():
    cases = (Case(number, 0) for number in count())
    reports = list(run_cases((case for case, _ in zip(cases, range(CASES), strict=False)), SECONDS))
    findings = [report.finding for report in reports if report.finding is not None]
    assert [str(each) for each in findings if reason_of(each) is None] == []
    assert sum(report.outcomes["computed"] for report in reports) > 100
