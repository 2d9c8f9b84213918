"""The exported functions of an artifact whose weights are not inside it: `m_bind_weights` finds
them in a file or in memory, `m_prepare_weights` brings logical ones into the layouts of kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from compiler.loop_to_llvm.runtime.code import (
    I32,
    I64,
    POINTER,
    VOID,
    Code,
    constant_bytes,
    constant_integers,
    declare_function,
    i32,
    i64,
    new_function,
)
from compiler.loop_to_llvm.runtime.pool import Pool
from compiler.loop_to_llvm.runtime.status import Status

_TRANSFORM: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER])


@dataclass(frozen=True)
class OutsideWeight:
    """A weight of `bytes` at `offset` of what holds them all, made of the logical tensor of that
    number, by the kernel `transform` if it is not a copy.
    """

    offset: int
    bytes: int
    logical: int
    transform: str | None


@dataclass(frozen=True)
class OutsideWeights:
    """All weights, behind a `header` that has to be found before them; `size` is theirs alone.
    `prepares` says whether the artifact can make them from logical tensors.
    """

    weights: Sequence[OutsideWeight]
    header: bytes
    size: int
    prepares: bool


def outside_exports(prefix: str, outside: OutsideWeights | None) -> tuple[str, ...]:
    """What artifacts with such weights show to others beside what all do."""
    if outside is None:
        return ()
    prepare = (f"{prefix}_prepare_weights",) if outside.prepares else ()
    return (f"{prefix}_bind_weights", *prepare)


def define_outside_weights(pool: Pool, outside: OutsideWeights) -> None:
    """Emits `i32 m_bind_weights(file, size, table)` and, where the artifact can,
    `i32 m_prepare_weights(logical, prepared)`.
    """
    _define_bind(pool, outside)
    if outside.prepares:
        _define_prepare(pool, outside)


def _define_bind(pool: Pool, outside: OutsideWeights) -> None:
    kind = ir.FunctionType(I32, [POINTER, I64, POINTER])
    code = new_function(pool.module, f"{pool.prefix}_bind_weights", kind, visible=True)
    file, size, table = code.arguments
    number = code.variable(I64)
    _require_pointers(code, [file, table])
    whole = i64(len(outside.header) + outside.size)
    code.return_if(code.icmp_unsigned("!=", size, whole), i32(Status.BAD_WEIGHTS))
    if outside.header:
        own = constant_bytes(pool.module, f"{pool.prefix}.weights_header", outside.header)
        with code.repeat(i64(len(outside.header) // 8), number) as word:
            pair = (
                code.load(code.element(each, word, I64), typ=I64, align=1) for each in (file, own)
            )
            code.return_if(code.icmp_unsigned("!=", *pair), i32(Status.BAD_WEIGHTS))
    starts = [len(outside.header) + each.offset for each in outside.weights]
    if starts:
        offsets = constant_integers(pool.module, f"{pool.prefix}.weight_starts", I64, starts)
        with code.repeat(i64(len(starts)), number) as weight:
            offset = code.load(code.element(offsets, weight, I64), typ=I64)
            code.store(code.at(file, offset), code.element(table, weight, POINTER))
    code.ret(i32(Status.OK))


def _define_prepare(pool: Pool, outside: OutsideWeights) -> None:
    kind = ir.FunctionType(I32, [POINTER, POINTER])
    code = new_function(pool.module, f"{pool.prefix}_prepare_weights", kind, visible=True)
    logical, prepared = code.arguments
    _require_pointers(code, [logical, prepared])
    used = sorted({each.logical for each in outside.weights})
    tensors = {n: code.load(code.element(logical, i64(n), POINTER), typ=POINTER) for n in used}
    _require_pointers(code, list(tensors.values()))
    pool.platform.call(code, "memset", [prepared, i32(0), i64(outside.size)])
    for weight in outside.weights:
        source, place = tensors[weight.logical], code.at(prepared, weight.offset)
        if weight.transform is None:
            pool.platform.call(code, "memcpy", [place, source, i64(weight.bytes)])
        else:
            name = f"{pool.prefix}.{weight.transform}"
            transform = declare_function(pool.module, name, _TRANSFORM)
            code.call(transform, [ir.Constant(POINTER, None), source, place])
    code.ret(i32(Status.OK))


def _require_pointers(code: Code, pointers: Sequence[ir.Value]) -> None:
    for pointer in pointers:
        code.return_if(code.is_null(pointer), i32(Status.NULL_POINTER))
