"""The metadata of an artifact and the offsets of its weights: constants under hidden names. They
are known last, so they are an object of their own and the run time's code need not wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I8, POINTER, Code, i64

Weight = tuple[str | None, int]
"""The symbol of a blob and the weight's offset in it; None where the caller has to hand the weight
in.
"""

COUNT_BYTES = 8
ENTRY_BYTES = 16
"""Of the table of weights: their number, then the number of the blob, from 1 on, and the offset of
each.
"""


def metadata_of(
    prefix: str, metadata: str, table: bytes, weights: Sequence[Weight]
) -> Mapping[str, bytes]:
    """The constants by their names; `metadata` is JSON, `table` what `m_query` returns."""
    assert "\0" not in metadata, "metadata is text without zeros"
    blobs = blobs_of(weights)
    numbers = ((0 if s is None else 1 + blobs.index(s), offset) for s, offset in weights)
    table_ = b"".join(pack("<2q", *each) for each in numbers)
    return {
        f"{prefix}.facts.metadata": metadata.encode() + b"\0",
        f"{prefix}.facts.table": table,
        f"{prefix}.facts.weights": pack("<q", len(weights)) + table_,
    }


def blobs_of(weights: Sequence[Weight]) -> tuple[str, ...]:
    """The symbols of all blobs, in the order of their numbers."""
    return tuple(dict.fromkeys(symbol for symbol, _ in weights if symbol is not None))


class Metadata:
    """The constants as a module of the run time refers to them."""

    def __init__(self, module: ir.Module, prefix: str):
        self.module = module
        self.prefix = prefix

    @property
    def metadata(self) -> ir.Value:
        """Text that a zero ends."""
        return self._declared("metadata")

    @property
    def table(self) -> ir.Value:
        """The table that `m_query` returns."""
        return self._declared("table")

    def weight_count(self, code: Code) -> ir.Value:
        """How many weights there are."""
        return code.load(self._declared("weights"), typ=ir.IntType(64))

    def weight(self, code: Code, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The number of a weight's blob, 0 for none, and its offset there."""
        entries = code.at(self._declared("weights"), COUNT_BYTES)
        entry = code.at(entries, code.mul(number, i64(ENTRY_BYTES)))
        llvm_type = ir.IntType(64)
        return code.load(entry, typ=llvm_type), code.load(code.at(entry, 8), typ=llvm_type)

    def define(self, contents: Mapping[str, bytes]) -> None:
        """Defines the constants here, where nobody else sees them."""
        for name, content in contents.items():
            constant = self._declared(name.rsplit(".", 1)[1])
            data = ir.Constant(ir.ArrayType(I8, len(content)), bytearray(content))
            constant.value_type, constant.initializer = data.type, data
            constant.linkage = "internal"

    def _declared(self, name: str) -> ir.GlobalVariable:
        symbol = f"{self.prefix}.facts.{name}"
        found = self.module.globals.get(symbol)
        if found is None:
            found = ir.GlobalVariable(self.module, I8, symbol)
            found.type, found.global_constant, found.align = POINTER, True, 8
        return found
