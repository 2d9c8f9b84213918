"""All rules, and how often each family is taken."""

from __future__ import annotations

from collections.abc import Sequence

from tests.differential import (
    rules_control,
    rules_elementwise,
    rules_lines,
    rules_movement,
    rules_networks,
    rules_products,
    rules_selection,
)
from tests.differential.writer import Family


def families(statements: bool, large: bool) -> Sequence[Family]:
    """The rules of a program, with statements of Python's or without; a program of large tensors
    has no loops, for references go through rounds of rounds one by one.
    """
    shared = (
        (10, rules_elementwise.RULES), (5, rules_lines.RULES), (6, rules_movement.RULES),
        (4, rules_selection.RULES), (4, rules_products.PRODUCTS),
        (6, rules_products.LINEAR_ALGEBRA),
    )  # fmt: skip
    if large:
        return (*shared, (4, rules_networks.RULES))
    if statements:
        return (*shared, (30, rules_control.STATEMENTS))
    return (*shared, (4, rules_networks.RULES), (9, rules_control.FUNCTIONS))
