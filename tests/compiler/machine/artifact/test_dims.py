"""Sizes as text are read, never evaluated (N2)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.compiler.machine.artifact.dims import depth_of, program_of, size_of
from weft.dialects.errors import ArtifactError


@pytest.mark.parametrize("name", ["class", "None", "lambda", "True", "int", "größe"])
def test_symbols_may_be_keywords_of_python(name: str):
    """N2"""
    assert size_of(f"2 * {name} + 1")({name: 3}) == 7
    assert depth_of(program_of(name, [name])) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("-n * 2", -14), ("n - m - 1", 3), ("2 + n * m", 23), ("(2 + n) * m", 27),
        ("--n", 7), ("n floordiv m mod 2", 0), ("max(3, n, m) * 2", 14), ("min(n, max(m, 2))", 3),
    ],
)  # fmt: skip
def test_operators_bind_as_in_the_text_of_the_graph(text: str, size: int):
    assert size_of(text)({"n": 7, "m": 3}) == size


@pytest.mark.parametrize(
    "text",
    [
        "", "n n", "n +", "(n", "n)", "max", "max()", "n, m", "(n, m)", "n.real",
        "n ** 2", "n // 2",
        "'a' * 3", "floordiv", "__import__('os')", "9" * 5000,
    ],
)  # fmt: skip
def test_n2_other_text_is_refused(text: str):
    """N2: text that Python would evaluate is no size."""
    with pytest.raises(ArtifactError, match="requires integer expressions as dims"):
        size_of(text)


@given(st.text(alphabet="nm(,)+-*12 maxmin_floordiv'.[]"))
def test_n2_any_text_is_read_or_refused(text: str):
    """N2"""
    with contextlib.suppress(ArtifactError):
        program_of(text, ["n", "m"])


def test_deep_brackets_are_read():
    depth = 50_000
    assert size_of("(" * depth + "n" + ")" * depth)({"n": 3}) == 3
