"""ONNX operators that slide a window: convolutions and poolings, with `auto_pad` made explicit."""

from __future__ import annotations

from compiler.frontend.onnx_node import Importer

IMPORTERS: dict[str, Importer] = {}
