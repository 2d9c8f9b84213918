"""The structures of the run-time ABI: what callers hand over (docs/abi.md), and the context that
only weft sees.
"""

from __future__ import annotations

from typing import Final

import msgspec
from llvmlite import ir

from weft.compiler.abi import structs
from weft.compiler.loop_to_llvm.runtime.code import I8, I16, I32, I64, POINTER, Code

ERROR_BYTES: Final = 1024

PROGRAM: Final = ir.FunctionType(I32, [POINTER] * 5)
"""`program(context, inputs, outputs, dims, workspace)`: a Status. It writes the sizes that it finds
behind the free ones in `dims`, and the addresses of outputs that it makes into `outputs`.
"""

CHECK_SIZES: Final = ir.FunctionType(I32, [POINTER] * 2)
"""`check_sizes(context, dims)`: a Status, for dims of 0 to MOST; without a context no text."""

WORKSPACE: Final = ir.FunctionType(I64, [POINTER])
"""`workspace(dims)`: bytes, for dims that have been checked."""

_LINE = 64
_BYTES = {I8: 1, I16: 2, I32: 4, I64: 8, POINTER: 8}


class Field(msgspec.Struct, frozen=True):
    """A member at an offset in bytes; `count` of them in a row."""

    llvm_type: ir.Type
    offset: int
    count: int = 1

    @property
    def end(self) -> int:
        return self.offset + self.count * _BYTES[self.llvm_type]


class Struct:
    """Members by name, at offsets that no compiler chooses; `size` is in bytes."""

    def __init__(self, size: int, /, **fields: Field):
        self.size = size
        self.fields = fields
        before = 0
        for name, field in fields.items():
            assert before <= field.offset, f"{name} overlaps its neighbour"
            assert field.end <= size, f"{name} reaches beyond the end"
            before = field.end

    def address(self, code: Code, base: ir.Value, name: str) -> ir.Value:
        return code.at(base, self.fields[name].offset)

    def load(self, code: Code, base: ir.Value, name: str) -> ir.Value:
        return code.load(self.address(code, base, name), typ=self.fields[name].llvm_type)

    def store(self, code: Code, base: ir.Value, name: str, value: ir.Value) -> None:
        code.store(value, self.address(code, base, name))

    def load_atomic(self, code: Code, base: ir.Value, name: str, ordering: str) -> ir.Value:
        llvm_type = self.fields[name].llvm_type
        return code.load_atomic(
            self.address(code, base, name), ordering, _BYTES[llvm_type], typ=llvm_type
        )

    def store_atomic(
        self, code: Code, base: ir.Value, name: str, value: ir.Value, ordering: str
    ) -> None:
        address = self.address(code, base, name)
        code.store_atomic_at(value, address, ordering, _BYTES[self.fields[name].llvm_type])

    def update(
        self, code: Code, base: ir.Value, name: str, operation: str, value: ir.Value, ordering: str
    ) -> ir.Value:
        """Changes the member atomically; returns what it was before."""
        return code.atomic_rmw(operation, self.address(code, base, name), value, ordering)

    def exchange(
        self,
        code: Code,
        base: ir.Value,
        name: str,
        expected: ir.Value,
        value: ir.Value,
        ordering: str,
    ) -> ir.Value:
        """Stores the value where the member is as expected; returns whether it was."""
        address = self.address(code, base, name)
        outcome = code.cmpxchg(address, expected, value, ordering, "monotonic")
        return code.extract_value(outcome, 1)


def _of(struct: structs.CStruct) -> Struct:
    own_sizes = {size: each for each, size in _BYTES.items() if each != POINTER}
    return Struct(
        struct.size,
        **{
            each.name: Field(
                POINTER if each.is_pointer else own_sizes[each.bytes], each.offset, each.count
            )
            for each in struct.members
        },
    )


OPTIONS: Final = _of(structs.OPTIONS)
COLLECTIVE: Final = _of(structs.COLLECTIVE)
COMMUNICATION: Final = _of(structs.COMMUNICATION)
CALL: Final = _of(structs.CALL)
TABLE: Final = _of(structs.TABLE)
LEVEL: Final = _of(structs.LEVEL)
SYMBOL: Final = _of(structs.SYMBOL)
TENSOR: Final = _of(structs.TENSOR)
DIM: Final = _of(structs.DIM)
STEP: Final = _of(structs.STEP)
SPAN: Final = _of(structs.SPAN)

DLTENSOR: Final = Struct(
    48,
    data=Field(POINTER, 0),
    device_type=Field(I32, 8),
    device_id=Field(I32, 12),
    ndim=Field(I32, 16),
    code=Field(I8, 20),
    bits=Field(I8, 21),
    lanes=Field(I16, 22),
    shape=Field(POINTER, 24),
    strides=Field(POINTER, 32),
    byte_offset=Field(I64, 40),
)
"""DLPack's tensor, of any minor version of its version 1."""

COUNTS: Final = Struct(
    48,
    inputs=Field(I64, 0),
    outputs=Field(I64, 8),
    dims=Field(I64, 16),
    found=Field(I64, 24),
    is_described=Field(I64, 32),
    levels=Field(I64, 40),
)
"""What the run time has to know of the model; a byte for each output follows."""

# What the caller of a parallel loop writes, what all claim from, and what all report to are on
# lines of their own.
CONTEXT: Final = Struct(
    25 * _LINE,
    threads=Field(I64, 0),
    workers=Field(I64, 8),
    handles=Field(POINTER, 16),
    weights=Field(POINTER, 24),
    level=Field(I32, 32),
    allocate=Field(POINTER, 40),
    release=Field(POINTER, 48),
    allocator_user=Field(POINTER, 56),
    parallel_for=Field(POINTER, _LINE),
    parallel_for_user=Field(POINTER, _LINE + 8),
    process=Field(I32, _LINE + 16),
    print=Field(POINTER, _LINE + 24),
    print_user=Field(POINTER, _LINE + 32),
    poll=Field(POINTER, _LINE + 40),
    poll_user=Field(POINTER, _LINE + 48),
    cancels=Field(I32, _LINE + 56),
    busy=Field(I32, 2 * _LINE),
    communication=Field(POINTER, 2 * _LINE + 8),
    call_host=Field(POINTER, 2 * _LINE + 16),
    body=Field(POINTER, 3 * _LINE),
    argument=Field(POINTER, 3 * _LINE + 8),
    count=Field(I64, 3 * _LINE + 16),
    chunks=Field(I64, 3 * _LINE + 24),
    share=Field(I64, 3 * _LINE + 32),
    part_name=Field(POINTER, 3 * _LINE + 40),
    part_number=Field(I32, 3 * _LINE + 48),
    core=Field(I32, 3 * _LINE + 52),
    ticket=Field(I64, 4 * _LINE),
    epoch=Field(I32, 5 * _LINE),
    sleepers=Field(I32, 6 * _LINE),
    stop=Field(I32, 6 * _LINE + 4),
    finished=Field(I32, 7 * _LINE),
    error_busy=Field(I32, 8 * _LINE - 4),
    error=Field(I8, 8 * _LINE, ERROR_BYTES),
    profile=Field(POINTER, 24 * _LINE),
    profile_user=Field(POINTER, 24 * _LINE + 8),
)
