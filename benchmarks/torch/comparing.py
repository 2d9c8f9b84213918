"""One function, eagerly and compiled by weft: results, gradients, and what stayed in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.torch.report import Report, collected

TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-4, 2e-5),
    torch.bfloat16: (4e-2, 2e-2),
    torch.float16: (4e-3, 2e-3),
}
"""Relative and absolute, by dtype."""


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in a nest of tuples, lists and dicts, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [each for each in leaves if isinstance(each, torch.Tensor)]


def run(function: Callable[..., Any], inputs: Sequence[Any], *, backward: bool) -> list[Any]:
    """The results, and the gradients of inputs by seeded cotangents."""
    torch.manual_seed(0)
    given = [
        x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
        for x in inputs
    ]
    results = tensors_of(function(*given))
    wanted = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
    ends = [y for y in results if y.requires_grad]
    found: list[Any] = [y.detach() for y in results]
    if backward and ends and wanted:
        generator = torch.Generator().manual_seed(1)
        slopes = [_slope(y, generator) for y in ends]
        found += torch.autograd.grad(ends, wanted, slopes, allow_unused=True)
    return found


def _slope(y: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.complex64 if y.is_complex() else torch.float32
    return torch.randn(y.shape, generator=generator, dtype=drawn).to(y.dtype)


def difference(found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
    """How results differ; None where they are equal within tolerance."""
    if len(found) != len(wanted):
        return f"{len(found)} results for {len(wanted)}"
    for position, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one is None or other is None:
            if one is not other and float((other if one is None else one).abs().max()):
                return f"result {position}: {one} for {other}"
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            types = [f"{each.dtype} {list(each.shape)}" for each in (one, other)]
            return f"result {position}: {types[0]} for {types[1]}"
        floats = other.is_floating_point() or other.is_complex()
        relative, absolute = TOLERANCES[one.dtype.to_real()] if floats else (0, 0)
        if floats:  # sums round by their greatest parts
            absolute *= max(
                1.0, float(other.abs().nan_to_num(0, 0, 0).max()) if other.numel() else 1
            )
        if not torch.allclose(one, other, relative, absolute, equal_nan=True):
            wide = torch.promote_types(one.dtype, torch.float64)
            worst = (one.to(wide) - other.to(wide)).abs().nan_to_num(torch.inf).max()
            return f"result {position} of {one.dtype}: off by {float(worst):.3g}"
    return None


def compare(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    backward: bool,
    dynamic: bool | None = None,
    exact: bool = False,
) -> dict[str, Any]:
    """What became of a function: native, fallback, wrong or error, and the operators in torch.
    With `exact`, results that differ are held against those in f64: they may be off by twice as
    much as eager mode's.
    """
    wanted = run(function, inputs, backward=backward)
    _forget()
    try:
        with collected() as report:
            compiled = torch.compile(function, backend="weft", dynamic=dynamic)
            found = run(compiled, inputs, backward=backward)
    except Exception as error:  # whatever it is, it is what the entry ends with
        return _error(error)
    wrong = difference(found, wanted)
    if wrong is not None and exact:
        _forget()
        wrong = _against_f64(function, inputs, found, wanted, backward=backward)
    if wrong is not None:
        return {"status": "wrong", "error": wrong}
    return _outcome(report)


def _error(error: Exception) -> dict[str, Any]:
    text = " ".join(str(error).split())
    return {"status": "error", "error": f"{type(error).__name__}: {text[:400]}"}


def _outcome(report: Report) -> dict[str, Any]:
    if report.refused:
        refused = {f"{each.target}: {each.reason}"[:300] for each in report.refused}
        return {"status": "fallback", "graphs": report.graphs, "refused": sorted(refused)}
    found = {"status": "native", "graphs": report.graphs, "operators": report.operators}
    return found | {"recompilations": _recompilations()}


def _forget() -> None:
    """Drops what Dynamo has compiled, and what it counts."""
    torch.compiler.reset()
    torch._dynamo.utils.clear_compilation_metrics()


def _recompilations() -> int:
    """How often Dynamo compiled code again since it was reset, as its guards failed."""
    metrics = torch._dynamo.utils.get_compilation_metrics()
    return sum(each.recompile_reason is not None for each in metrics)


def _against_f64(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    found: Sequence[Any],
    wanted: Sequence[Any],
    *,
    backward: bool,
) -> str | None:
    """The first result that is off from that in f64 by more than twice what eager mode's is. Where
    rounding takes an activation across a kink, as that of relu, its whole gradient differs: then
    the program compiled for f64 has to give what eager mode gives, and gradients be close in norm,
    unless eager mode's are not either. Such results are nothing but rounding, which has some 1e7
    times its size in them.
    """

    def wide(x: Any) -> Any:
        floats = isinstance(x, torch.Tensor) and x.is_floating_point()
        return x.detach().double().requires_grad_(x.requires_grad) if floats else x

    given = [wide(x) for x in inputs]
    exact = run(function, given, backward=backward)
    if len(found) != len(exact):
        return f"{len(found)} results for {len(exact)}"
    results = len(exact) - sum(isinstance(x, torch.Tensor) and x.requires_grad for x in given)
    is_rounding = _apart_in_norm(wanted, exact)
    wrong = _further_off(found[:results], wanted[:results], exact[:results])
    if wrong is not None and not is_rounding:
        return wrong
    wrong = wrong or _further_off(found, wanted, exact)
    if wrong is None or (_apart_in_norm(found, exact) and not is_rounding):
        return wrong
    _forget()
    with collected():
        compiled = torch.compile(function, backend="weft")
        within = 1e-6 if is_rounding else 1e-9
        return _further_off(run(compiled, given, backward=backward), exact, exact, within)


def _further_off(
    found: Sequence[Any], wanted: Sequence[Any], exact: Sequence[Any], within: float = 2e-5
) -> str | None:
    """The first result that is off by more than twice what is wanted and `within`, in relation to
    its greatest element; a sum that vanishes has the rounding of what it is a sum of.
    """
    floor = 1e-6 * max((_greatest(true) for true in exact), default=0.0)
    for position, (one, other, true) in enumerate(zip(found, wanted, exact, strict=True)):
        if one is None or other is None or not one.numel():
            continue
        size = max(_greatest(true), floor)
        wide = torch.promote_types(true.dtype, torch.float64)
        own, eager = (float((x.to(wide) - true.to(wide)).abs().max()) for x in (one, other))
        if not math.isfinite(eager):  # eager mode has no number where there is one
            eager = TOLERANCES[other.dtype.to_real()][0] * size
        if one.shape != other.shape or not own <= 2 * eager + within * size:
            return f"result {position}: off by {own:.3g}, eager by {eager:.3g}, of {size:.3g}"
    return None


def _greatest(tensor: torch.Tensor | None) -> float:
    return 0.0 if tensor is None or not tensor.numel() else float(tensor.abs().max())


def _apart_in_norm(found: Sequence[Any], exact: Sequence[Any]) -> bool:
    """Whether some result is off by more than a tenth of its norm, and of the floor's."""
    floor = 1e-6 * max((_greatest(true) for true in exact), default=0.0)
    pairs = [(one, true) for one, true in zip(found, exact, strict=True) if one is not None]
    return any(
        one.shape != true.shape
        or not float((one.double() - true.double()).norm())
        <= 0.1 * (float(true.double().norm()) + floor * one.numel() ** 0.5)
        for one, true in pairs
    )


def compare_generation(
    generate: Callable[[Callable[..., Any] | None], torch.Tensor], forward: Callable[..., Any]
) -> dict[str, Any]:
    """What became of a model that generates tokens with its forward pass compiled."""
    wanted = generate(None)
    _forget()
    try:
        with collected() as report:
            found = generate(torch.compile(forward, backend="weft"))
    except Exception as error:  # whatever it is, it is what the entry ends with
        return _error(error)
    if not torch.equal(found, wanted):
        return {"status": "wrong", "error": f"tokens {found.tolist()} for {wanted.tolist()}"[:300]}
    return _outcome(report)


def passes_without_weft(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    backward: bool,
    dynamic: bool | None = None,
) -> bool:
    """Whether AOTAutograd alone compiles a function to what eager mode computes."""
    _forget()
    try:
        wanted = run(function, inputs, backward=backward)
        compiled = torch.compile(function, backend="aot_eager", dynamic=dynamic)
        return difference(run(compiled, inputs, backward=backward), wanted) is None
    except Exception:  # such an entry is not counted
        return False
