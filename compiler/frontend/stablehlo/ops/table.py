"""Every operator of StableHLO and CHLO that weft imports, by its name."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.frontend.stablehlo.node import HloImporter, ImporterTable, Node
from weft.compiler.frontend.stablehlo.ops.bits import BITS
from weft.compiler.frontend.stablehlo.ops.bodies import combination
from weft.compiler.frontend.stablehlo.ops.collectives import COLLECTIVES
from weft.compiler.frontend.stablehlo.ops.complex_numbers import (
    COMPLEX,
    LINEAR,
    WHOLE,
    by_parts,
    product_of_pairs,
)
from weft.compiler.frontend.stablehlo.ops.control import (
    CONTROL,
    after_all,
    host_call,
    scan,
)
from weft.compiler.frontend.stablehlo.ops.dynamic import DYNAMIC, shape_assertion
from weft.compiler.frontend.stablehlo.ops.elementwise import ELEMENTWISE
from weft.compiler.frontend.stablehlo.ops.indexing import INDEXING
from weft.compiler.frontend.stablehlo.ops.linalg import LINALG
from weft.compiler.frontend.stablehlo.ops.movement import MOVEMENT
from weft.compiler.frontend.stablehlo.ops.normalization import NORMALIZATION
from weft.compiler.frontend.stablehlo.ops.products import PRODUCTS, ragged_dot
from weft.compiler.frontend.stablehlo.ops.quantized import MOVING, QUANTIZED, in_floats, moves
from weft.compiler.frontend.stablehlo.ops.random_bits import RANDOM, threefry_call
from weft.compiler.frontend.stablehlo.ops.reductions import REDUCTIONS
from weft.compiler.frontend.stablehlo.ops.sorting import SORTING, top_k
from weft.compiler.frontend.stablehlo.ops.special import FUNCTIONS, NAMED, SPECIAL
from weft.compiler.frontend.stablehlo.platform import HOST_CALL, THREEFRY
from weft.compiler.frontend.stablehlo.types import quantization
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.stablehlo.op import HloOp

CUSTOM_CALLS: ImporterTable = {
    "dce_sink": after_all,
    HOST_CALL: host_call,
    "shape_assertion": shape_assertion,
    THREEFRY: threefry_call,
}
"""The custom calls that weft knows, by their targets."""


def custom_call(node: Node) -> Sequence[Term]:
    """A function that is known by its name."""
    return CUSTOM_CALLS[node.text("call_target_name")](node)


def composite(node: Node) -> Sequence[Term]:
    """CHLO's function of reals that the composite names, where the graph has it, else what the
    function that stands for it returns.
    """
    if node.text("name") in _NAMED and len(node.operands) == 1:
        return IMPORTERS[node.text("name")](node)
    name = node.text("decomposition")
    return node.scope.call(name, node.operands, node.b, elementwise=node.elementwise)


_NAMED = frozenset(f"chlo.{name}" for name in NAMED)

_STABLEHLO = {
    **ELEMENTWISE, **BITS, **MOVEMENT, **INDEXING, **REDUCTIONS, **PRODUCTS, **CONTROL, **SORTING,
    **DYNAMIC, **LINALG, **QUANTIZED, **RANDOM, **COLLECTIVES, **NORMALIZATION,
    "composite": composite, "custom_call": custom_call,
}  # fmt: skip
_CHLO = {**SPECIAL, "ragged_dot": ragged_dot, "scan": scan, "top_k": top_k}

IMPORTERS: ImporterTable = {
    **COMPLEX,
    **{f"stablehlo.{name}": function for name, function in _STABLEHLO.items()},
    **{f"chlo.{name}": function for name, function in _CHLO.items()},
}
"""The functions that turn operators into those of the graph."""

OF_SCALARS = frozenset(
    (
        *(f"stablehlo.{name}" for name in ELEMENTWISE),
        *(f"chlo.{name}" for name in FUNCTIONS),
        "stablehlo.bitcast_convert",
        "stablehlo.complex",
        "stablehlo.constant",
        "stablehlo.imag",
        "stablehlo.real",
        "stablehlo.composite",
    )
)
"""What a body that is applied element by element may be made of."""


_BODIES = ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter")


def complex_importer(op: HloOp) -> HloImporter:
    """What imports an operator of complex numbers; raises UnsupportedError where weft lacks it."""
    if op.name in COMPLEX:
        return COMPLEX[op.name]
    if op.name in ("stablehlo.dot_general", "stablehlo.convolution"):
        return product_of_pairs(IMPORTERS[op.name])
    alike = op.name in _BODIES and combination(op.regions[0].block) in ("add", "none")
    if op.name in LINEAR or alike:
        return by_parts(IMPORTERS[op.name])
    if op.name in WHOLE or op.name in _BODIES or op.name.partition(".")[2] in COLLECTIVES:
        return IMPORTERS[op.name]
    raise UnsupportedError("requires real numbers, got complex ones")


def quantized_importer(op: HloOp) -> HloImporter:
    """What imports an operator of quantised tensors."""
    given = [quantization(each.type) for each in (*op.operands, *op.results)]
    importer = IMPORTERS[op.name]
    return importer if op.name in MOVING and moves(given) else in_floats(importer)
