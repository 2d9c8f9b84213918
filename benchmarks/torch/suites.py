"""The entries of each suite: a name, and how it is compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import torch

from benchmarks.torch.comparing import (
    compare,
    compare_generation,
    passes_without_weft,
)
from benchmarks.torch.models import HELD_OUT, MODELS, as_function, generation_of, step_of

SEEDS = (2, 3, 4)
"""Of the inputs of a model, whose results are wrong if they are for each: an activation near zero
may round to the other sign, and then its gradient differs.
"""

APART = ("linalg.", "fft.", "special.")
"""Families that are reported apart."""


TIES = ("kthvalue", "topk")
"""Operators that return indices of elements, of equal ones that of any."""

EQUAL = ("msort", "topk")
"""Operators that may exchange equal elements, and with them whose gradients are whose."""

UNSPECIFIED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""Operators whose elements may be anything."""


@cache
def _operators(dtype: torch.dtype) -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db if dtype in op.supported_dtypes("cpu")}


@cache
def _modules() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {module.name: module for module in module_db}


def names_of(suite: str, dtype: torch.dtype) -> list[str]:
    """All entries of a suite."""
    if suite in ("models", "held-out"):
        return list(MODELS if suite == "models" else HELD_OUT)
    return sorted(_modules() if suite == "modules" else _operators(dtype))


def outcome(
    suite: str, name: str, dtype: torch.dtype, samples: int, dynamic: bool
) -> dict[str, Any]:
    """What became of an entry."""
    if suite in ("models", "held-out"):
        return model_outcome(name)
    if suite == "modules":
        return module_outcome(name, dtype, samples)
    return operator_outcome(name, dtype, samples, dynamic)


def operator_outcome(name: str, dtype: torch.dtype, samples: int, dynamic: bool) -> dict[str, Any]:
    """The worst of some samples of an operator of OpInfo's, chosen by the name."""
    op = _operators(dtype)[name]
    backward = bool(op.supports_autograd and dtype.is_floating_point)
    torch.manual_seed(0)
    given = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    chosen = random.Random(name).sample(given, min(samples, len(given)))
    flat = [_flat(op, sample) for sample in chosen]
    flat = [_of_distinct(*each) for each in flat] if name in EQUAL else flat
    halves = dtype in (torch.float16, torch.bfloat16)  # in which eager mode rounds each step
    return _worst(flat, backward=backward, dynamic=dynamic, exact=halves)


Function = tuple[Callable[..., Any], Sequence[Any]]


def _worst(
    functions: Sequence[Function],
    *,
    backward: bool,
    dynamic: bool | None = None,
    exact: bool = False,
) -> dict[str, Any]:
    """The worst outcome of some functions with their inputs; `exact` is that of `compare`. One
    graph has them all at first, which costs less than half of as many graphs; only if it is not
    native and right, or only then wrong, each is asked.
    """
    rank = ("native", "not counted", "fallback", "error", "wrong")

    def outcome_of(function: Callable[..., Any], inputs: Sequence[Any]) -> dict[str, Any]:
        try:
            found = compare(
                function, inputs, backward=backward, dynamic=dynamic or None, exact=exact
            )
        except Exception as error:  # eager mode itself
            return {"status": "not counted", "error": f"eager: {str(error)[:200]}"}
        if found["status"] in ("error", "wrong") and not passes_without_weft(
            function, inputs, backward=backward, dynamic=dynamic or None
        ):
            return {"status": "not counted", "error": "aot_eager fails too"}
        return found

    whole = outcome_of(*_together(functions))
    if whole["status"] == "native" or len(functions) == 1:
        return whole
    each = [outcome_of(*one) for one in functions]
    if whole["status"] in ("error", "wrong"):
        each.append(whole | {"error": f"in one graph: {whole['error']}"})
    return max(each, key=lambda found: rank.index(found["status"]))


def _together(functions: Sequence[Function]) -> Function:
    """One function of the inputs of all."""
    ends = [0, *accumulate(len(inputs) for _, inputs in functions)]

    def function(*inputs: Any) -> list[Any]:
        return [
            each(*inputs[first:last])
            for (each, _), (first, last) in zip(functions, pairwise(ends), strict=True)
        ]

    return function, [x for _, inputs in functions for x in inputs]


def module_outcome(name: str, dtype: torch.dtype, samples: int) -> dict[str, Any]:
    """The worst of some samples of a module of torch's list, in training."""
    info = _modules()[name]
    torch.manual_seed(0)
    given = info.module_inputs_func(info.module_cls, "cpu", dtype, True, True)
    chosen = random.Random(name).sample(given, min(samples, len(given)))
    functions: list[Function] = []
    for sample in chosen:
        build, call = sample.constructor_input, sample.forward_input
        module = info.module_cls(*build.args, **build.kwargs).to(dtype).train()
        if name.startswith("nn.Lazy"):
            module(*call.args, **call.kwargs)  # which gives its parameters their sizes
        functions.append(_module_function(module, call))
    return _worst(functions, backward=True)


def _module_function(module: torch.nn.Module, call: Any) -> Function:
    leaves, structure = torch.utils._pytree.tree_flatten((call.args, call.kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def arguments(*tensors: torch.Tensor) -> Any:
        whole = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            whole[place] = tensor
        return torch.utils._pytree.tree_unflatten(whole, structure)

    return as_function(module, arguments, [leaves[place] for place in places])


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
        found = op.op(first, *args, **kwargs)
        if op.name in UNSPECIFIED:
            return torch.zeros_like(found)
        return _elements(first, found, *args, **kwargs) if op.name in TIES else found

    return function, [leaves[place] for place in places]


def _of_distinct(function: Callable[..., Any], inputs: Sequence[Any]) -> Function:
    """A function of its first input's distinct elements, whose gradients are those of equal ones
    together.
    """
    x, *rest = inputs
    values, places = x.detach().unique(return_inverse=True)
    given = [values.requires_grad_(x.requires_grad), places, *rest]
    return lambda distinct, at, *others: function(distinct[at], *others), given


def _elements(x: torch.Tensor, found: Any, *args: Any, dim: int = -1, **_: Any) -> Any:
    """Values and, for their indices, the elements there: which of equal ones is not specified."""
    axis = args[1] if len(args) > 1 else dim
    keeps = found.indices.dim() == x.dim()
    places = found.indices if keeps else found.indices.unsqueeze(axis)
    return found.values, x.gather(axis, places)


def model_outcome(name: str) -> dict[str, Any]:
    """A model's forward pass and the gradients of a step, or what it generates."""
    if name.startswith("generate."):
        return compare_generation(*generation_of(name))
    found: dict[str, Any] = {}
    for seed in SEEDS:
        function, inputs = step_of(name, seed)
        found = compare(function, inputs, backward=True, exact=True)
        if found["status"] != "wrong":
            return found | {"seed": seed}
    return found
