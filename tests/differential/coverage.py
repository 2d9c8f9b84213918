"""How often operators, modes and dtypes were hit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.differential.judge import Outcome
from weft.dialects.graph import OPS, CaseOp, ForOp, IfOp, WhileOp

MADE_BY_PASSES = frozenset(
    {
        "winograd_filter",
        "winograd_tiles",
        "winograd_result",
        "dynamic_reshape",
        "assume",
        "watch",
        "dims",
        "couple_probabilities",
        "tree_ensemble",
        "hash_strings",
        "equal_strings",
        "copy_strings",
        "argsort_strings",
        "match_strings",
        "find_matches",
    }
)
"""Operators that no program writes: passes, importers and `weft.watch` make them."""

OPERATORS = tuple(op.name.removeprefix("graph.") for op in (*OPS, IfOp, CaseOp, ForOp, WhileOp))


@dataclass
class Coverage:
    """Sums over programs."""

    programs: int = 0
    operators: Counter[str] = field(default_factory=Counter[str])
    dtypes: Counter[str] = field(default_factory=Counter[str])
    both: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    modes: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    uncertain: int = 0

    def add(self, outcome: Outcome) -> None:
        """Counts what one program hit: each operator once, with each mode that ran."""
        self.programs += 1
        self.uncertain += outcome.uncertain
        self.modes += outcome.modes
        self.refused += outcome.refused
        for (operator, dtype), count in outcome.hits.items():
            self.operators[operator] += count
            self.dtypes[dtype] += count
            self.both[operator, dtype] += count

    def never(self) -> list[str]:
        """The operators that programs may have and none had."""
        return [
            each for each in OPERATORS if not self.operators[each] and each not in MADE_BY_PASSES
        ]

    def data(self) -> dict[str, object]:
        """All of it as plain data."""
        return {
            "programs": self.programs,
            "operators": dict(self.operators.most_common()),
            "dtypes": dict(self.dtypes.most_common()),
            "modes": dict(self.modes.most_common()),
            "refused": dict(self.refused.most_common(30)),
            "uncertain": self.uncertain,
            "never": self.never(),
        }
