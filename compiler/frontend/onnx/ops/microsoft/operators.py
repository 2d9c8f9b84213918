"""The operators of onnxruntime's own domains, by family."""

from __future__ import annotations

from weft.compiler.frontend.onnx.node import Importer
from weft.compiler.frontend.onnx.ops.microsoft import (
    adopted,
    attention,
    blocked,
    diffusion,
    dynamic,
    fused,
    grouped,
    layers,
    packed,
    quantised,
    rotary,
)

FAMILIES = (
    adopted,
    attention,
    blocked,
    diffusion,
    dynamic,
    fused,
    grouped,
    layers,
    packed,
    quantised,
    rotary,
)

IMPORTERS: dict[str, Importer] = {
    name: importer for family in FAMILIES for name, importer in family.IMPORTERS.items()
}
