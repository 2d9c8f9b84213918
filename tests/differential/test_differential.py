"""Random programs give in every mode what their graphs' references give; what finds that out is
able to fail. `python -m tests.differential` runs for as long as asked.
"""

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.differential.coverage import OPERATORS, Coverage
from tests.differential.families import families
from tests.differential.judge import Judge, judge, modes_for
from tests.differential.modes import MODES, Mode
from tests.differential.program import Input, Program
from tests.differential.reference import slope_error
from tests.differential.session import apart, outcome_of, program_of
from tests.differential.shrink import shrink
from tests.differential.writer import whole_text, write_program
from weft.dialects.errors import PlanError

SEEDS = range(12)

SQUARES = Program(
    0,
    """def program(x0):
    v1 = x0 * 2.0
    v2 = wnp.tanh(v1)
    v3 = (v2 ** 2).sum()
    return v1, v3
""",
    (Input("x0", "float64", ("n",)),),
    ({"n": 3},),
)


def written(program, body):
    """A program of another body, with the functions that each has."""
    text = whole_text(program.seed, program.inputs, ["    pass"], [])
    head, _, tail = text.partition("def program(x0):")
    return replace(program, text=head + body + tail[tail.index("\n\n\ndef loss") :])


@pytest.fixture
def squares():
    return written(SQUARES, SQUARES.text)


@pytest.mark.parametrize("seed", SEEDS)
def test_w1_w2_random_program_gives_what_references_give(seed):
    """w1, w2: gradients of losses that are not linear, through algebra and loops, are right."""
    failures = outcome_of(seed, 2).failures
    assert not failures, f"{failures}\n{program_of(seed).text}"


def test_a_plan_that_its_proof_refuses_is_a_failure(squares):
    def make(function, program):
        raise PlanError("memory plan requires a proof, got none")

    outcome = judge(squares, [Mode("refused", "program", make)])
    assert [each.kind for each in outcome.failures] == ["plan"]


def test_the_same_seed_gives_the_same_program():
    assert write_program(5, families) == write_program(5, families)


def test_few_modes_of_a_program_are_the_same_ones_each_time():
    assert modes_for(program_of(3), 2) == modes_for(program_of(3), 2)


def _off(by):
    def make(function, program):
        return [lambda arrays: [arrays[0] * 2 + by, (np.tanh(arrays[0] * 2) ** 2).sum()]]

    return make


def test_a_wrong_result_is_a_failure(squares):
    outcome = judge(squares, [Mode("wrong", "program", _off(1e-9))])
    assert [each.kind for each in outcome.failures] == ["wrong"]


def test_a_right_result_is_none(squares):
    outcome = judge(squares, [Mode("right", "program", _off(0))])
    assert not outcome.failures
    assert outcome.modes == Counter(["right"])


def test_different_bits_of_two_threads_are_a_failure(squares):
    def make(function, program):
        return [*_off(0)(function, program), *_off(1e-16)(function, program)]

    outcome = judge(squares, [Mode("threads", "program", make)])
    assert [each.kind for each in outcome.failures] == ["threads"]


def test_a_wrong_gradient_of_the_reference_is_a_failure(squares, tmp_path):
    judged = Judge(squares, tmp_path)
    judged.functions.slopes = lambda x: judged.functions.program(x)[0]
    assert [each.mode for each in judged.run([]).failures] == ["reference of grad"]


def test_jumps_that_cancel_in_differences_are_no_failure(squares, tmp_path):
    body = SQUARES.text.replace("wnp.tanh(v1)", "wnp.where(x0 > 0.0, 1.0, x0) + 1.0")
    judged = Judge(written(replace(SQUARES, sizes=({"n": 2},)), body), tmp_path)
    graphs = judged.graph("program"), judged.graph("slopes")
    assert not slope_error(*graphs, [np.zeros(2)], (0,), 0)  # one element goes up, one goes down


def test_what_rounding_decides_is_no_failure(squares):
    """The sign of what cancels may be any, and so may be all that hangs on it."""
    body = SQUARES.text.replace("wnp.tanh(v1)", "wnp.sign(v1 * 0.1 + v1 * 0.2 - v1 * 0.3)")
    outcome = judge(written(SQUARES, body), [mode for mode in MODES if mode.name == "trace"])
    assert not outcome.failures


def test_shrinking_keeps_what_fails_and_drops_the_rest():
    body = """def program(x0):
    v1 = x0 * 2.0
    v2 = wnp.tanh(v1)
    v4 = wnp.exp(v2) + v1
    v5 = wnp.cos(v4)
    v3 = (v5 ** 2).sum()
    return v1, v4, v3
"""
    small = shrink(written(SQUARES, body), lambda program: "cos" in program.text)
    main = next(each for each in ast.parse(small.text).body if isinstance(each, ast.FunctionDef))
    assert "wnp.cos(" in small.text
    assert len(main.body) <= 3


def _abort():
    import os

    os.abort()


def test_a_crash_of_a_program_is_seen_from_outside():
    assert "SIGABRT" in str(apart(_abort))


def test_a_hang_of_a_program_is_seen_from_outside():
    def forever():
        while True:
            pass

    assert isinstance(apart(forever, patience=0.5), TimeoutError)


def test_rules_write_operators_that_there_are():
    """An operator that was renamed would be refused, and never tried again."""
    texts = [path.read_text() for path in Path(__file__).parent.glob("rules_*.py")]
    written = {name for text in texts for name in re.findall(r"\.op\(['\"](\w+)['\"]", text)}
    assert written
    assert written <= set(OPERATORS)


def test_programs_reach_the_operators_of_graphs(tmp_path):
    coverage = Coverage()
    for seed in range(60):
        judged = Judge(program_of(seed), tmp_path)
        judged._guarded("graph", judged._read)
        coverage.add(judged.outcome)
    assert len(coverage.never()) < 60
