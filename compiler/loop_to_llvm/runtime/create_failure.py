"""Why the last `m_create` of a thread gave no context: there is none to hold the reason, and
threads share nothing, so that each thread has a record of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I8, NULL, POINTER, Code
from weft.compiler.loop_to_llvm.runtime.layout import Field, Struct
from weft.compiler.loop_to_llvm.runtime.platform import Platform
from weft.compiler.loop_to_llvm.runtime.status import Shown, describe

_TEXT_BYTES: Final = 248

_RECORD: Final = Struct(8 + _TEXT_BYTES, reason=Field(POINTER, 0), text=Field(I8, 8, _TEXT_BYTES))
"""The address of the reason, NULL where there is none, and room for one that shows values."""


class CreateFailure:
    """Emits accesses to the calling thread's record."""

    def __init__(self, module: ir.Module, platform: Platform, prefix: str):
        self.module = module
        name = f"{prefix}.create_failure"
        self._record = module.globals.get(name) or self._new(name, platform)

    def _new(self, name: str, platform: Platform) -> ir.GlobalVariable:
        zeros = ir.Constant(ir.ArrayType(I8, _RECORD.size), None)
        record = ir.GlobalVariable(self.module, zeros.type, name)
        record.type = POINTER
        record.initializer, record.linkage, record.align = zeros, "internal", 8
        if platform.has_threads:
            record.storage_class = "thread_local"
        return record

    def clear(self, code: Code) -> None:
        """Forgets an earlier failure."""
        _RECORD.store(code, self._record, "reason", NULL)

    def note(self, code: Code, text: str, shown: Sequence[Shown] = ()) -> None:
        """Keeps the text, each `{}` in it as the next of what is shown."""
        address = _RECORD.address(code, self._record, "text")
        describe(code, address, _TEXT_BYTES, text, shown)
        _RECORD.store(code, self._record, "reason", address)

    def note_constant(self, code: Code, text: ir.Value) -> None:
        """Keeps the address of a text that lives as long as the artifact."""
        _RECORD.store(code, self._record, "reason", text)

    def reason(self, code: Code, otherwise: ir.Value) -> ir.Value:
        """The text that was kept, or another one where there is none."""
        reason = _RECORD.load(code, self._record, "reason")
        return code.select(code.is_null(reason), otherwise, reason)
