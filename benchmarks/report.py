"""Tables of recorded results in Markdown: `python -m benchmarks.report results/DATE.jsonl ...`.

A ratio is the time of the fastest peer over weft's: above 1, weft is faster. Peers that have no
time are named with the reason. `--readme` writes the models' and the single operators' rows into
README.md, between its two marks. `--plots` draws all that was recorded into docs/plots.
`--closing` prints every row beside what it has to reach, and what is missing.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.closing import UNCOUNTED, cells_of, closing_table
from benchmarks.models import GROUPS
from benchmarks.options import RESULTS
from benchmarks.plots.recorded import write_plots
from benchmarks.run import best_peer, recorded

BELOW = 1.2
"""Rows under this ratio are listed, with where the time goes."""

README = Path(__file__).parents[1] / "README.md"
PLOTS_FOLDER = README.parent / "docs" / "plots"
MARKERS = "<!-- benchmarks.report: -->", "<!-- end -->"

Row = dict[str, Any]


def main() -> None:
    """Prints the tables of all files together, or writes the README's."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path, help="the newest by default")
    parser.add_argument("--readme", action="store_true", help="write README.md's table")
    parser.add_argument("--closing", action="store_true", help="print each row's gate")
    parser.add_argument("--plots", action="store_true", help="write SVG to docs/plots")
    arguments = parser.parse_args()
    if arguments.plots:
        print("\n".join(map(str, write_plots(RESULTS, PLOTS_FOLDER))))
        return
    files: list[Path] = arguments.files or sorted(RESULTS.glob("2*.jsonl"))[-1:]
    rows: dict[tuple[str, int], Row] = {}
    for file in files:
        rows |= {key: row for key, row in recorded(file).items() if "engines" in row}
    if arguments.readme:
        README.write_text(with_table(README.read_text(), short_table(rows)))
    else:
        print(closing_table(rows) if arguments.closing else report(rows))


def with_table(text: str, table: str) -> str:
    """A text with the table between its marks."""
    before, _, rest = text.partition(MARKERS[0])
    _, mark, after = rest.partition(MARKERS[1])
    assert mark, f"the text has {MARKERS[0]} and {MARKERS[1]}"
    return f"{before}{MARKERS[0]}\n\n{table}\n\n{MARKERS[1]}{after}"


def short_table(rows: dict[tuple[str, int], Row]) -> str:
    """The models and the single operators, with what measured them above."""
    threads = sorted({count for _, count in rows})
    columns = " | ".join(f"{n} thr.: weft | best peer | ratio" for n in threads)
    lines = [f"| case | {columns} | compile | `.so` |", "|---" * (3 + 3 * len(threads)) + "|"]
    days = {row["when"][:10] for row in rows.values()}
    for group in ("models", "operators"):
        for case in GROUPS[group]:
            measured = [rows.get((case.name, n)) for n in threads]
            known = next((row for row in measured if row is not None), None)
            if known is not None:
                cells = " | ".join(cells_of(row) for row in measured)
                made = f"{known['compile_s']:.1f} s | {_size(known['so_kb'])}"
                lines.append(f"| {case.name} | {cells} | {made} |")
    return (
        f"{_head(list(rows.values()))} Recorded on {' and '.join(sorted(days))}.\n\n"
        + "\n".join(lines)
    )


def report(rows: dict[tuple[str, int], Row]) -> str:
    """A table of each group, their means, and the rows that are not well ahead."""
    threads = sorted({count for _, count in rows})
    sections = [_head(list(rows.values()))]
    for group, cases in GROUPS.items():
        names = [case.name for case in cases if any((case.name, n) in rows for n in threads)]
        if names:
            sections.append(_table(group, names, rows, threads))
    sections.append(_means(rows, threads))
    sections.append(_below(rows))
    sections.append(_absent(list(rows.values())))
    return "\n\n".join(section for section in sections if section)


