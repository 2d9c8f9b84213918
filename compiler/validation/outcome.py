"""What a program that runs on terms did."""

from __future__ import annotations

from msgspec import Struct, field

from weft.compiler.validation.terms import Terms


class Outcome(Struct):
    """What a program did: the calls that ran, by number and the terms that they read; what it
    printed and tested, in order; and what its outputs hold.
    """

    calls: set[int] = field(default_factory=set[int])
    effects: list[int] = field(default_factory=list[int])
    outputs: list[int] = field(default_factory=list[int])

    def answer(self, terms: Terms, number: int) -> int:
        """What the last effect, a call of the host, gives: no two calls give the same."""
        return terms.of("host", len(self.effects), self.effects[-1], number)
