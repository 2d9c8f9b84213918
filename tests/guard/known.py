"""What the fuzzer finds and is known: the list only shrinks. Each entry has the kind of a finding,
a pattern that its operators and its text match, and why it is not fixed yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.guard.pool import Finding


@dataclass(frozen=True)
class Known:
    """A finding that is expected."""

    kinds: str
    pattern: str
    reason: str


KNOWN: tuple[Known, ...] = (
    Known("WrongRefusal", r"requires sizes .*got (1 and \d+|\d+ and 1)\b",
          "a named size that is 1 in a call is not broadcast"),
    Known("WrongRefusal", "NonMaxSuppression.*to be at least", "no boxes are refused"),
)  # fmt: skip


def reason_of(finding: Finding) -> str | None:
    """Why a finding is expected, None for one that is not."""
    text = f"{finding.title}: {finding.text} {finding.last}"
    for known in KNOWN:
        if re.fullmatch(known.kinds, finding.kind) and re.search(known.pattern, text, re.DOTALL):
            return known.reason
    return None
