"""The entries of each suite: a name, and how it is compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from benchmarks.torch.comparing import compare, passes_without_weft
from benchmarks.torch.models import MODELS, step_of

APART = ("linalg.", "fft.", "special.")
"""Families that are reported apart."""


@cache
def _operators(dtype: torch.dtype) -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db if dtype in op.supported_dtypes("cpu")}


def names_of(suite: str, dtype: torch.dtype) -> list[str]:
    """All entries of a suite."""
    return sorted(MODELS) if suite == "models" else sorted(_operators(dtype))


def outcome(suite: str, name: str, dtype: torch.dtype, samples: int) -> dict[str, Any]:
    """What became of an entry."""
    return model_outcome(name) if suite == "models" else operator_outcome(name, dtype, samples)


def operator_outcome(name: str, dtype: torch.dtype, samples: int) -> dict[str, Any]:
    """The worst of some samples of an operator of OpInfo's, chosen by the name."""
    op = _operators(dtype)[name]
    backward = bool(op.supports_autograd and dtype.is_floating_point)
    torch.manual_seed(0)
    given = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    chosen = random.Random(name).sample(given, min(samples, len(given)))
    rank = ("native", "not counted", "fallback", "error", "wrong")
    worst: dict[str, Any] = {"status": "native"}
    for sample in chosen:
        function, inputs = _flat(op, sample)
        try:
            found = compare(function, inputs, backward=backward)
        except Exception as error:  # eager mode itself
            found = {"status": "not counted", "error": f"eager: {str(error)[:200]}"}
        if found["status"] in ("error", "wrong") and not passes_without_weft(
            function, inputs, backward=backward
        ):
            found = {"status": "not counted", "error": "aot_eager fails too"}
        if rank.index(found["status"]) > rank.index(worst["status"]):
            worst = found
    return worst


def _flat(op: Any, sample: Any) -> tuple[Callable[..., Any], Sequence[Any]]:
    """An operator on a sample as a function of its tensors alone."""
    pytree = torch.utils._pytree
    leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        whole = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            whole[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(whole, structure)
        return op.op(first, *args, **kwargs)

    return function, [leaves[place] for place in places]


def model_outcome(name: str) -> dict[str, Any]:
    """A model's forward pass, and the gradients of a step."""
    function, inputs = step_of(name)
    return compare(function, inputs, backward=True)
