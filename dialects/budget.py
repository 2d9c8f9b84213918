"""What one compilation may use: operators and bytes that are counted as they are made, and time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from weft.dialects.errors import BudgetError, OptionError

MAX_NODES: Final = 120_000
MAX_BYTES: Final = 8 << 30
TIMEOUT: Final = 1800.0
"""Models that are in use have at most some 20,000 operators and compile within a minute."""


@dataclass
class Budget:
    """The limits of a compilation, and what it has used so far.

    `max_nodes` operators: nodes once functions are inlined, loops are imported round by round and
    bodies again, and operators of the graph that comes of them. `max_bytes` of tensors that the
    compiler makes, beside those of the model. `timeout` in seconds.
    Raises OptionError for limits that are no positive numbers.
    """

    max_nodes: int = field(
        default=MAX_NODES,
        metadata={
            "help": f"operators, functions inlined and loops unrolled; {MAX_NODES} by default",
            "argument": {"metavar": "COUNT", "type": int},
        },
    )
    max_bytes: int = field(
        default=MAX_BYTES,
        metadata={
            "help": f"of tensors that it makes beside the model's own; {MAX_BYTES} by default",
            "argument": {"metavar": "BYTES", "type": int},
        },
    )
    timeout: float = field(
        default=TIMEOUT,
        metadata={
            "help": f"that it takes; {TIMEOUT:g} by default",
            "argument": {"metavar": "SECONDS", "type": float},
        },
    )
    nodes: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        limits = {name: getattr(self, name) for name in ("max_nodes", "max_bytes", "timeout")}
        for name, limit in limits.items():
            if not 0 < limit < math.inf:
                raise OptionError(f"{name} requires a number above 0, got {limit}")

    def begin(self) -> None:
        """Counts from nothing: a model that is imported again, with other sizes, is another."""
        self.nodes = 0

    def spend_nodes(self, count: int = 1) -> None:
        """Counts operators. Raises BudgetError where they are too many."""
        self.nodes += count
        self.require_nodes(self.nodes)

    def require_nodes(self, count: int) -> None:
        """Raises BudgetError for a graph of more operators than are allowed."""
        if count > self.max_nodes:
            rule = f"compiling requires at most {self.max_nodes:,} operators"
            got = f"{count:,} with functions inlined and loops written out"
            raise BudgetError(f"{rule}, got {got}{_more('nodes')}")

    def spend_bytes(self, count: int, what: str) -> None:
        """Counts the bytes of tensors that are about to be made. Raises BudgetError where they are
        too many.
        """
        self.bytes += count
        if self.bytes > self.max_bytes:
            rule = f"compiling requires at most {self.max_bytes:,} bytes of tensors that it makes"
            raise BudgetError(f"{rule}, got {self.bytes:,} at {what}{_more('bytes')}")

    def return_bytes(self, count: int) -> None:
        """Counts bytes no more of tensors that turned out to be views of others."""
        self.bytes -= count

    def expired(self) -> BudgetError:
        """The error of a compilation that takes too long."""
        rule = f"compiling requires at most {self.timeout:g} s"
        return BudgetError(f"{rule}, got more; --timeout (timeout= in Python) allows more")


def _more(what: str) -> str:
    return f"; --max-{what} (max_{what}= in Python) allows more"
