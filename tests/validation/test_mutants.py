"""A sample of `python -m tests.validation`: mutants of memory plans that compute something else."""

from tests.validation.mutants import score
from tests.validation.subjects import SUBJECTS

SAMPLED = ("turning", "finding", "images", "branching", "batch_naive", "solving_naive")


def test_mutants_that_compute_something_else_are_refused():
    subjects = [each for each in SUBJECTS if each.name in SAMPLED]
    found = score(subjects, 36, seed=11)
    assert sum(found.different.values()) >= 15, "too few mutants compute something else"
    assert found.missed == []
