"""What verdicts on a file come to: what is a fault of weft's, and what is not."""

import numpy as np
import pytest

from tests.mutants.judges import Verdict
from tests.mutants.scoring import compared, differing, score_file

RAN = Verdict("ran", results=[np.ones(2, np.float32)])
TAKEN = Verdict("taken")
REFUSED = Verdict("refused", "Fail", "no")


def refused(text: str, kind: str = "ModelError", shown: str = "1 \nweft: error: no\n") -> Verdict:
    """A refusal of weft's."""
    return Verdict("refused", kind, text, shown=shown)


@pytest.mark.parametrize(
    ("theirs", "ours", "outcome"),
    [
        (RAN, Verdict("crashed", "IndexError"), "crashed: IndexError"),
        (RAN, Verdict("late", "timeout"), "late: timeout"),
        (RAN, refused("no"), "refused what onnxruntime accepts"),
        (TAKEN, refused("no"), "refused what onnxruntime accepts"),
        (REFUSED, refused("a" * 301), "an item of an error is too long"),
        (REFUSED, refused("no", shown="1 \nweft: error: a\nb\n"), "the command does not fail"),
        (REFUSED, refused("no", shown="0 \nweft: error: a\n"), "the command does not fail"),
        (REFUSED, refused("no", shown="1 \nweft: error: \x1b\n"), "the command prints control"),
        (REFUSED, RAN, "accepted what onnxruntime refuses"),
        (Verdict("failed", "Fail", "no"), RAN, "computed what onnxruntime refuses in a call"),
        (RAN, Verdict("ran", results=[np.ones(2, np.int32)]), "differs: float32"),
        (RAN, Verdict("ran", results=[np.full(2, np.nan, np.float32)]), "differs: numbers"),
    ],
)
def test_faults_are_told(theirs: Verdict, ours: Verdict, outcome: str):
    said, good = compared(theirs, ours)
    assert said.startswith(outcome)
    assert not good


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (RAN, RAN),
        (TAKEN, TAKEN),
        (RAN, refused("no", "UnsupportedError")),
        (RAN, refused("no", "BudgetError")),
        (REFUSED, refused("a" * 300 + "; " + "b" * 300)),
    ],
)
def test_what_is_as_promised_is_good(theirs: Verdict, ours: Verdict):
    assert compared(theirs, ours)[1]


def test_results_differ_by_type_shape_and_number():
    ones = np.ones((2, 3), np.float32)
    assert not differing([ones], [ones * 1.0005])
    assert differing([ones], [ones * 1.01])
    assert differing([ones], [ones.reshape(3, 2)])
    assert differing([ones], [ones.astype(np.int32)])
    assert differing([ones], [ones, ones])
    assert differing([ones.astype(np.int32)], [2 * ones.astype(np.int32)])


def test_a_file_that_is_no_model_is_refused():
    score = score_file(0, "none", "bytes", b"no model", {})
    assert (score.outcome, score.good) == ("refused", True)
