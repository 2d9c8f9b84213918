"""`python -m tests.reference FOLDER` writes the reference: a page of Markdown for each module."""

import sys
from pathlib import Path

from tests.reference.pages import MODULES, page_of

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for module in MODULES:
    (folder / f"{module}.md").write_text(page_of(module))
