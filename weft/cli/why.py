"""Why products and convolutions are scheduled as they are: their plans, with the terms of the costs
by which weft compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict

from weft.cli.table import table
from weft.compiler.driver.compile_kernels import parse_kernel
from weft.compiler.loop.schedules.planned import Explanation, explain
from weft.compiler.target.target import Target

RUNNERS_UP: Final = 5
"""Plans that are shown beside the chosen one."""

_TERMS: Final = ("compute", "panel", "rows", "packing", "once")


def shown_plans(kernels: Mapping[str, str], target: Target, *, as_json: bool) -> str:
    """The plans of naive kernels, by their names, for people or as one JSON object."""
    found = {name: explain(parse_kernel(text), target) for name, text in kernels.items()}
    if as_json:
        plans = {name: [_described(each) for each in all_] for name, all_ in found.items()}
        return json.dumps({name: each for name, each in plans.items() if each}, indent=1)
    sections = [f"@{name}\n{_shown(each)}" for name, all_ in found.items() for each in all_]
    return "\n\n".join(sections) or "no product and no convolution: nothing has plans"


def _described(each: Explanation) -> dict[str, Any]:
    plans = [
        {"plan": str(rated.plan), "cost_ns": rated.cost and asdict(rated.cost)}
        for rated in each.rated
    ]
    extents = [str(extent) for extent in each.problem.extents]
    return {"extents": extents, "chosen": str(each.chosen), "plans": plans}


def _shown(each: Explanation) -> str:
    """The chosen plan and the best others, with their times in microseconds."""
    extents = " x ".join(str(extent) for extent in each.problem.extents)
    chosen = [rated for rated in each.rated if rated.plan == each.chosen]
    others = [rated for rated in each.rated if rated.plan != each.chosen][:RUNNERS_UP]
    rows: list[list[object]] = [["", "us", *_TERMS, "plan"]]
    for rated in (*chosen, *others):
        if rated.cost is None:
            return f"  {extents}, the only plan: {each.chosen}"
        mark = "*" if rated.plan == each.chosen else ""
        times = [rated.cost.total, *(getattr(rated.cost, term) for term in _TERMS)]
        rows.append([mark, *(round(time / 1e3, 1) for time in times), str(rated.plan)])
    return f"  {extents}, the chosen of {len(each.rated)} plans first\n{table(rows)}"
