"""The examples in docs/ run as they stand there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDES = sorted(ROOT.glob("docs/adding-*.md"))
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_examples_of_a_guide_run(guide: Path):
    blocks = PYTHON_BLOCK.findall(guide.read_text())
    assert len(blocks) == 2, "a guide shows something and uses it"
    names = {"__name__": f"example_{guide.stem}"}
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)


def test_there_are_guides():
    assert len(GUIDES) == 5
