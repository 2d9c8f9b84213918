"""What files of graphs and of their weights are called, and the attribute that tells such a graph;
loads nothing, for those who only ask.
"""

from pathlib import Path
from typing import Final

SUFFIX: Final = ".mlir"
STAMP: Final = "weft.graph_version"


def weights_path(path: Path) -> Path:
    """The file of a graph file's weights; there is none where it has no weights."""
    return path.with_suffix(".weights")
