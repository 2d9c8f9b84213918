"""The metadata of an artifact, how many inputs and outputs it has, and the offsets of its weights:
constants under hidden names. They are an object of their own, so that the run time's code is the
same for all models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Final

import msgspec
from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I8, I64, NULL, POINTER, Code, i64
from weft.compiler.loop_to_llvm.runtime.layout import COUNTS

WEIGHTS: Final = "weights"
"""The symbol behind the prefix of the blob of all weights."""

_WORD: Final = 8
_NOT_INSIDE: Final = -1


class Counts(msgspec.Struct, frozen=True):
    """How many inputs, outputs and free symbolic dims a model has, how many sizes it finds while it
    runs, and which outputs it makes itself since their sizes are among these; whether its table
    says more of them, and for how many levels of processors it has programs.
    """

    inputs: int
    outputs: int
    dims: int
    found: int = 0
    made: frozenset[int] = frozenset()
    is_described: bool = True
    levels: int = 1

    @property
    def record(self) -> bytes:
        """COUNTS, and a byte for each output: 1 where the model makes it."""
        sizes = (self.inputs, self.outputs, self.dims, self.found)
        numbers = pack("<6q", *sizes, self.is_described, self.levels)
        return numbers + bytes(n in self.made for n in range(self.outputs))


def metadata_of(
    prefix: str, metadata: str, table: bytes, counts: Counts, weights: Sequence[int | None]
) -> Mapping[str, bytes]:
    """The constants by their names; `metadata` is JSON, `table` what `m_query` returns. `weights`
    are offsets in the blob, None for those that the caller has to hand in.
    """
    assert "\0" not in metadata, "metadata is text without zeros"
    offsets = [_NOT_INSIDE if offset is None else offset for offset in weights]
    constants = {
        "facts.metadata": metadata.encode() + b"\0",
        "facts.table": table,
        "facts.counts": counts.record,
        "facts.weights": pack(f"<{1 + len(offsets)}q", len(offsets), *offsets),
    }
    if all(offset is None for offset in weights):
        constants[WEIGHTS] = b""  # nobody else has it, and the code refers to it
    return {f"{prefix}.{name}": content for name, content in constants.items()}


class Metadata:
    """The constants as a module of the run time refers to them."""

    def __init__(self, module: ir.Module, prefix: str):
        self.module = module
        self.prefix = prefix

    @property
    def metadata(self) -> ir.Value:
        """Text that a zero ends."""
        return self._declared("facts.metadata")

    @property
    def table(self) -> ir.Value:
        """The table that `m_query` returns."""
        return self._declared("facts.table")

    def count(self, code: Code, name: str) -> ir.Value:
        """A member of COUNTS: how many inputs, outputs, dims or levels there are, or sizes are
        found.
        """
        return COUNTS.load(code, self._declared("facts.counts"), name)

    def is_described(self, code: Code) -> ir.Value:
        """Whether the table says what the model takes and gives."""
        return code.icmp_unsigned("!=", self.count(code, "is_described"), i64(0))

    def is_made(self, code: Code, output: ir.Value) -> ir.Value:
        """Whether the model makes that output."""
        made = code.at(self._declared("facts.counts"), COUNTS.size)
        return code.icmp_unsigned("!=", code.load(code.at(made, output), typ=I8), I8(0))

    def weight_count(self, code: Code) -> ir.Value:
        """How many weights there are."""
        return code.load(self._declared("facts.weights"), typ=I64)

    def embedded(self, code: Code, weight: ir.Value) -> ir.Value:
        """Where the artifact itself holds a weight, or NULL."""
        offsets = code.at(self._declared("facts.weights"), _WORD)
        offset = code.load(code.element(offsets, weight, I64), typ=I64)
        is_inside = code.icmp_signed("!=", offset, i64(_NOT_INSIDE))
        # Reached through the global offset table, for it may lie far away.
        return code.select(is_inside, code.at(self._declared(WEIGHTS), offset), NULL)

    def define(self, contents: Mapping[str, bytes]) -> None:
        """Defines the constants here, where nobody else sees them."""
        for name, content in contents.items():
            constant = self._declared(name.removeprefix(f"{self.prefix}."))
            data = ir.Constant(ir.ArrayType(I8, len(content)), bytearray(content))
            constant.value_type, constant.initializer = data.type, data
            constant.linkage = "internal"

    def _declared(self, name: str) -> ir.GlobalVariable:
        symbol = f"{self.prefix}.{name}"
        found = self.module.globals.get(symbol)
        if found is None:
            found = ir.GlobalVariable(self.module, I8, symbol)
            found.type, found.global_constant, found.align = POINTER, True, 8
        return found
