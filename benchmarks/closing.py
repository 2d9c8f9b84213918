"""The closing table: every row of the list beside what it has to reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any, Final

from benchmarks.models import GROUPS
from benchmarks.run import best_peer
from weft.bench.engines import OURS, PEERS

Row = dict[str, Any]
Rows = Mapping[tuple[str, int], Row]

UNCOUNTED: Final = ("add_8",)
"""Cases that geometric means leave out: their time is that of the call."""

TIE: Final = {1: 0.95, 2: 0.90}
"""The ratio that is a tie in the noise, by threads; more threads are as noisy as two."""

SHARES: Final = ("fma_percent", "bandwidth_percent")
"""What rows show of the machine's limits."""

FMA_CASES: Final = ("sgemm_256", "sgemm_512", "sgemm_1024", "sgemm_2048")
FMA_PERCENT: Final = 92.0
"""Products, and the share of the multiply-adds that they have to reach."""


@dataclass(frozen=True)
class Gate:
    """The least ratio of each row, a tie where it is None, and the least mean of all."""

    least: float | None
    mean: float | None = None

    def of_row(self, threads: int) -> float:
        """What a row of so many threads has to reach."""
        return TIE.get(threads, TIE[2]) if self.least is None else self.least


GATES: Final = {
    "operators": Gate(None, 1.4),
    "models": Gate(None, 1.2),
    "more operators": Gate(0.8),
    "more models": Gate(0.8),
}


def closing_table(rows: Rows) -> str:
    """A table of each group with its means, then rows below their gates, rows and peers that are
    missing.
    """
    threads = sorted({count for _, count in rows})
    sections = [_group(group, rows, threads) for group in GROUPS]
    sections += [_failures(rows, threads), _unmeasured(rows, threads), missing_peers(rows)]
    return "\n\n".join(sections)


def _group(group: str, rows: Rows, threads: Sequence[int]) -> str:
    columns = [f"{n} thr.: weft ms | best peer | ratio | % FMA | % bandwidth" for n in threads]
    lines = [f"### {group}", f"| case | {' | '.join(columns)} | gate |"]
    lines.append("|---" * (2 + 5 * len(threads)) + "|")
    for case in GROUPS[group]:
        if any((case.name, n) in rows for n in threads):
            cells = " | ".join(cells_of(rows.get((case.name, n)), *SHARES) for n in threads)
            verdicts = [verdict(group, case.name, rows.get((case.name, n)), n) for n in threads]
            lines.append(f"| {case.name} | {cells} | {', '.join(filter(None, verdicts))} |")
    means = [_mean(group, rows, n) for n in threads]
    cells = " | ".join(f"| | {f'**{mean:.2f}**' if mean else ''} | |" for mean in means)
    lines.append(f"| **geometric mean** | {cells} | {_mean_verdict(group, means, threads)} |")
    return "\n".join(lines)


def cells_of(row: Row | None, *shares: str) -> str:
    """A row's cells: our time, the fastest peer's, their ratio, and these shares in percent."""
    if row is None or "ms" not in row["engines"][OURS]:
        return "|" + " |" * (1 + len(shares))
    ours, best = row["engines"][OURS], best_peer(row)
    cells = [f"{ours['ms']:.4g}", "none", ""]
    if best is not None:
        name, ratio = best
        cells[1:] = [f"{row['engines'][name]['ms']:.4g} {name}", f"{ratio:.2f}"]
    return " | ".join([*cells, *(f"{ours[share]:.0f}" for share in shares)])


def verdict(group: str, case: str, row: Row | None, threads: int) -> str:
    """What is wrong with a row, empty for nothing: it is below its gate, or has no peer; a tie is
    told too.
    """
    if row is None or "ms" not in row["engines"][OURS]:
        return f"not measured on {threads}"
    best, gate = best_peer(row), GATES[group].of_row(threads)
    share = row["engines"][OURS]["fma_percent"]
    if best is None:
        return f"no peer on {threads}"
    if best[1] < gate:
        return f"below {gate:g} on {threads}"
    if case in FMA_CASES and share < FMA_PERCENT:
        return f"below {FMA_PERCENT:g} % FMA on {threads}"
    return f"tie on {threads}" if best[1] < 1 and GATES[group].least is None else ""


def _mean(group: str, rows: Rows, threads: int) -> float | None:
    names = [case.name for case in GROUPS[group] if case.name not in UNCOUNTED]
    found = [best_peer(rows[name, threads]) for name in names if (name, threads) in rows]
    ratios = [best[1] for best in found if best is not None]
    return geometric_mean(ratios) if ratios else None


def _mean_verdict(group: str, means: Sequence[float | None], threads: Sequence[int]) -> str:
    wanted = GATES[group].mean
    return ", ".join(
        f"below {wanted:g} on {n}"
        for mean, n in zip(means, threads, strict=True)
        if mean is not None and wanted is not None and mean < wanted
    )


def _failures(rows: Rows, threads: Sequence[int]) -> str:
    """Rows below their gates, the worst first."""
    found: list[tuple[float, str]] = []
    for group, cases in GROUPS.items():
        for case in cases:
            for n in threads:
                row = rows.get((case.name, n))
                text = verdict(group, case.name, row, n)
                best = best_peer(row) if row else None
                if best is not None and text.startswith("below"):
                    found.append((best[1], f"| {case.name} | {best[1]:.2f} {best[0]} | {text} |"))
    if not found:
        return "No row is below its gate."
    lines = ["### Below their gates", "| case | ratio, best peer | gate |", "|---|---|---|"]
    return "\n".join(lines + [line for _, line in sorted(found)])


def _unmeasured(rows: Rows, threads: Sequence[int]) -> str:
    names = [
        f"{case.name} on {n}"
        for cases in GROUPS.values()
        for case in cases
        for n in threads
        if (case.name, n) not in rows
    ]
    return f"Not measured: {', '.join(names)}." if names else "Every case of the list is measured."


def missing_peers(rows: Rows) -> str:
    """Each peer by how many rows have its time, and why the others have none."""
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (case, _), row in sorted(rows.items()):
        for name in PEERS:
            engine = row["engines"].get(name, {"status": "not asked", "reason": ""})
            if engine["status"] != "ok":
                text = f"{engine['status']}: {engine['reason']}".removesuffix(": ")
                reasons[name, text[:120].replace("|", "/")].append(case)
    lines = [
        "### Peers",
        "| peer | rows with a time | without | of which cases |",
        "|---|---|---|---|",
    ]
    for name in PEERS:
        timed = sum("ms" in row["engines"].get(name, {}) for row in rows.values())
        lines.append(f"| {name} | {timed} of {len(rows)} | | |")
        for (_, text), cases in ((key, each) for key, each in reasons.items() if key[0] == name):
            lines.append(f"| | | {text} | {_some(list(dict.fromkeys(cases)))} |")
    return "\n".join(lines)


def _some(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
