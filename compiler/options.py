"""What a compilation can be asked for: one frozen value, part of the cache key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

from compiler.target.target import Target


@dataclass(frozen=True)
class Options:
    """Choices that change the compiled code.

    `prefix` starts every symbol of the artifact. `strict_fp` keeps floating-point reductions
    in the order of the graph and forbids contraction to fused multiply-adds. `naive` applies
    no schedule and fuses nothing.
    """

    target: Target
    prefix: str = "model"
    strict_fp: bool = False
    naive: bool = False

    @property
    def digest(self) -> str:
        """A hash of every choice."""
        text = "\n".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self))
        return hashlib.sha256(text.encode()).hexdigest()