def _size(kilobytes: int) -> str:
    return f"{kilobytes} KB" if kilobytes < 1000 else f"{kilobytes / 1e3:.1f} MB"


def _head(rows: Sequence[Row]) -> str:
    limits = {row["threads"]: row["limits"] for row in rows}
    peaks = ", ".join(f"{limits[n]['gflops']} on {n}" for n in sorted(limits))
    cpu = next(iter(limits.values()))["cpu"] if limits else "no machine"
    versions = {
        f"{name} {engine['version']}"
        for row in rows
        for name, engine in row["engines"].items()
        if engine.get("version")
    }
    return (
        f"On {cpu}, multiply-adds {peaks} threads (GFLOP/s). Engines: "
        f"{', '.join(sorted(versions))}. Milliseconds a call; ratio: the fastest peer's time over "
        "weft's."
    )


def _table(
    group: str, names: Sequence[str], rows: dict[tuple[str, int], Row], threads: Sequence[int]
) -> str:
    columns = [f"weft, {n} thr. | best peer | ratio | % of limit" for n in threads]
    lines = [f"### {group}", f"| case | {' | '.join(columns)} |"]
    lines.append("|---" * (1 + 4 * len(threads)) + "|")
    for name in names:
        cells = " | ".join(cells_of(rows.get((name, n)), "roofline_percent") for n in threads)
        lines.append(f"| {name} | {cells} |")
    means = [_mean([rows[name, n] for name in names if (name, n) in rows]) for n in threads]
    lines.append(f"| **geometric mean** | {' | '.join(f'| | **{mean}** |' for mean in means)} |")
    return "\n".join(lines)


def _ratios(rows: Sequence[Row]) -> list[float]:
    found = [best_peer(row) for row in rows if row["case"] not in UNCOUNTED]
    return [best[1] for best in found if best is not None]


def _mean(rows: Sequence[Row]) -> str:
    ratios = _ratios(rows)
    return f"{geometric_mean(ratios):.2f}" if ratios else ""


def _means(rows: dict[tuple[str, int], Row], threads: Sequence[int]) -> str:
    """weft against each engine over all cases that both have."""
    engines = list(dict.fromkeys(name for row in rows.values() for name in row["engines"]))
    lines = [
        "### weft against each engine",
        "| engine | threads | cases | geometric mean | least |",
    ]
    lines.append("|---|---|---|---|---|")
    for engine in engines[1:]:
        for count in threads:
            ratios = [
                row["engines"][engine]["ratio"]
                for (case, n), row in rows.items()
                if n == count
                and case not in UNCOUNTED
                and "ratio" in row["engines"].get(engine, {})
            ]
            if ratios:
                mean = f"{geometric_mean(ratios):.2f} | {min(ratios):.2f}"
                lines.append(f"| {engine} | {count} | {len(ratios)} | {mean} |")
    return "\n".join(lines)


def _below(rows: dict[tuple[str, int], Row]) -> str:
    found = sorted(
        (best[1], case, threads, best[0])
        for (case, threads), row in rows.items()
        if (best := best_peer(row)) is not None and best[1] < BELOW
    )
    lines = [f"### Below {BELOW}", "| case | threads | ratio | best peer |", "|---|---|---|---|"]
    lines += [f"| {case} | {n} | {ratio:.2f} | {peer} |" for ratio, case, n, peer in found]
    return "\n".join(lines) if found else f"No row is below {BELOW}."


def _absent(rows: Sequence[Row]) -> str:
    """Engines without a time, by reason."""
    reasons = Counter(
        (name, engine["status"], engine["reason"])
        for row in rows
        for name, engine in row["engines"].items()
        if engine["status"] != "ok"
    )
    lines = ["### Engines that had no time", "| engine | what | rows | why |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {status} | {count} | {reason[:120].replace('|', '/')} |"
        for (name, status, reason), count in sorted(reasons.items())
    ]
    return "\n".join(lines) if reasons else ""


if __name__ == "__main__":
    main()
