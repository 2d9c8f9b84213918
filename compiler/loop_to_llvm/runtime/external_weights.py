"""The exported functions of an artifact whose weights are not inside it: `m_bind_weights` finds
them in a file or in memory, `m_prepare_weights` brings logical ones into the layouts of kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir
from msgspec import Struct

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.runtime.code import (
    I8,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    constant_bytes,
    constant_integers,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.layout import PROGRAM
from weft.compiler.loop_to_llvm.runtime.pool import Pool

_TRANSFORM: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER])

OWN: Final = "own"
"""The symbol behind the prefix of the tensors that such an artifact has of its own."""

DERIVE: Final = "derive"
"""What the symbols of the program start with that computes tensors of others."""

_ALIGNMENT: Final = 64


class PreparedWeight(Struct, frozen=True):
    """A weight of `bytes` at `offset` of what holds them all, made of the tensor of that number, by
    the kernel `transform` if it is not a copy.
    """

    offset: int
    bytes: int
    tensor: int
    transform: str | None


class DerivedTensors(Struct, frozen=True):
    """Tensors of so many `bytes` each that a program computes of those with the numbers `inputs`,
    in a workspace.
    """

    inputs: Sequence[int]
    bytes: Sequence[int]
    workspace: int


class PreparedWeights(Struct, frozen=True):
    """All weights that an artifact makes. Their tensors are numbered: first those that the caller
    has `given`, then the artifact's own at `own_offsets`, then those that are derived of both.
    """

    weights: Sequence[PreparedWeight]
    given: int
    own_offsets: Sequence[int]
    derived: DerivedTensors | None


class ExternalWeights(Struct, frozen=True):
    """All weights at their offsets, behind a `header` that has to be found before them; `size` is
    theirs alone. `prepared` says how the artifact makes them, None where they are in a file.
    """

    offsets: Sequence[int]
    header: bytes
    size: int
    prepared: PreparedWeights | None


def external_weight_exports(prefix: str, outside: ExternalWeights | None) -> tuple[str, ...]:
    """What artifacts with such weights show to others beside what all do."""
    if outside is None:
        return ()
    prepare = () if outside.prepared is None else (f"{prefix}_prepare_weights",)
    return (f"{prefix}_bind_weights", *prepare)


def define_external_weights(pool: Pool, outside: ExternalWeights) -> None:
    """Emits `i32 m_bind_weights(file, size, table)` and, where the artifact can,
    `i32 m_prepare_weights(logical, prepared)`.
    """
    _define_bind(pool, outside)
    if outside.prepared is not None:
        _Preparation(pool, outside.prepared, outside.size).define()


def _define_bind(pool: Pool, outside: ExternalWeights) -> None:
    function_type = ir.FunctionType(I32, [POINTER, I64, POINTER])
    code = pool.define_exported("bind_weights", function_type)
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
    starts = [len(outside.header) + offset for offset in outside.offsets]
    if starts:
        offsets = constant_integers(pool.module, f"{pool.prefix}.weight_starts", I64, starts)
        with code.repeat(i64(len(starts)), number) as weight:
            offset = code.load(code.element(offsets, weight, I64), typ=I64)
            code.store(code.at(file, offset), code.element(table, weight, POINTER))
    code.ret(i32(Status.OK))


class _Preparation(Struct):
    """Emits `m_prepare_weights`: the derived tensors are computed in memory that it takes for the
    time, then each weight is brought into its layout.
    """

    pool: Pool
    prepared: PreparedWeights
    size: int

    def define(self) -> None:
        """Emits the function."""
        pool = self.pool
        function_type = ir.FunctionType(I32, [POINTER, POINTER])
        code = pool.define_exported("prepare_weights", function_type)
        logical, address = code.arguments
        _require_pointers(code, [logical, address])
        numbers = range(self.prepared.given)
        tensors = [code.load(code.element(logical, i64(n), POINTER), typ=POINTER) for n in numbers]
        _require_pointers(code, tensors)
        tensors += self._own(code)
        derived = self.prepared.derived
        memory = None if derived is None else self._derive(code, derived, tensors)
        pool.platform.call(code, "memset", [address, i32(0), i64(self.size)])
        for weight in self.prepared.weights:
            self._write(code, weight, tensors[weight.tensor], code.at(address, weight.offset))
        if memory is not None:
            pool.platform.call(code, "free", [memory])
        code.ret(i32(Status.OK))

    def _own(self, code: Code) -> list[ir.Value]:
        """The tensors that the artifact has."""
        if not self.prepared.own_offsets:
            return []
        blob = ir.GlobalVariable(code.module, I8, f"{self.pool.prefix}.{OWN}")
        blob.global_constant = True
        blob.type = POINTER  # llvmlite still makes it a typed one
        return [code.at(blob, offset) for offset in self.prepared.own_offsets]

    def _derive(self, code: Code, derived: DerivedTensors, tensors: list[ir.Value]) -> ir.Value:
        """Appends the derived tensors to the others; returns the memory that holds them."""
        positions, end = list[int](), 0
        for size in (*derived.bytes, derived.workspace, 8 * len(derived.inputs)):
            positions.append(end)
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        end += -(-8 * len(derived.bytes) // _ALIGNMENT) * _ALIGNMENT
        platform = self.pool.platform
        memory = platform.call(code, "aligned_alloc", [i64(_ALIGNMENT), i64(end)])
        code.return_if(code.is_null(memory), i32(Status.OUT_OF_MEMORY))
        *made, workspace, inputs = (code.at(memory, position) for position in positions)
        outputs = code.at(inputs, -(-8 * len(derived.inputs) // _ALIGNMENT) * _ALIGNMENT)
        for array, values in ((inputs, [tensors[n] for n in derived.inputs]), (outputs, made)):
            for number, value in enumerate(values):
                code.store(value, code.element(array, i64(number), POINTER))
        program = self.pool.declare(f"{DERIVE}.program", PROGRAM)
        status = code.call(program, [NULL, inputs, outputs, NULL, workspace])
        with code.unlikely(code.icmp_signed("!=", status, i32(Status.OK))):
            platform.call(code, "free", [memory])
            code.ret(status)
        tensors += made
        return memory

    def _write(
        self, code: Code, weight: PreparedWeight, tensor: ir.Value, address: ir.Value
    ) -> None:
        if weight.transform is None:
            self.pool.platform.call(code, "memcpy", [address, tensor, i64(weight.bytes)])
            return
        transform = self.pool.declare(weight.transform, _TRANSFORM)
        code.call(transform, [NULL, tensor, address])


def _require_pointers(code: Code, pointers: Sequence[ir.Value]) -> None:
    for pointer in pointers:
        code.return_if(code.is_null(pointer), i32(Status.NULL_POINTER))
