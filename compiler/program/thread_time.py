"""metadata -> numbers: about how long a call of a model takes on so many threads.

Of each kernel one thread does what is not parallel; in a parallel section the thread with the most
chunks is waited for. Weights come from L2 where the threads' caches have room for all of them
together, else from memory, which all cores share; a part of the other operands is in the caches of
other cores, as these have written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from weft.compiler.program.call_time import bounds_of
from weft.compiler.target.target import LINE, Target
from weft.dialects.errors import WeftError
from weft.dialects.loop.iteration_cost import Section, Shares

EXCHANGED: Final = 0.3
"""The share of what is computed that goes to another core than the one that computed it, of all
that could.
"""

EXCHANGE_NS: Final = 5.5
"""Nanoseconds of a line that another core has written."""


class Cores(Struct, frozen=True):
    """So many threads: how many times as long as one alone each takes to compute, and to read what
    no L2 holds, and the nanoseconds of a parallel section of all.
    """

    threads: int
    compute: float = 1.0
    read: float = 1.0
    section_ns: float = 0.0

    @staticmethod
    def of(target: Target, threads: int) -> Cores:
        """By the target's costs: each core computes as one alone does."""
        cost = target.cost
        section = cost.parallel_ns + cost.parallel_each_ns * threads if threads > 1 else 0.0
        read = max(1.0, threads * cost.memory_gbs / cost.total_memory_gbs)
        return Cores(threads, read=read, section_ns=section)


def model_ns(metadata: Mapping[str, Any], target: Target, cores: Cores) -> float:
    """Nanoseconds of a call of a model. Raises WeftError for sizes that vary."""
    calls = metadata["calls"]
    for call in calls:
        if not isinstance(call["flops"], int) or not isinstance(call["bytes"], int):
            raise WeftError(f"scaling requires sizes that are numbers, got {call['bytes']}")
    kept = sum(call["weights"] for call in calls) <= cores.threads * target.l2_bytes
    total = sum(_call_ns(call, target, cores, kept=kept) for call in calls)
    for group in metadata["concurrent"]:
        if group["least"] <= cores.threads <= group["most"]:
            known = [int(each) for each in group["modelled"] if int(each) <= cores.threads]
            one_by_one, together = group["modelled"][str(max(known))]
            total -= one_by_one - together
    return total


def _call_ns(call: Mapping[str, Any], target: Target, cores: Cores, *, kept: bool) -> float:
    """Nanoseconds of a kernel, whose weights are `kept` in the caches from call to call."""
    computed, _ = bounds_of(call["flops"], 1, target)
    weights, others, threads = call["weights"], call["bytes"] - call["weights"], cores.threads
    near = target.cost.l2_bandwidth * target.cost.ghz
    far = target.cost.memory_gbs / cores.read
    moved = weights / (near if kept else far)
    moved += others / (near if others <= threads * target.l2_bytes else far)
    from_others = others / LINE * EXCHANGE_NS * EXCHANGED * (1 - 1 / threads)
    busiest, sections = _spread(call["shares"], threads)
    own = max(computed * cores.compute, moved) + from_others
    return target.cost.call_ns + own * busiest + sections * cores.section_ns


def _spread(numbers: list[int], threads: int) -> tuple[float, int]:
    """The share of a kernel that the busiest thread does, and the sections that have chunks for
    several; where sizes vary, all do as much.
    """
    if not numbers:
        return 1 / threads, int(threads > 1)
    rows = [numbers[at : at + 4] for at in range(1, len(numbers), 4)]
    shares = Shares(numbers[0], [Section(*row) for row in rows])
    all_ = max(1, shares.serial + sum(each.operations for each in shares.sections))
    busiest, sections = shares.serial / all_, 0
    for each in shares.sections:
        share = each.busiest(threads)
        busiest += each.operations / all_ * share
        sections += each.runs if share < 1 else 0
    return busiest, sections
