"""Assembly with LLVM's comments -> its innermost loops: how wide their vectors are, and the fewest
cycles that an iteration takes; and how often registers are spilled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from weft.compiler.target.cost import CostModel
from weft.view.records import InnerLoop

_HEADER: Final = re.compile(r"This (Inner )?Loop Header: Depth=(\d+)")
_LABEL: Final = re.compile(r"^(\.?L?BB\w+|\.L\w+):")
_COMMENT: Final = re.compile(r"\s*(#|//|;).*$")
_SPILL: Final = re.compile(r"-byte (Folded )?(Spill|Reload)")
_MULTIPLY_ADD: Final = re.compile(r"v?fn?m(add|sub|la|ls|acc|sac)|vpdp|[su]dot")
_REGISTERS: Final = ((r"%zmm", 512), (r"%ymm", 256), (r"%xmm|\bq\d+\b|\bv\d+\.", 128))
_VECTOR: Final = re.compile(r"%[xyz]mm|\b[qv]\d+\b|\bz\d+\.")
_MEMORY: Final = re.compile(r"\(%\w+|\[x\d+|\(%rip|,%r\w+,?\d?\)|\d\(%|\[sp")
_STORE: Final = re.compile(
    r"^(v?mov[aunt]\w*|v?extract\w+|st[rp1]\w*|vs\w*e\d+)\s.*(\)|\])(\s*\{%k\d\})?$"
)
WIDTH: Final = 6
"""Instructions that a core of today starts in a cycle, about."""


def innermost_loops(assembly: str, costs: CostModel) -> tuple[InnerLoop, ...]:
    """The innermost loops in the order of the text; lines count from 0."""
    lines = assembly.splitlines()
    return tuple(_loop(lines, start, end, costs) for start, end in _extents(lines))


def spills(assembly: str) -> int:
    """How many instructions spill or reload a register."""
    return len(_SPILL.findall(assembly))


def _extents(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Each innermost loop's line of its label, and of the last jump back to it."""
    labels = {match[1]: n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    for number, line in enumerate(lines):
        if (header := _HEADER.search(line)) is None or not header[1]:
            continue
        start = max((n for n in labels.values() if n <= number), default=number)
        label = next((name for name, n in labels.items() if n == start), "")
        back = [n for n in range(start, len(lines)) if _jumps_to(lines[n], label)]
        if back and label:
            yield start, back[-1]


def _jumps_to(line: str, label: str) -> bool:
    code = _COMMENT.sub("", line)
    return bool(code[:1].isspace()) and code.rstrip().endswith(label) and label in code.split()[-1:]


def _loop(lines: Sequence[str], start: int, end: int, costs: CostModel) -> InnerLoop:
    codes = [_COMMENT.sub("", line).strip() for line in lines[start : end + 1]]
    codes = [code for code in codes if code and not code.startswith(".") and code[-1] != ":"]
    text = "\n".join(codes)
    bits = next((bits for name, bits in _REGISTERS if re.search(name, text)), 0)
    vectors = [code for code in codes if _VECTOR.search(code)]
    stores = sum(bool(_STORE.match(code)) for code in vectors)
    touched = sum(bool(_MEMORY.search(code)) for code in vectors) - stores
    adds = sum(bool(_MULTIPLY_ADD.match(code)) for code in codes)
    cycles = max(
        adds / costs.fma_ports, touched / costs.load_ports, stores / costs.store_ports,
        len(codes) / WIDTH,
    )  # fmt: skip
    return InnerLoop(start, end, bits, len(codes), adds, touched, stores, round(cycles, 2))
