"""The commands that measure programs in plain NumPy and steps of training: small ones go through
the commands themselves, in this process, and an engine whose answer differs is found.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.numeric import __main__ as numeric
from benchmarks.numeric import cases as numeric_cases
from benchmarks.numeric import programs
from benchmarks.numeric.turns import measure_turns
from benchmarks.training import __main__ as training
from benchmarks.training import cases as training_cases
from weft import nn
from weft.bench.rounds import Measured, difference, disagreement
from weft.bench.session import PeerLacks

STENCIL = numeric_cases.Program("stencil", lambda draw: [draw.uniform(0.0, 1.0, (9, 8))], (0.2, 3))


class Small(nn.Module):
    """Four numbers to three."""

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Dense(4, 3)

    def construct(self, x):
        return self.only(x)


def batch():
    return np.arange(8, dtype=np.float32).reshape(2, 4), np.array([0, 2])


SMALL = training_cases.Training("small", Small, batch, 1e-2, adam=False)


def measured_here(jobs, *, rounds, seconds):
    """What `measure_jobs` gives, without processes or time."""
    answers, found = None, []
    for name, job in jobs.items():
        session = job.load()
        given = session.arrays(session.call())
        answers = given if answers is None else answers
        reason = disagreement(answers, given)
        each = Measured(name, "differs" if reason else "ok", reason or "")
        each.difference, each.rounds = difference(answers, given), [2.0] * rounds
        found.append(each)
    return found


def rows_of(command, path, monkeypatch, *arguments):
    """The rows that a command writes, and how it exits."""
    monkeypatch.setattr(command, "measure_jobs", measured_here)
    monkeypatch.setattr(
        "sys.argv", ["command", *arguments, "--threads", "1", "--output", str(path)]
    )
    with pytest.raises(SystemExit) as ended:
        command.main()
    return [json.loads(line) for line in path.read_text().splitlines()], ended.value.code


def test_numeric_programs(tmp_path, monkeypatch, capsys):
    compiled = numeric_cases._compiled

    def some_wrong(engine, name, threads):
        right = compiled("numpy" if "loops" in engine else engine, name, threads)
        return (lambda *given: right(*given) + 1e-3) if "loops" in engine else right

    monkeypatch.setattr(numeric_cases, "PROGRAMS", (STENCIL,))
    monkeypatch.setattr(numeric_cases, "_compiled", some_wrong)
    arguments = ["stencil", "--engines", "weft,numpy,numba loops"]
    (row,), code = rows_of(numeric, tmp_path / "rows", monkeypatch, *arguments)
    assert (row["case"], row["threads"], code) == ("stencil", 1, 0)
    status = {name: engine["status"] for name, engine in row["engines"].items()}
    assert status == {"weft": "ok", "numpy": "ok", "numba loops": "differs"}
    assert row["engines"]["numpy"]["ratio"] == 1.0
    assert "stencil" in capsys.readouterr().out
    again, _ = rows_of(numeric, tmp_path / "rows", monkeypatch, *arguments)
    assert again == [row]  # what the file has is not measured again


def test_turns_in_this_process(monkeypatch):
    compiled = numeric_cases._compiled
    monkeypatch.setattr(
        numeric_cases,
        "_compiled",
        lambda engine, name, threads: compiled(
            "weft" if engine == "weft" else "numpy", name, threads
        ),
    )
    jobs = {name: numeric_cases.ProgramJob((0,), name, "stencil") for name in ("weft", "numba")}
    jobs["none"] = numeric_cases.ProgramJob((0,), "jax", "edit_distance")
    monkeypatch.setattr(numeric_cases, "_by_jax", lambda name, arguments: lacking(name))
    monkeypatch.setattr(
        numeric_cases, "PROGRAMS", (STENCIL, replace(STENCIL, name="edit_distance"))
    )
    ours, theirs, none = measure_turns(jobs, rounds=2, seconds=0.001)
    assert (ours.status, theirs.status, none.status) == ("ok", "ok", "lacks")
    assert len(ours.rounds) == len(theirs.rounds) == 2
    assert none.reason == "no edit_distance"


def lacking(name):
    raise PeerLacks(f"no {name}")


LOOPS = [each for each in numeric_cases.PROGRAMS if hasattr(programs, f"{each.name}_loops")]


@pytest.mark.parametrize("program", LOOPS, ids=lambda program: program.name)
def test_loops_agree_with_programs(program):
    given = [each[:20] if isinstance(each, np.ndarray) else each for each in program.arguments()]
    if program.name == "softmax_regression":
        given[0], given[2] = given[0][:, :20], given[2][:20]
    plain, loops = (getattr(programs, f"{program.name}{end}")(*given) for end in ("", "_loops"))
    np.testing.assert_allclose(plain, loops, rtol=1e-4, atol=1e-7)


def test_steps_of_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training_cases, "TRAININGS", (SMALL,))
    monkeypatch.setattr(training, "TRAININGS", (SMALL,))
    eager = training_cases._eager
    other = replace(SMALL, rate=0.5)
    monkeypatch.setattr(training_cases, "_torch", lambda case, threads, compiled: eager(other))
    engines = ["--engines", "weft,weft eager,torch"]
    (row,), code = rows_of(training, tmp_path / "rows", monkeypatch, *engines)
    status = {name: engine["status"] for name, engine in row["engines"].items()}
    assert (status, code) == ({"weft": "ok", "weft eager": "ok", "torch": "differs"}, 0)
