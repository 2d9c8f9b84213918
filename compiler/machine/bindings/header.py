"""The C header of an artifact: the run-time ABI (docs/abi.md) and what is special to one model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.bindings.abi_header import SHARED
from weft.compiler.machine.bindings.escapes import c_literal
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.bindings.typed_call import typed_call
from weft.compiler.machine.weights.file import CALLER, EMBEDDED, data_bytes

_FUNCTIONS = """\
uint32_t {prefix}_abi_version(void);
const char *{prefix}_metadata(void);
weft_context *{prefix}_create(const weft_options *options);
void {prefix}_destroy(weft_context *context);
uint64_t {prefix}_workspace_size(const int64_t *dims);
int32_t {prefix}_run(weft_context *context, const weft_call *call);
const char *{prefix}_last_error(const weft_context *context);
void {prefix}_release(weft_context *context, void *output);
int32_t {prefix}_level(const weft_context *context);
const weft_table *{prefix}_query(void);
int32_t {prefix}_run_dlpack(weft_context *context, const weft_call *call);
void {prefix}_cancel(weft_context *context);
void {prefix}_set_poll(weft_context *context, int32_t (*poll)(void *user), void *user);
void {prefix}_set_profile(weft_context *context,
                          void (*profile)(void *user, const weft_span *span), void *user);
weft_context *{prefix}_create_pool(const weft_options *options);
void {prefix}_parallel_for(void *pool, int64_t count,
                           void (*body)(void *argument, int64_t begin, int64_t end),
                           void *argument);
"""

_BIND = """\
int32_t {prefix}_bind_weights(const void *file, uint64_t size, const void **table);
"""

_PREPARE = """\
int32_t {prefix}_prepare_weights(const void *const *logical, void *prepared);
"""

_SELF_TEST = """\
int32_t {prefix}_self_test(weft_context *context);
"""

_HEADER = """\
/* {prefix}: a model compiled by weft. */
#ifndef WEFT_MODEL_{prefix}_H
#define WEFT_MODEL_{prefix}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{shared}
{macros}
{functions}
#ifdef __cplusplus
}}
#endif

#endif
"""


def header(
    prefix: str,
    signature: Signature,
    *,
    workspace_size: int | None = None,
    weights: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The header of the model with that prefix, in C99 and C++; `workspace_size` where it is one
    number. `weights` is what metadata say of them.
    """
    assert prefix == c_identifier(prefix), f"a prefix is a C identifier, not {prefix}"
    macros = [
        *_tensor_macros(f"{prefix}_INPUT", signature.inputs),
        *_tensor_macros(f"{prefix}_OUTPUT", signature.outputs),
        _define(f"{prefix}_DIM_COUNT", len(signature.symbols)),
        *(
            _define(f"{prefix}_DIM_{position}_NAME", c_literal(symbol))
            for position, symbol in enumerate(signature.symbols)
        ),
        _define(f"{prefix}_FOUND_COUNT", len(signature.found)),
        *(
            _define(f"{prefix}_FOUND_{position}_NAME", c_literal(size))
            for position, size in enumerate(signature.found)
        ),
    ]
    for number, (source, target) in enumerate(signature.donated):
        macros.append(_define(f"{prefix}_DONATED_{number}_INPUT", source))
        macros.append(_define(f"{prefix}_DONATED_{number}_OUTPUT", target))
    if signature.donated:
        macros.append(_define(f"{prefix}_DONATED_COUNT", len(signature.donated)))
    if workspace_size is not None:
        macros.append(_define(f"{prefix}_WORKSPACE_SIZE", f"UINT64_C({workspace_size})"))
    functions = _FUNCTIONS.format(prefix=prefix)
    home = weights.get("weights_in", EMBEDDED)
    if home != EMBEDDED:
        functions += _BIND.format(prefix=prefix)
        macros.append(_define(f"{prefix}_WEIGHT_COUNT", len(weights["weights"])))
    if "self_test" in weights:
        functions += _SELF_TEST.format(prefix=prefix)
    if home == CALLER:
        functions += _PREPARE.format(prefix=prefix)
        macros += _logical_macros(prefix, weights)
    return _HEADER.format(
        prefix=prefix,
        shared=SHARED,
        macros="\n".join(macros) + "\n",
        functions=functions + "\n" + typed_call(prefix, signature),
    )


def _logical_macros(prefix: str, weights: Mapping[str, Any]) -> list[str]:
    specs = tuple(
        TensorSpec(each["name"], each["dtype"], tuple(each["dims"]))
        for each in weights["logical_weights"]
    )
    size = data_bytes(weights["weights"])
    return [
        _define(f"{prefix}_PREPARED_BYTES", f"UINT64_C({size})"),
        *_tensor_macros(f"{prefix}_LOGICAL", specs),
    ]


def _tensor_macros(stem: str, specs: tuple[TensorSpec, ...]) -> list[str]:
    macros = [_define(f"{stem}_COUNT", len(specs))]
    for position, spec in enumerate(specs):
        macros += _spec_macros(f"{stem}_{position}", spec)
    return macros


def _spec_macros(stem: str, spec: TensorSpec) -> list[str]:
    """Names and types always, sizes where they are static."""
    macros = [
        _define(f"{stem}_NAME", c_literal(spec.name)),
        _define(f"{stem}_DTYPE", c_literal(spec.dtype)),
        _define(f"{stem}_RANK", len(spec.dims)),
        _define(f"{stem}_DIMS", c_literal(", ".join(map(str, spec.dims)))),
    ]
    if spec.elements is not None:
        macros += [
            _define(f"{stem}_ELEMENTS", f"UINT64_C({spec.elements})"),
            _define(f"{stem}_BYTES", f"UINT64_C({spec.bytes})"),
        ]
        if spec.dims:  # C has no empty initialisers
            macros.append(_define(f"{stem}_SHAPE", f"{{{', '.join(map(str, spec.dims))}}}"))
    return macros


def _define(name: str, value: object) -> str:
    return f"#define {name} {value}"
