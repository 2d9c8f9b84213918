"""Every ATen operator that weft has, by overload."""

from __future__ import annotations

from typing import Final

from weft.compiler.frontend.torch.operands import AtenTable
from weft.compiler.frontend.torch.ops import (
    activation,
    comparison,
    composites,
    creation,
    distances,
    elementwise,
    experts,
    indexing,
    linalg,
    normalization,
    pooling,
    products,
    rarer,
    reductions,
    sampling,
    segments,
    special_functions,
    statistics,
    views,
)

ATEN: Final[AtenTable] = {
    **elementwise.TABLE,
    **comparison.TABLE,
    **activation.TABLE,
    **views.TABLE,
    **creation.TABLE,
    **reductions.TABLE,
    **indexing.TABLE,
    **products.TABLE,
    **normalization.TABLE,
    **pooling.TABLE,
    **composites.TABLE,
    **rarer.TABLE,
    **statistics.TABLE,
    **special_functions.TABLE,
    **linalg.TABLE,
    **distances.TABLE,
    **sampling.TABLE,
    **segments.TABLE,
    **experts.TABLE,
}
"""The one table that both readers use: `aten.add.Tensor` -> the function that builds it."""
