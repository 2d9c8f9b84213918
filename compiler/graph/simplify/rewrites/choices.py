"""Identities of choices, of bools and of bits."""

from __future__ import annotations

from weft.compiler.graph.simplify.rewrites.expressions import Rewrite, Value, graph
from weft.dialects.graph.core.types import SIGNED

x, y, condition = Value("x"), Value("y"), Value("condition")

CHOICES = (
    Rewrite("where(c, x, x)", graph.where(condition, x, x), x),
    Rewrite("where(true, x, y)", graph.where(True, x, y), x),
    Rewrite("where(false, x, y)", graph.where(False, x, y), y),
    Rewrite(
        "where(not c, x, y)",
        graph.where(graph.logical_not(condition), x, y),
        graph.where(condition, y, x),
    ),
)

BOOLS = (
    Rewrite("not not x", graph.logical_not(graph.logical_not(x)), x),
    Rewrite("x and x", graph.logical_and(x, x), x),
    Rewrite("x and true", graph.logical_and(x, True), x),
    Rewrite("x and false", graph.logical_and(x, False), False),
    Rewrite("x and not x", graph.logical_and(x, graph.logical_not(x)), False),
    Rewrite("x and (x or y)", graph.logical_and(x, graph.logical_or(x, y)), x),
    Rewrite("x or x", graph.logical_or(x, x), x),
    Rewrite("x or false", graph.logical_or(x, False), x),
    Rewrite("x or true", graph.logical_or(x, True), True),
    Rewrite("x or not x", graph.logical_or(x, graph.logical_not(x)), True),
    Rewrite("x or (x and y)", graph.logical_or(x, graph.logical_and(x, y)), x),
    Rewrite("x xor x", graph.logical_xor(x, x), False),
    Rewrite("x xor false", graph.logical_xor(x, False), x),
    Rewrite("x xor true", graph.logical_xor(x, True), graph.logical_not(x)),
)

BITS = (
    Rewrite("~~x", graph.bitwise_not(graph.bitwise_not(x)), x),
    Rewrite("x & x", graph.bitwise_and(x, x), x),
    Rewrite("x & 0", graph.bitwise_and(x, 0), 0),
    Rewrite("x & -1", graph.bitwise_and(x, -1), x, elements=SIGNED),
    Rewrite("x | x", graph.bitwise_or(x, x), x),
    Rewrite("x | 0", graph.bitwise_or(x, 0), x),
    Rewrite("x ^ x", graph.bitwise_xor(x, x), 0),
    Rewrite("x ^ 0", graph.bitwise_xor(x, 0), x),
)
