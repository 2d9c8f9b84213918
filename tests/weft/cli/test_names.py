"""Hostile names through every kind of result (N1 to N4): a sample of `python -m tests.names`."""

from pathlib import Path

import pytest

from tests.names import HOSTILE, check, sample
from weft.compiler.machine.bindings.names import c_identifier

N1 = HOSTILE[0]


def test_n1_n2_n3_n4_hostile_names_compile_clean_or_are_refused_in_one_line(tmp_path: Path):
    """N1, N2, N3, N4: as names of files, tensors, nodes, weights and sizes."""
    assert check(sample(40), [N1, *sample(8)[1:]], tmp_path.resolve()) == 9


def test_there_are_a_hundred_hostile_names():
    assert len(set(HOSTILE)) >= 100


@pytest.mark.parametrize(
    "name", ["class", "None", "fn", "func", "type", "main", "std", "json", "weft", "llvm"]
)
def test_n4_words_that_languages_have_taken_get_another_prefix(name: str):
    """N4"""
    assert c_identifier(name) == f"model_{name}"
