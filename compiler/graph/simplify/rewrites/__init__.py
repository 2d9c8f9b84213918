"""Rewrites by subject: each is an expression of graph operators and what takes its place."""

from __future__ import annotations

from weft.compiler.graph.simplify.rewrites.arithmetic import BOUNDS, PRODUCTS, SUMS
from weft.compiler.graph.simplify.rewrites.choices import BITS, BOOLS, CHOICES
from weft.compiler.graph.simplify.rewrites.expressions import Rewrite
from weft.compiler.graph.simplify.rewrites.linear import LINEAR
from weft.compiler.graph.simplify.rewrites.movement import MOVEMENTS
from weft.compiler.graph.simplify.rewrites.reductions import REDUCTIONS
from weft.compiler.graph.simplify.rewrites.stored_weights import STORED_WEIGHTS
from weft.compiler.graph.simplify.rewrites.windows import WINDOWS

REWRITES: tuple[Rewrite, ...] = (
    *SUMS, *PRODUCTS, *BOUNDS, *CHOICES, *BOOLS, *BITS, *MOVEMENTS, *REDUCTIONS, *WINDOWS, *LINEAR,
    *STORED_WEIGHTS,
)  # fmt: skip
"""Where several fit an operator, the first one that does is applied."""
