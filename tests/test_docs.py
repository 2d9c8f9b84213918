"""The examples in docs/ run as they stand there, and what the documents name exists."""

import re
from pathlib import Path

import pytest

from weft.cli.opt import ALL_PASSES
from weft.dialects.graph import GRAPH
from weft.dialects.loop import LOOP

ROOT = Path(__file__).parents[1]
GUIDES = sorted(ROOT.glob("docs/adding-*.md"))
HISTORY = ROOT / "docs/changelog.md"
"""Names files as they were."""
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - {HISTORY})
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
PATH = re.compile(r"(?<![\w<>./-])[\w*.-]++(?:/[\w*.-]++)*+/?+(?![<>])")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
OPERATION = re.compile(r"`((?:graph|loop)\.\w+|weft-[a-z-]+)")
OPERATIONS = {each.name for each in (*GRAPH.operations, *LOOP.operations, *ALL_PASSES)}
NO_PASSES = {"weft-opt", "weft-demo"}
FOLDERS = {"weft", "compiler", "dialects", "tests", "lit", "benchmarks", "examples", "docs", ".ci"}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_examples_of_a_guide_run(guide: Path):
    blocks = PYTHON_BLOCK.findall(guide.read_text())
    assert len(blocks) in (2, 4), "a guide shows something and uses it"
    names = {"__name__": f"example_{guide.stem}"}
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)


def test_examples_of_a_document_run():
    names = {"__name__": "debugging"}
    for block in PYTHON_BLOCK.findall((ROOT / "docs/debugging.md").read_text()):
        exec(compile(block, "docs/debugging.md", "exec"), names)


def test_there_are_guides():
    assert len(GUIDES) == 5


def missing_paths(text: str) -> list[str]:
    """Files and folders of the repository that a text names and that are not there."""
    named = {each.rstrip(".") for each in PATH.findall(re.sub(r"https?://\S+", "", text))}
    return sorted(path for path in named if names_a_file(path) and not exists(path))


def names_a_file(path: str) -> bool:
    first, slash, _ = path.partition("/")
    return path.endswith(".py") or bool(slash and first in FOLDERS)


def exists(path: str) -> bool:
    """Whether there is one; a name without a folder may be that of a file anywhere."""
    if "/" in path:
        return any(ROOT.glob(path))
    return any(True for folder in FOLDERS for _ in (ROOT / folder).rglob(path))


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub and mkdocs make them."""
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text))
    return {title.replace(" ", "-") for title in titles}


def missing_operations(text: str) -> set[str]:
    """Operators, operations and passes that a text names and that do not exist."""
    return {*OPERATION.findall(text)} - OPERATIONS - NO_PASSES


def broken_links(document: Path) -> list[str]:
    """Relative links that lead to no file, or to no heading of theirs."""
    broken: list[str] = []
    for target, anchor in LINK.findall(document.read_text()):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            broken.append(f"{target}#{anchor}")
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_is_there(document: Path):
    assert missing_paths(document.read_text()) == []
    assert broken_links(document) == []
    if document not in GUIDES:  # which name what is to be added
        assert missing_operations(document.read_text()) == set()


def test_what_leads_nowhere_is_found(tmp_path: Path):
    assert missing_operations("`graph.add`, `loop.none` and `weft-none`") == {
        "loop.none",
        "weft-none",
    }
    text = "`compiler/none.py`, `none/there.py`, `no_such_file.py` and `tests/test_docs.py`"
    assert missing_paths(text) == ["compiler/none.py", "no_such_file.py", "none/there.py"]
    document = tmp_path / "a.md"
    document.write_text("# A title\n[here](#a-title) [not](#a) [gone](b.md)")
    assert broken_links(document) == ["#a", "b.md#"]
