"""The ONNX operators that are imported by more than their name, by family."""

from __future__ import annotations

from compiler.frontend import (
    onnx_casts,
    onnx_constants,
    onnx_einsum,
    onnx_elementwise,
    onnx_ml,
    onnx_ngrams,
    onnx_quantize,
    onnx_random,
    onnx_recurrent,
    onnx_reductions,
    onnx_resize,
    onnx_sampling,
    onnx_scatter,
    onnx_shapes,
    onnx_signal,
    onnx_slicing,
    onnx_training,
    onnx_trees,
    onnx_windows,
)
from compiler.frontend.onnx_node import ImporterTable

COMPOSITES: ImporterTable = {
    **onnx_casts.IMPORTERS,
    **onnx_constants.IMPORTERS,
    **onnx_elementwise.IMPORTERS,
    **onnx_shapes.IMPORTERS,
    **onnx_slicing.IMPORTERS,
    **onnx_reductions.IMPORTERS,
    **onnx_random.IMPORTERS,
    **onnx_recurrent.IMPORTERS,
    **onnx_resize.IMPORTERS,
    **onnx_scatter.IMPORTERS,
    **onnx_signal.IMPORTERS,
    **onnx_sampling.IMPORTERS,
    **onnx_einsum.IMPORTERS,
    **onnx_ml.IMPORTERS,
    **onnx_ngrams.IMPORTERS,
    **onnx_quantize.IMPORTERS,
    **onnx_training.IMPORTERS,
    **onnx_trees.IMPORTERS,
    **onnx_windows.IMPORTERS,
}
"""Importers by ONNX operator, behind its domain and a dot where that is not the default one."""
