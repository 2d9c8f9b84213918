"""Instruction sets are known to weft.compiler.target alone: others ask a Target what it can do."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from weft.compiler.target import TARGETS
from weft.compiler.target.cpuid import FEATURES
from weft.compiler.target.hwcap import HWCAPS

ROOT: Final = Path(__file__).parents[1]
HOME: Final = ROOT / "compiler" / "target"

NAMES: Final = frozenset(
    [
        *FEATURES,
        *(name for names in HWCAPS.values() for name in names),
        *(name[1:] for target in TARGETS for name in target.features),
    ]
)
"""What LLVM calls a feature."""

ALSO_WORDS: Final = frozenset("acdfmv") | {"adx", "bf16", "dit", "fma", "popcnt", "rand", "sb"}
"""What means something else where no `+` precedes it: an operation of MLIR, a dtype, a word."""


def feature_names(source: str) -> Iterator[str]:
    """The strings of a source that are features of LLVM's, alone or with others: `avx512f`,
    `+avx2,+fma`.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = node.value.split(",")
            if all(_is_feature(part) for part in parts):
                yield node.value


def _is_feature(text: str) -> bool:
    return (text.startswith("+") and text[1:] in NAMES) or text in NAMES - ALSO_WORDS


def test_only_targets_name_features():
    found = [
        f"{path.relative_to(ROOT)} names {name}"
        for folder in ("weft", "compiler", "dialects")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if HOME not in path.parents
        for name in feature_names(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("source", ["has('+avx512f')", "f(x='+avx2,+fma')", "d.get('avx2')"])
def test_a_name_of_a_feature_is_seen(source: str):
    assert list(feature_names(source))


@pytest.mark.parametrize("source", ["math = 'fma'", "'avx-like'", "x = '-c'", "''"])
def test_other_text_is_not_a_feature(source: str):
    assert not list(feature_names(source))
