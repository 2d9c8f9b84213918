"""Measurements as plain data: one object for each line of the limits, the engines, the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.bench.limits import Limits
from weft.bench.rounds import Measured
from weft.bench.work import Work

Row = dict[str, Any]


def limit_rows(limits: Limits) -> list[Row]:
    """A row of multiply-adds, then one of each loop over each level of memory."""
    shared: Row = {"kind": "limit", "cpu": limits.cpu, "threads": limits.threads}
    best = {"best_gflops": round(limits.best_gflops, 1)} if limits.best_gflops else {}
    return [
        shared | {"limit": "fma", "gflops": round(limits.gflops, 1)} | best,
        *(
            shared | {"limit": each.access, "level": each.level, "gbs": round(each.gbs, 1)}
            for each in limits.bandwidths
        ),
    ]


def engine_rows(measured: Sequence[Measured], work: Work, limits: Limits) -> list[Row]:
    """A row of each engine. `ratio` is its time over that of the first."""
    ours = measured[0].milliseconds
    return [_engine_row(each, ours, work, limits) for each in measured]


def _engine_row(each: Measured, ours: float | None, work: Work, limits: Limits) -> Row:
    row: Row = {"kind": "engine", "engine": each.engine, "version": each.version}
    row |= {"threads": limits.threads, "status": each.status}
    if each.reason:
        row["reason"] = each.reason
    if each.milliseconds is None:
        return row
    row |= {"ms": _digits(each.milliseconds), "rounds_ms": [_digits(ms) for ms in each.rounds]}
    if ours is not None:
        row["ratio"] = round(each.milliseconds / ours, 3)
    row |= rates(each.milliseconds, work.flops, work.bytes, limits)
    row |= {"difference": each.difference, "load_s": round(each.load_seconds, 3)}
    return row | {"peak_mb": round(each.peak_bytes / 1e6, 1)}


def rates(milliseconds: float, flops: int, size: int, limits: Limits) -> Row:
    """Operations and bytes a second, and the shares of what the machine allows, in percent."""
    seconds = milliseconds * 1e-3
    gflops, gbs = flops / seconds * 1e-9, size / seconds * 1e-9
    return {
        "gflops": _digits(gflops),
        "gbs": _digits(gbs),
        "fma_percent": round(100 * gflops / limits.gflops, 1),
        "bandwidth_percent": round(100 * gbs / limits.gbs(size), 1),
        "roofline_percent": round(100 * limits.seconds(flops, size) / seconds, 1),
    }


def _digits(number: float) -> float:
    """Four digits of a number."""
    return float(f"{number:.4g}")
