"""How many threads a context has whose options do not say: as many as `WEFT_NUM_THREADS` in the
environment says, else as there are processors that the process may run on, or of which its control
group, such as a container's, grants it the time.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.abi.constants import MOST_THREADS, THREADS_VARIABLE
from weft.compiler.loop_to_llvm.runtime.code import (
    I8,
    I32,
    I64,
    NULL,
    POINTER,
    Code,
    compile_plainly,
    constant_bytes,
    declare_function,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.platform import Platform

INVALID: Final = -1
"""What stands for a variable that is no number of threads."""

QUOTA: Final = "/sys/fs/cgroup/cpu.max"
"""Microseconds of a period, and the period: `max 100000` or `150000 100000`."""

OLDER_QUOTA: Final = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"
"""The same where control groups are of the first version, -1 for no limit."""

_FILE_BYTES: Final = 64
_DECIMAL: Final = 10


class UsableThreads:
    """Emits the functions of a model with that prefix."""

    def __init__(self, module: ir.Module, platform: Platform, prefix: str):
        self.module = module
        self.platform = platform
        self.prefix = prefix

    @property
    def count(self) -> ir.Function:
        """`i32 ()`: how many there are by default; 0 where the system does not tell, `INVALID`."""
        return self._declare("available_threads", ir.FunctionType(I32, []))

    @property
    def _number_in(self) -> ir.Function:
        return self._declare("number_in", ir.FunctionType(I64, [POINTER, I32]))

    def _declare(self, name: str, function_type: ir.FunctionType) -> ir.Function:
        return declare_function(self.module, f"{self.prefix}.{name}", function_type)

    def define(self) -> None:
        """Defines `count`, and what it needs."""
        if self.platform.has_threads:
            self._define_number_in()
            compile_plainly(self._number_in)
        self._define_count()
        compile_plainly(self.count)

    def _define_count(self) -> None:
        code = Code(self.count.append_basic_block("entry"))
        end = code.variable(POINTER)
        if self.platform.has_threads:
            self._return_named(code, end)
        count = code.least(self.platform.usable_cores(code)[1], i64(MOST_THREADS))
        if self.platform.has_threads:
            count = code.least(count, self._granted(code))
        code.ret(code.trunc(count, I32))

    def _return_named(self, code: Code, end: ir.Value) -> None:
        """Returns what the environment says, if it says anything."""
        text = self.platform.call(code, "getenv", [self._text(THREADS_VARIABLE)])
        with code.if_then(code.not_(code.is_null(text))):
            named = self.platform.call(code, "strtol", [text, end, i32(_DECIMAL)])
            rest = code.load(code.load(end, typ=POINTER), typ=I8)
            in_range = code.icmp_unsigned("<", code.sub(named, i64(1)), i64(MOST_THREADS))
            valid = code.and_(in_range, code.icmp_unsigned("==", rest, I8(0)))
            code.ret(code.trunc(code.select(valid, named, i64(INVALID)), I32))

    def _granted(self, code: Code) -> ir.Value:
        """The processors whose time the control group grants, rounded up; no fewer than one, and
        more than there are where it limits nothing.
        """
        quota, period = (self._read(code, QUOTA, number) for number in range(2))
        older, older_period = (self._read(code, path, 0) for path in OLDER_QUOTA)
        limited = code.icmp_signed(">", quota, i64(0))
        quota, period = (
            code.select(limited, quota, older),
            code.select(limited, period, older_period),
        )
        known = code.and_(
            code.icmp_signed(">", quota, i64(0)), code.icmp_signed(">", period, i64(0))
        )
        divisor = code.select(known, period, i64(1))
        share = code.udiv(code.add(quota, code.sub(divisor, i64(1))), divisor)
        return code.select(known, share, i64(MOST_THREADS))

    def _read(self, code: Code, path: str, number: int) -> ir.Value:
        return code.call(self._number_in, [self._text(path), i32(number)])

    def _define_number_in(self) -> None:
        """`i64 (path, n)`: the first or the second number of a file; 0 where there is none."""
        code = Code(self._number_in.append_basic_block("entry"))
        path, second = code.arguments
        content = code.variable(ir.ArrayType(I8, _FILE_BYTES))
        end = code.variable(POINTER)
        file = self.platform.call(code, "fopen", [path, self._text("re")])
        code.return_if(code.is_null(file), i64(0))
        self.platform.call(code, "memset", [content, i32(0), i64(_FILE_BYTES)])
        self.platform.call(code, "fread", [content, i64(1), i64(_FILE_BYTES - 1), file])
        self.platform.call(code, "fclose", [file])
        first = self.platform.call(code, "strtol", [content, end, i32(_DECIMAL)])
        rest = code.load(end, typ=POINTER)
        other = self.platform.call(code, "strtol", [rest, NULL, i32(_DECIMAL)])
        code.ret(code.select(code.icmp_signed("==", second, i32(0)), first, other))

    def _text(self, text: str) -> ir.Value:
        symbol = f"threads.text.{text}"
        known = self.module.globals.get(symbol)
        return known or constant_bytes(self.module, symbol, text.encode() + b"\0")
