"""Files that are split by `// -----`, each piece a program, and operators of the dialect `check` as
the custom calls that other programs are checked by.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SPLIT: Final = "// -----"
_FUNCTION: Final = re.compile(r"func\.func (?:\w+ )?@(\w+)")
_OF_CONSTANT: Final = re.compile(
    r"check\.(expect_\w+)_const (%[\w#]+),\s*(.*?) : +(tensor<[^\n]*>)\s*$",
    re.MULTILINE | re.DOTALL,
)
_OF_VALUES: Final = re.compile(
    r"check\.(expect_\w+) (%[\w#]+), (%[\w#]+)[^:\n]*: (tensor<[^\n]*?>)(?:, tensor<[^\n]*>)?\s*$",
    re.MULTILINE,
)
_GENERIC: Final = re.compile(
    r'"check\.(expect_\w+)_const"\((%[\w#]+)\) <\{value = (.*?) : (tensor<[^\n]*?>)\}> : '
    r"\((.*)\) -> \(\)"
)


_COMMENT: Final = re.compile(r"^\s*//(?! -----).*$", re.MULTILINE)


def programs(path: Path) -> list[Path]:
    """The file, or a path below it for each piece of one that is split."""
    pieces = path.read_text().split(_SPLIT)
    if len(pieces) == 1:
        return [path]
    found = [_FUNCTION.findall(piece) for piece in pieces]
    return [path / f"{at}-{names[0]}" for at, names in enumerate(found) if names]


def program_text(path: Path) -> str:
    """The text of a file or of one of its pieces."""
    if path.is_file():
        return with_custom_calls(path.read_text())
    return with_custom_calls(
        path.parent.read_text().split(_SPLIT)[int(path.name.partition("-")[0])]
    )


def with_custom_calls(text: str) -> str:
    """A program whose operators `check.expect_*` are custom calls of that name."""
    count = 0

    def of_constant(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        name, value, elements, written, *operand = found.groups()
        expected = f"%expected{count} = stablehlo.constant {elements} : {written}\n"
        types = f"({operand[0] if operand else written}, {written}) -> ()"
        return f"{expected}stablehlo.custom_call @check.{name}({value}, %expected{count}) : {types}"

    text = _GENERIC.sub(of_constant, _COMMENT.sub("", text))
    text = _OF_CONSTANT.sub(of_constant, text)
    return _OF_VALUES.sub(r"stablehlo.custom_call @check.\1(\2, \3) : (\4, \4) -> ()", text)
