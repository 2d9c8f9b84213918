"""What files of graphs and of their weights are called; loads nothing, for those who only ask."""

from pathlib import Path
from typing import Final

SUFFIX: Final = ".mlir"


def weights_path(path: Path) -> Path:
    """The file of a graph file's weights; there is none where it has no weights."""
    return path.with_suffix(".weights")
