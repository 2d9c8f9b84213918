"""What a call costs over one of a backend that computes nothing, by weft and by TorchInductor, in
turns in one process: processor time of the thread, one thread.
`python -m benchmarks.torch.overhead --output FILE [names]`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from statistics import median
from types import FunctionType
from typing import Any, Final

import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def _nothing(gm: Any, _: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """Gives the results of the first call again."""
    kept: list[Any] = []

    def call(arguments: list[Any]) -> Any:
        if not kept:
            kept.append(gm(*arguments))
        arguments.clear()
        return kept[0]

    call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _linears(count: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count)))


_X: Final = torch.randn(4, 4)
PROGRAMS: Final[Mapping[str, tuple[Callable[..., Any], torch.Tensor]]] = {
    "add": (lambda a: a + 1, _X),
    "add bf16": (lambda a: a + 1, _X.bfloat16()),
    "add channels last": (
        lambda a: a + 1, torch.randn(1, 2, 2, 2).to(memory_format=torch.channels_last),
    ),
    "permuted result": (lambda a: (a + 1).t(), _X),
    "a view of an input beside": (lambda a: (a.t(), a + 1), _X),
    "a write": (lambda a: a.mul_(1.0), _X.clone()),
    "linear": (_linears(1), _X),
    "six linears": (_linears(6), _X),
    "twelve linears": (_linears(12), _X),
}  # fmt: skip


def _compiled(program: Callable[..., Any], name: str, backend: Any) -> Callable[..., Any]:
    """A program of its own for each backend: Dynamo keeps what it compiled by code."""
    if isinstance(program, nn.Module):
        return torch.compile(deepcopy(program), backend=backend)
    assert isinstance(program, FunctionType), "programs are functions and modules"
    own = FunctionType(program.__code__.replace(co_name=name), program.__globals__)
    return torch.compile(own, backend=backend)


def measured(name: str, rounds: int, calls: int) -> dict[str, Any]:
    """Microseconds of a call that computes nothing, and what each backend takes beside it."""
    torch.compiler.reset()
    nothing = aot_autograd(fw_compiler=_nothing, inference_compiler=_nothing, bw_compiler=_nothing)
    program, x = PROGRAMS[name]
    backends = {"nothing": nothing, "weft": "weft", "inductor": "inductor"}
    compiled = {key: _compiled(program, key, each) for key, each in backends.items()}
    times: dict[str, list[float]] = {key: [] for key in backends}
    for call in compiled.values():
        for _ in range(50):
            call(x)
    for _ in range(rounds):
        for key, call in compiled.items():
            start = time.thread_time()
            for _ in range(calls):
                call(x)
            times[key].append((time.thread_time() - start) / calls * 1e6)
    least = median(times.pop("nothing"))
    over = {f"{key} over it us": round(median(each) - least, 1) for key, each in times.items()}
    return {"program": name, "nothing us": round(least, 1), **over}


def main() -> None:
    """Measures programs, a line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=200)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad(), chosen.output.open("a") as file:
        for name in chosen.names or list(PROGRAMS):
            row = json.dumps(measured(name, chosen.rounds, chosen.calls))
            print(row, flush=True)
            print(row, file=file)


if __name__ == "__main__":
    main()
