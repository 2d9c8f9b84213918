"""Operators that look at the strings of a call, beside onnxruntime: those that make strings, cut
them into parts, and compare what the model does not have.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.compiler.frontend.test_onnx_string_inputs import agree, cities, model_of
from tests.models.peer import run_onnxruntime
from weft.compiler.frontend.onnx.strings.automaton import byte_ranges
from weft.compiler.frontend.onnx.strings.regex import automaton_of
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.weights import Array


def texts(*given: str) -> Array:
    return np.array(given, np.object_)


SENTENCES = texts("a bc, d", "", " xyz ü", "foo-bar foo- baz", "abab;a,c", "the The  THE")

MADE = """agraph (string[n, 1] x, string[1, 3] z) => (string[n, 3] joined, string[n, 4] moved,
    bool[n, 3] same, bool[n, 1] matches, string[m, 1] kept) {
  joined = StringConcat(x, z)
  moved = Concat <axis = 1> (joined, x)
  same = Equal(x, z)
  matches = RegexFullMatch <pattern = "[a-z]{2,4}|Z.*h"> (x)
  flat = Constant <value_ints = [-1]> ()
  holds = Reshape(matches, flat)
  kept = Compress <axis = 0> (x, holds)
}"""


def test_strings_that_no_model_has_are_joined_compared_moved_and_given() -> None:
    agree(MADE, x=cities(33).reshape(-1, 1), z=texts("oslo", "東京", "").reshape(1, 3))


DISTINCT = """agraph (string[n] x, string[k, 2] z) => (string[m] y, int64[m] i, int64[n] j,
    int64[m] c, string[m] first, string[r, 2] rows) {
  y, i, j, c = Unique(x)
  first = Unique <sorted = 0> (x)
  rows = Unique <axis = 0> (z)
}"""


def test_distinct_strings_are_in_the_order_of_their_characters() -> None:
    agree(DISTINCT, x=cities(), z=cities(60).reshape(-1, 2))


SPLIT = """agraph (string[n] x, string[2, m] z) => (string[n, a] spaces, int64[n] b,
    string[n, c] few, string[2, m, d] commas, int64[2, m] e, string[2, m, f] one) {
  spaces, b = StringSplit(x)
  few, g = StringSplit <maxsplit = 1> (x)
  commas, e = StringSplit <delimiter = "東,"> (z)
  one, h = StringSplit <delimiter = ",", maxsplit = 1> (z)
}"""


def test_strings_are_split_at_white_space_and_at_delimiters() -> None:
    commas = texts("a東,b東東,", "", ",,x", "東").reshape(2, 2)
    agree(SPLIT, x=SENTENCES, z=commas)


TOKENS = """agraph (string[n] x, string[k, 1] z) => (string[n, a] words, string[n, b] long,
    string[n, c] characters, string[k, 1, d] parts, string[n, e] marked) {
  words = com.microsoft.Tokenizer <mark = 0, pad_value = "#", mincharnum = 1,
    tokenexp = "[a-zA-Z]+(-[a-z]+)*"> (x)
  long = com.microsoft.Tokenizer <mark = 0, pad_value = "", mincharnum = 2,
    tokenexp = "[a-zü]+"> (x)
  characters = com.microsoft.Tokenizer <mark = 0, pad_value = "#", mincharnum = 1,
    separators = [""]> (x)
  parts = com.microsoft.Tokenizer <mark = 0, pad_value = "?", mincharnum = 2,
    separators = [", ", " |;"]> (z)
  marked = com.microsoft.Tokenizer <mark = 1, pad_value = "#", mincharnum = 1,
    separators = [" "]> (x)
}"""


def test_strings_are_cut_into_tokens() -> None:
    agree(TOKENS, x=SENTENCES, z=SENTENCES.reshape(-1, 1))
    agree(TOKENS, x=texts("", ""), z=texts(" ").reshape(1, 1))


NORMAL = """agraph (string[n] x, string[1, k] z) => (string[a] lower, string[b] upper,
    string[c] kept, string[1, d] all) {
  lower = StringNormalizer <case_change_action = "LOWER", locale = "C.UTF-8"> (x)
  upper = StringNormalizer <case_change_action = "UPPER", stopwords = ["the", "ärger ᾳﬁ"],
    locale = "C.UTF-8"> (x)
  kept = StringNormalizer <stopwords = ["the"], locale = "C.UTF-8"> (x)
  all = StringNormalizer <case_change_action = "LOWER", stopwords = ["the", "The"],
    is_case_sensitive = 1, locale = "C.UTF-8"> (z)
}"""


def test_letters_change_their_case_and_stop_words_are_left_out() -> None:
    # Letters whose counterparts have more bytes, or fewer, and such as have none of one letter.
    some = texts("aÜß İıⱥȺ", "The", "Ärger ᾳﬁ", "😀𐐀x", "the", "")
    agree(NORMAL, x=some, z=some.reshape(1, -1))
    agree(NORMAL, x=texts("THE", "the"), z=texts("The").reshape(1, 1))


PIPELINE = """agraph (string[n, 1] x) => (float[n, 5] y) {
  flat = Constant <value_ints = [-1]> ()
  row = Reshape(x, flat)
  lower = StringNormalizer <case_change_action = "LOWER", locale = "C.UTF-8"> (row)
  words = com.microsoft.Tokenizer <mark = 0, pad_value = "#", mincharnum = 1,
    tokenexp = "[a-z0-9_]+"> (lower)
  y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1,
    ngram_counts = [0, 3], ngram_indexes = [4, 0, 1, 2, 3],
    pool_strings = ["the", "foo", "a", "the", "the", "foo", "baz"]> (words)
}"""


def test_a_pipeline_counts_words_of_any_number(tmp_path: Path) -> None:
    model, x = model_of(PIPELINE), SENTENCES.reshape(-1, 1)
    (expected,) = run_onnxruntime(model, {"x": x})
    executable = weft.compile(model, threads=1)
    executable.export(tmp_path / "libwords.so")
    for run in (executable, weft.load(tmp_path / "libwords.so")):
        assert run(x)[0].tolist() == expected.tolist()
        assert run(texts("", " ").reshape(-1, 1))[0].tolist() == [[0.0] * 5] * 2


def test_strings_that_an_artifact_makes_are_ends_and_bytes(tmp_path: Path) -> None:
    model = model_of("agraph (string[n] x) => (string[n] y) { y = StringConcat(x, x) }")
    executable = weft.compile(model, threads=1)
    assert [each.name for each in executable.outputs] == ["y.ends", "y.bytes"]
    executable.export(tmp_path / "libtwice.so")
    run = weft.load(tmp_path / "libtwice.so")
    for made in (run(texts("ü", "", "ab"))[0], run.run({"x": texts("ü", "", "ab")})["y"]):
        assert made.tolist() == ["üü", "", "abab"]
    hostile = {"x.ends": np.array([2**62, -5, 4]), "x.bytes": np.frombuffer(b"a\xffcd", np.uint8)}
    assert run(**hostile)[0].tolist() == ["a�cda�cd", "", "a�cda�cd"]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ('y = StringNormalizer <case_change_action = "LOWER", locale = "tr_TR"> (x)', "got tr_TR"),
        (
            'y = StringNormalizer <case_change_action = "TITLE"> (x)',
            "LOWER, UPPER or NONE, got TITLE",
        ),
        ("y, n = StringSplit <maxsplit = -2> (x)", "a maxsplit of 0 or more, got -2"),
        (
            'y = com.microsoft.Tokenizer <mark = 0, pad_value = "", mincharnum = 1,'
            ' tokenexp = "a*b"> (x)',
            "a match within 16 bytes",
        ),
        (
            'y = com.microsoft.Tokenizer <mark = 0, pad_value = "", mincharnum = 1,'
            ' tokenexp = "^a"> (x)',
            "got a condition",
        ),
    ],
)
def test_what_they_do_not_do_is_refused(node: str, said: str) -> None:
    with pytest.raises(weft.WeftError, match=said):
        weft.compile(model_of(f"agraph (string[n] x) => (string y) {{ {node} }}"))


EXPRESSIONS = [
    "a*b|c", "(ab)+c?", "a{2,3}b{0,2}", "[^a-c]d", "(?:x|yz){2}", r"\w+(-\w+)*", r"[\d.]+",
    "^a*$", r"(\W|^)[\w.]{0,3}(b|c)(\W|$)", r"a\b.\Bb?", r"\bab\b ?c?", "a|ab|aba", ".",
    "ü[é-ñ]*", "", "[]a]+", "[a-]+", r"\x41\.", "(?P<n>a)b*?", r"\D\S{1,}",
]  # fmt: skip


def test_expressions_match_what_pythons_match() -> None:
    rng = np.random.default_rng(0)
    given = ["".join(rng.choice([*"abcdxyzü-é1.A\n]ñ東"], size)) for size in [*range(6)] * 40]
    for expression in EXPRESSIONS:
        automaton = automaton_of(expression)
        for text in given:
            state = 0
            for byte in text.encode():
                state = automaton.table[state, byte] if state >= 0 else state
            matches = bool(state >= 0 and automaton.accepts[state])
            assert matches == (re.fullmatch(expression, text, re.ASCII) is not None), expression


def test_ranges_of_code_points_are_ranges_of_bytes() -> None:
    for first, last in (
        (0, 0x10FFFF),
        (0x7F, 0x801),
        (0x20AC, 0x20AC),
        (0xD7FF, 0xE000),
        (65, 9999),
    ):
        counts = [
            np.prod([high - low + 1 for low, high in sequence])
            for sequence in byte_ranges(first, last)
        ]
        surrogates = sum(first <= point <= last for point in range(0xD800, 0xE000))
        assert sum(counts) == last - first + 1 - surrogates


@pytest.mark.parametrize(
    "broken", ["a**", "(", "[a", "a)", "[b-a]", "a{3,2}", r"\x{zz}", "*", "\\"]
)
def test_what_is_no_expression_is_an_error(broken: str) -> None:
    with pytest.raises(ModelError, match="requires a regular expression"):
        automaton_of(broken)


@pytest.mark.parametrize("other", ["(?i)a", "(?=a)", r"\pL", "[[:alpha:]]", r"\Aa"])
def test_what_is_no_character_is_refused(other: str) -> None:
    with pytest.raises(UnsupportedError, match="requires an expression without"):
        automaton_of(other)
