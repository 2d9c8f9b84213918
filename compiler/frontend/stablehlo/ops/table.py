"""Every operator of StableHLO and CHLO that weft imports, by its name."""

from __future__ import annotations

from weft.compiler.frontend.stablehlo.node import ImporterTable
from weft.compiler.frontend.stablehlo.ops.control import CONTROL
from weft.compiler.frontend.stablehlo.ops.elementwise import ELEMENTWISE
from weft.compiler.frontend.stablehlo.ops.indexing import INDEXING
from weft.compiler.frontend.stablehlo.ops.movement import MOVEMENT
from weft.compiler.frontend.stablehlo.ops.products import PRODUCTS
from weft.compiler.frontend.stablehlo.ops.reductions import REDUCTIONS
from weft.compiler.frontend.stablehlo.ops.sorting import SORTING, top_k
from weft.compiler.frontend.stablehlo.ops.special import FUNCTIONS, SPECIAL

_STABLEHLO = {**ELEMENTWISE, **MOVEMENT, **INDEXING, **REDUCTIONS, **PRODUCTS, **CONTROL, **SORTING}
_CHLO = {**SPECIAL, "top_k": top_k}

IMPORTERS: ImporterTable = {
    **{f"stablehlo.{name}": function for name, function in _STABLEHLO.items()},
    **{f"chlo.{name}": function for name, function in _CHLO.items()},
}
"""The functions that turn operators into those of the graph."""

OF_SCALARS = frozenset(
    (
        *(f"stablehlo.{name}" for name in ELEMENTWISE),
        *(f"chlo.{name}" for name in FUNCTIONS),
        "stablehlo.constant",
        "stablehlo.composite",
    )
)
"""What a body that is applied element by element may be made of."""
