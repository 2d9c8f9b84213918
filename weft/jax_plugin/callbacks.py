"""JAX's callbacks: functions of Python that programs call on the host while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from weft.compiler.frontend.stablehlo.from_jax import PLATFORM
from weft.compiler.frontend.stablehlo.ops.control import HOST_CALL
from weft.compiler.machine.python.host_calls import HostFunction


def register_callbacks() -> None:
    """Tells JAX of the rules of `pure_callback`, `io_callback` and those of `jax.debug`. Their code
    is not shared between programs, each of which holds its functions.
    """
    callback, debugging = (import_module(f"jax._src.{name}") for name in ("callback", "debugging"))
    rules: dict[Any, Callable[..., Any]] = {
        callback.pure_callback_p: _callback,
        callback.io_callback_p: _callback,
        debugging.debug_callback_p: _callback,
        debugging.debug_print_p: partial(_debug_print, debugging),
    }
    mlir: Any = import_module("jax._src.interpreters.mlir")
    for primitive, rule in rules.items():
        mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)


def _callback(ctx: Any, *operands: Any, callback: Callable[..., Any], **_: Any) -> Sequence[Any]:
    """A call of the function. Effects stay in the program's order, and need no tokens."""
    mlir: Any = import_module("jax._src.interpreters.mlir")
    held = HostFunction(partial(_called, callback, ctx.avals_out))
    ctx.module_context.add_keepalive(held)
    call = mlir.custom_call(
        HOST_CALL,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, each) for each in ctx.avals_out],
        operands=operands,
        backend_config=held.name,
        has_side_effect=True,
    )
    ctx.set_tokens_out(ctx.tokens_in)
    return call.results


def _debug_print(
    debugging: Any,
    ctx: Any,
    *operands: Any,
    fmt: str,
    in_tree: Any,
    static_args: Any,
    np_printoptions: Any,
    has_placeholders: bool,
    logging_record: Any,
    **_: Any,
) -> Sequence[Any]:
    printed = partial(
        debugging._format_print_callback, fmt, dict(np_printoptions), has_placeholders,
        logging_record,
    )  # fmt: skip
    callback = debugging._make_flat_callback(in_tree, printed, static_args)
    return _callback(ctx, *operands, callback=callback)


def _called(callback: Callable[..., Any], types: Sequence[Any], *arrays: Any) -> list[Any]:
    """What a callback returns for arrays on the CPU, of XLA where the process has it. Raises
    RuntimeError for results of other shapes or dtypes.
    """
    jax: Any = import_module("jax")
    dtypes: Any = import_module("jax._src.dtypes")
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        device = jax.local_devices(backend=PLATFORM)[0]
    with jax.default_device(device):
        results = callback(*jax.device_put(arrays, device)) or ()
        found = [dtypes.canonicalize_value(np.asarray(each)) for each in results]
    if len(found) != len(types):
        rule = "Mismatched number of outputs from callback"
        raise RuntimeError(f"{rule}. Expected: {len(types)}, Actual: {len(found)}")
    for number, (each, wanted) in enumerate(zip(found, types, strict=True)):
        for what in ("shape", "dtype"):
            pair = getattr(wanted, what), getattr(each, what)
            if pair[0] != pair[1]:
                rule = f"Incorrect output {what} for return value #{number}"
                raise RuntimeError(f"{rule}: Expected: {pair[0]}, Actual: {pair[1]}")
    return found
