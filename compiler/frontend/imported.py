"""What front ends read, and what they make of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from onnx import ModelProto
    from xdsl.dialects.builtin import ModuleOp

    from weft.dialects.weights import WeightStore

    Source = str | os.PathLike[str] | bytes | ModelProto
else:
    Source = str | os.PathLike[str] | bytes
"""A model: the path of a file, its bytes, or ONNX's object, for which nobody imports ONNX."""

MAIN: Final = "main"
"""The name of a model's function."""


class ImportedModel(Struct, frozen=True):
    """A graph function `main` in a module, and the tensors that its constants name."""

    module: ModuleOp
    weights: WeightStore
    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
