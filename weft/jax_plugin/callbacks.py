"""JAX's callbacks: functions of Python that programs call on the host while they run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from weft.compiler.frontend.stablehlo.platform import HOST_CALL, PLATFORM
from weft.compiler.machine.python.host_calls import HostFunction


def register_callbacks() -> None:
    """Tells JAX of the rules of `pure_callback`, `io_callback` and those of `jax.debug`. Their code
    is not shared between programs, each of which holds its functions.
    """
    callback, debugging = (import_module(f"jax._src.{name}") for name in ("callback", "debugging"))
    rules: dict[Any, Callable[..., Any]] = {
        callback.pure_callback_p: partial(_callback, "jax.pure_callback"),
        callback.io_callback_p: partial(_callback, "jax.io_callback"),
        debugging.debug_callback_p: partial(_callback, "jax.debug.callback"),
        debugging.debug_print_p: partial(_debug_print, debugging),
    }
    mlir: Any = import_module("jax._src.interpreters.mlir")
    for primitive, rule in rules.items():
        mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)


def _callback(
    name: str, ctx: Any, *operands: Any, callback: Callable[..., Any], **_: Any
) -> Sequence[Any]:
    """A call of the function. Effects stay in the program's order, and need no tokens."""
    mlir: Any = import_module("jax._src.interpreters.mlir")
    held = HostFunction(partial(_called, name, callback, ctx.avals_in, ctx.avals_out))
    ctx.module_context.add_keepalive(held)
    call = mlir.custom_call(
        HOST_CALL,
        result_types=[type_of(mlir, each) for each in ctx.avals_out],
        operands=operands,
        backend_config=held.name,
        has_side_effect=True,
    )
    ctx.set_tokens_out(ctx.tokens_in)
    return call.results


def type_of(mlir: Any, aval: Any) -> Any:
    """The type of a result: JAX's own function for that takes other arguments in each minor."""
    return mlir.ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))


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
    return _callback("jax.debug.print", ctx, *operands, callback=callback)


def _called(
    name: str,
    callback: Callable[..., Any],
    given: Sequence[Any],
    types: Sequence[Any],
    *arrays: Any,
) -> list[Any]:
    """What a callback returns for arrays on the CPU, of XLA where the process has it. Raises
    RuntimeError for results of other shapes or dtypes.
    """
    jax: Any = import_module("jax")
    dtypes: Any = import_module("jax._src.dtypes")
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        device = jax.local_devices(backend=PLATFORM)[0]
    values = [_of_type(array, each) for array, each in zip(arrays, given, strict=True)]
    with jax.default_device(device):
        try:
            results = callback(*jax.device_put(values, device)) or ()
            found = [dtypes.canonicalize_value(np.asarray(each)) for each in results]
        except BaseException:
            logging.getLogger(__name__).exception("%s failed", name)
            raise
    if len(found) != len(types):
        rule = "Mismatched number of outputs from callback"
        raise RuntimeError(f"{rule}. Expected: {len(types)}, Actual: {len(found)}")
    for number, (each, wanted) in enumerate(zip(found, types, strict=True)):
        for what in ("shape", "dtype"):
            pair = getattr(wanted, what), getattr(each, what)
            if pair[0] != pair[1]:
                rule = f"Incorrect output {what} for return value #{number}"
                raise RuntimeError(f"{rule}: Expected: {pair[0]}, Actual: {pair[1]}")
    return [_in_parts(each) for each in found]


def _of_type(array: Any, wanted: Any) -> Any:
    """An array of a program as JAX has it: the last dim of complex numbers has both parts."""
    if wanted.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).view(wanted.dtype).reshape(wanted.shape)


def _in_parts(array: Any) -> Any:
    """The opposite."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).view(array.real.dtype).reshape((*array.shape, 2))
