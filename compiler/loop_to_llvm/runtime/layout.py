"""The structures of the run-time ABI: what callers hand over (docs/abi.md), and the context that
only weft sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from compiler.loop_to_llvm.runtime.code import I8, I16, I32, I64, POINTER, Code

ABI_VERSION: Final = 1
WORKSPACE_ALIGNMENT: Final = 64
MOST_THREADS: Final = 1024
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


@dataclass(frozen=True)
class Field:
    """A member at an offset in bytes; `count` of them in a row."""

    kind: ir.Type
    offset: int
    count: int = 1

    @property
    def end(self) -> int:
        return self.offset + self.count * _BYTES[self.kind]


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
        return code.load(self.address(code, base, name), typ=self.fields[name].kind)

    def store(self, code: Code, base: ir.Value, name: str, value: ir.Value) -> None:
        code.store(value, self.address(code, base, name))

    def load_atomic(self, code: Code, base: ir.Value, name: str, ordering: str) -> ir.Value:
        kind = self.fields[name].kind
        return code.load_atomic(self.address(code, base, name), ordering, _BYTES[kind], typ=kind)

    def store_atomic(
        self, code: Code, base: ir.Value, name: str, value: ir.Value, ordering: str
    ) -> None:
        place = self.address(code, base, name)
        code.store_atomic_at(value, place, ordering, _BYTES[self.fields[name].kind])

    def update(
        self, code: Code, base: ir.Value, name: str, operation: str, value: ir.Value, ordering: str
    ) -> ir.Value:
        """Changes the member atomically; gives what it was before."""
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
        """Stores the value where the member is as expected; gives whether it was."""
        place = self.address(code, base, name)
        outcome = code.cmpxchg(place, expected, value, ordering, "monotonic")
        return code.extract_value(outcome, 1)


OPTIONS: Final = Struct(
    96,
    size=Field(I64, 0),
    threads=Field(I32, 8),
    flags=Field(I32, 12),
    parallel_for=Field(POINTER, 16),
    parallel_for_user=Field(POINTER, 24),
    allocate=Field(POINTER, 32),
    release=Field(POINTER, 40),
    allocator_user=Field(POINTER, 48),
    weights=Field(POINTER, 56),
    print=Field(POINTER, 64),
    print_user=Field(POINTER, 72),
    reserved=Field(I64, 80, 2),
)

CALL: Final = Struct(
    64,
    size=Field(I64, 0),
    inputs=Field(POINTER, 8),
    outputs=Field(POINTER, 16),
    dims=Field(POINTER, 24),
    workspace=Field(POINTER, 32),
    workspace_size=Field(I64, 40),
    reserved=Field(I64, 48, 2),
)

TABLE: Final = Struct(
    256,
    size=Field(I64, 0),
    bytes=Field(I64, 8),
    abi_version=Field(I32, 16),
    flags=Field(I32, 20),
    tensor_size=Field(I32, 24),
    dim_size=Field(I32, 28),
    symbol_size=Field(I32, 32),
    level_size=Field(I32, 36),
    prefix=Field(I32, 40),
    version=Field(I32, 44),
    triple=Field(I32, 48),
    cpu=Field(I32, 52),
    features=Field(I32, 56),
    levels=Field(I32, 60),
    level_count=Field(I32, 64),
    symbols=Field(I32, 68),
    symbol_count=Field(I32, 72),
    found_count=Field(I32, 76),
    inputs=Field(I32, 80),
    input_count=Field(I32, 84),
    outputs=Field(I32, 88),
    output_count=Field(I32, 92),
    logical=Field(I32, 96),
    logical_count=Field(I32, 100),
    weights_in=Field(I32, 104),
    weight_count=Field(I32, 108),
    weight_bytes=Field(I64, 112),
    prepared_bytes=Field(I64, 120),
    workspace_bytes=Field(I64, 128),
    workspace_alignment=Field(I32, 136),
    options_size=Field(I32, 140),
    call_size=Field(I32, 144),
    stack_depth=Field(I32, 148),
    metadata_sha256=Field(I8, 152, 32),
    weights_sha256=Field(I8, 184, 32),
    reserved=Field(I64, 216, 5),
)
"""What `m_query` gives; places are offsets from its start."""

LEVEL: Final = Struct(8, name=Field(I32, 0), features=Field(I32, 4))

SYMBOL: Final = Struct(
    32,
    name=Field(I32, 0),
    is_found=Field(I32, 4),
    input=Field(I32, 8),
    axis=Field(I32, 12),
    least=Field(I64, 16),
    most=Field(I64, 24),
)

TENSOR: Final = Struct(
    64,
    name=Field(I32, 0),
    dtype=Field(I32, 4),
    code=Field(I8, 8),
    bits=Field(I8, 9),
    lanes=Field(I16, 10),
    element_bytes=Field(I32, 12),
    rank=Field(I32, 16),
    dims=Field(I32, 20),
    shape=Field(I32, 24),
    flags=Field(I32, 28),
    bytes=Field(I64, 32),
    alignment=Field(I32, 40),
    donor=Field(I32, 44),
    shown_name=Field(I32, 48),
    reserved_word=Field(I32, 52),
    reserved=Field(I64, 56),
)

DIM: Final = Struct(
    32,
    size=Field(I64, 0),
    text=Field(I32, 8),
    symbol=Field(I32, 12),
    steps=Field(I32, 16),
    step_count=Field(I32, 20),
    reserved=Field(I64, 24),
)

STEP: Final = Struct(16, operation=Field(I64, 0), operand=Field(I64, 8))

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

# What the caller of a parallel loop writes, what all claim from, and what all report to are on
# lines of their own.
CONTEXT: Final = Struct(
    24 * _LINE,
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
    body=Field(POINTER, 3 * _LINE),
    argument=Field(POINTER, 3 * _LINE + 8),
    count=Field(I64, 3 * _LINE + 16),
    chunks=Field(I64, 3 * _LINE + 24),
    share=Field(I64, 3 * _LINE + 32),
    ticket=Field(I64, 4 * _LINE),
    epoch=Field(I32, 5 * _LINE),
    sleepers=Field(I32, 6 * _LINE),
    stop=Field(I32, 6 * _LINE + 4),
    finished=Field(I32, 7 * _LINE),
    error_busy=Field(I32, 8 * _LINE - 4),
    error=Field(I8, 8 * _LINE, ERROR_BYTES),
)
