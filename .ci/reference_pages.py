"""A hook of mkdocs: pages of the public names with their examples, and a page of reference for each
module, which mkdocstrings fills.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGES = ("weft", "dialects", "compiler")
sys.path.insert(0, str(ROOT))

from tests.reference import pages  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to those of docs/."""
    for module in pages.MODULES:
        text = pages.page_of(module)
        files.append(File.generated(config, f"api/{module}.md", content=text))
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            inside = path.relative_to(ROOT / "weft" if package == "weft" else ROOT)
            files.append(page_of("weft" / inside.with_suffix(""), config))
    return files


def page_of(path: Path, config: MkDocsConfig) -> File:
    """The page of a module, named in full since a module may be called `index` as well; that of a
    package is the index of its folder.
    """
    is_package = path.name == "__init__"
    module = ".".join(path.parent.parts if is_package else path.parts)
    source = path.with_name("index" if is_package else module)
    return File.generated(config, f"reference/{source}.md", content=f"# {module}\n\n::: {module}\n")
