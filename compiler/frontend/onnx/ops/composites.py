"""The ONNX operators that are imported by more than their name, by family."""

from __future__ import annotations

from weft.compiler.frontend.onnx.importer import ControlTable
from weft.compiler.frontend.onnx.node import ImporterTable
from weft.compiler.frontend.onnx.ops import casts as onnx_casts
from weft.compiler.frontend.onnx.ops import conditional as onnx_conditional
from weft.compiler.frontend.onnx.ops import constants as onnx_constants
from weft.compiler.frontend.onnx.ops import control as onnx_control
from weft.compiler.frontend.onnx.ops import data_dependent as onnx_data_dependent
from weft.compiler.frontend.onnx.ops import einsum as onnx_einsum
from weft.compiler.frontend.onnx.ops import elementwise as onnx_elementwise
from weft.compiler.frontend.onnx.ops import gradient as onnx_gradient
from weft.compiler.frontend.onnx.ops import ngrams as onnx_ngrams
from weft.compiler.frontend.onnx.ops import quantize as onnx_quantize
from weft.compiler.frontend.onnx.ops import random as onnx_random
from weft.compiler.frontend.onnx.ops import recurrent as onnx_recurrent
from weft.compiler.frontend.onnx.ops import reductions as onnx_reductions
from weft.compiler.frontend.onnx.ops import resize as onnx_resize
from weft.compiler.frontend.onnx.ops import sampling as onnx_sampling
from weft.compiler.frontend.onnx.ops import scan as onnx_scan
from weft.compiler.frontend.onnx.ops import scatter as onnx_scatter
from weft.compiler.frontend.onnx.ops import sequences as onnx_sequences
from weft.compiler.frontend.onnx.ops import shapes as onnx_shapes
from weft.compiler.frontend.onnx.ops import signal as onnx_signal
from weft.compiler.frontend.onnx.ops import slicing as onnx_slicing
from weft.compiler.frontend.onnx.ops import training as onnx_training
from weft.compiler.frontend.onnx.ops import windows as onnx_windows
from weft.compiler.frontend.onnx.ops.classical import features as onnx_features
from weft.compiler.frontend.onnx.ops.classical import labels as onnx_labels
from weft.compiler.frontend.onnx.ops.classical import linear as onnx_linear
from weft.compiler.frontend.onnx.ops.classical import svm as onnx_svm
from weft.compiler.frontend.onnx.ops.classical import tree_nodes as onnx_tree_nodes
from weft.compiler.frontend.onnx.ops.classical import trees as onnx_trees
from weft.compiler.frontend.onnx.ops.microsoft import operators as onnx_microsoft
from weft.compiler.frontend.onnx.ops.strings import comparison as onnx_strings
from weft.compiler.frontend.onnx.ops.strings import normalize as onnx_normalize
from weft.compiler.frontend.onnx.ops.strings import tokens as onnx_tokens

COMPOSITES: ImporterTable = {
    name: importer
    for family in (
        onnx_casts, onnx_constants, onnx_elementwise, onnx_shapes, onnx_slicing, onnx_reductions,
        onnx_random, onnx_recurrent, onnx_resize, onnx_scatter, onnx_signal, onnx_sampling,
        onnx_einsum, onnx_ngrams, onnx_quantize, onnx_training, onnx_windows, onnx_features,
        onnx_labels, onnx_linear, onnx_svm, onnx_tree_nodes, onnx_trees,
        onnx_microsoft, onnx_strings, onnx_normalize, onnx_tokens,
    )
    for name, importer in family.IMPORTERS.items()
}  # fmt: skip
"""Importers by ONNX operator, behind its domain and a dot where that is not the default one."""

CONTROL: ControlTable = {
    **onnx_conditional.IMPORTERS,
    **onnx_control.IMPORTERS,
    **onnx_gradient.IMPORTERS,
    **onnx_scan.IMPORTERS,
    **onnx_data_dependent.IMPORTERS,
    **onnx_sequences.IMPORTERS,
}
"""Importers of operators that need more of the graph than their operands, by ONNX operator."""
