"""What the run time needs of its system: libc's functions, futexes, and the hint that a processor
is spinning.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I32, I64, NULL, POINTER, VOID, Code, i32, i64
from weft.compiler.target.target import Target
from weft.dialects.errors import UnsupportedError

_FUTEX_NUMBER: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_ALONE: Final = "wasm32"
_FUTEX_WAIT: Final = 0
_FUTEX_WAKE: Final = 1
_FUTEX_WAIT_PRIVATE: Final = 128
_FUTEX_WAKE_PRIVATE: Final = 129

MONOTONIC: Final = 1
THREAD_TIME: Final = 3
"""Clocks: of the system, and of the processor's time that a thread had."""

_SECOND: Final = 1_000_000_000

CPU_SET_BYTES: Final = 1024
SIGSET_BYTES: Final = 128
SIG_SETMASK: Final = 2

_LIBC: Final = {
    "__tls_get_addr": ir.FunctionType(POINTER, [POINTER]),  # called by what LLVM emits
    "aligned_alloc": ir.FunctionType(POINTER, [I64, I64]),
    "clock_gettime": ir.FunctionType(I32, [I32, POINTER]),
    "fclose": ir.FunctionType(I32, [POINTER]),
    "fopen": ir.FunctionType(POINTER, [POINTER, POINTER]),
    "fread": ir.FunctionType(I64, [POINTER, I64, I64, POINTER]),
    "free": ir.FunctionType(VOID, [POINTER]),
    "getauxval": ir.FunctionType(I64, [I64]),
    "getenv": ir.FunctionType(POINTER, [POINTER]),
    "getpid": ir.FunctionType(I32, []),
    "memcpy": ir.FunctionType(POINTER, [POINTER, POINTER, I64]),
    "memset": ir.FunctionType(POINTER, [POINTER, I32, I64]),
    "pthread_create": ir.FunctionType(I32, [POINTER, POINTER, POINTER, POINTER]),
    "pthread_join": ir.FunctionType(I32, [I64, POINTER]),
    "pthread_self": ir.FunctionType(I64, []),
    "pthread_sigmask": ir.FunctionType(I32, [I32, POINTER, POINTER]),
    "sched_getaffinity": ir.FunctionType(I32, [I32, I64, POINTER]),
    "sched_getcpu": ir.FunctionType(I32, []),
    "sched_setaffinity": ir.FunctionType(I32, [I32, I64, POINTER]),
    "sched_yield": ir.FunctionType(I32, []),
    "sigfillset": ir.FunctionType(I32, [POINTER]),
    "strtol": ir.FunctionType(I64, [POINTER, POINTER, I32]),
    "syscall": ir.FunctionType(I64, [I64, POINTER, I64, I64, POINTER]),
}

LIBC_NAMES: Final = frozenset(_LIBC)
"""The only symbols that the run time takes from elsewhere."""


class Platform:
    """Calls into the system of a target, written into the builder that is handed over."""

    def __init__(self, target: Target):
        on_linux = target.arch in _FUTEX_NUMBER and "linux" in target.triple
        if not on_linux and target.arch != _ALONE:
            choices = ", ".join(_FUTEX_NUMBER)
            raise UnsupportedError(
                f"the run time requires Linux on one of {choices}, or {_ALONE}, got {target.triple}"
            )
        self.arch = target.arch

    @property
    def has_threads(self) -> bool:
        """Whether there may be more than one thread."""
        return self.arch != _ALONE

    @property
    def has_clock(self) -> bool:
        """Whether the system tells the time."""
        return self.arch != _ALONE

    def call(self, code: Code, name: str, arguments: list[ir.Value]) -> ir.Value:
        """Calls a function of libc."""
        function = code.module.globals.get(name) or ir.Function(code.module, _LIBC[name], name)
        return code.call(function, arguments)

    def clock(self, code: Code, clock: int) -> ir.Value:
        """Nanoseconds of a clock since some start, as i64."""
        time = code.variable_at_entry(ir.ArrayType(I64, 2))
        self.call(code, "clock_gettime", [i32(clock), time])
        seconds, rest = (code.load(code.at(time, offset), typ=I64) for offset in (0, 8))
        return code.add(code.mul(seconds, i64(_SECOND)), rest)

    def usable_cores(self, code: Code) -> tuple[ir.Value, ir.Value]:
        """The set of processors that this thread may run on, a bit each, and how many as i64: 0
        where the system does not tell.
        """
        cores = code.variable_at_entry(ir.ArrayType(I64, CPU_SET_BYTES // 8))
        number, total = code.variable_at_entry(I64), code.variable_at_entry(I64)
        code.store(i64(0), total)
        error = self.call(code, "sched_getaffinity", [i32(0), i64(CPU_SET_BYTES), cores])
        with code.repeat(i64(CPU_SET_BYTES // 8), number) as word:
            ones = code.ctpop(code.load(code.element(cores, word, I64), typ=I64))
            code.store(code.add(code.load(total, typ=I64), ones), total)
        failed = code.icmp_signed("<", error, i32(0))
        return cores, code.select(failed, i64(0), code.load(total, typ=I64))

    def sleep(self, code: Code, word: ir.Value, value: ir.Value) -> None:
        """Sleeps as long as the i32 at the address holds the value; may return early."""
        self._futex(code, word, _FUTEX_WAIT_PRIVATE, value)

    def wake(self, code: Code, word: ir.Value, threads: ir.Value) -> None:
        """Wakes at most so many threads that sleep on the address."""
        self._futex(code, word, _FUTEX_WAKE_PRIVATE, threads)

    def sleep_shared(self, code: Code, word: ir.Value, value: ir.Value, timeout: ir.Value) -> None:
        """`sleep` on memory that processes share, at most for a timespec."""
        self._futex(code, word, _FUTEX_WAIT, value, timeout)

    def wake_shared(self, code: Code, word: ir.Value, threads: ir.Value) -> None:
        """`wake` of threads of any process."""
        self._futex(code, word, _FUTEX_WAKE, threads)

    def _futex(
        self, code: Code, word: ir.Value, operation: int, value: ir.Value, timeout: ir.Value = NULL
    ) -> None:
        number = i64(_FUTEX_NUMBER.get(self.arch, 0))
        self.call(code, "syscall", [number, word, i64(operation), code.zext(value, I64), timeout])

    def spin_hint(self, code: Code) -> None:
        """Tells the processor that this thread waits in a loop."""
        if self.arch == "x86_64":
            self._intrinsic(code, "llvm.x86.sse2.pause", [], [])
        elif self.arch == "aarch64":
            self._intrinsic(code, "llvm.aarch64.hint", [I32], [i32(1)])

    def order_stores(self, code: Code) -> None:
        """Orders non-temporal stores before what follows."""
        if self.arch == "x86_64":
            self._intrinsic(code, "llvm.x86.sse.sfence", [], [])

    @staticmethod
    def _intrinsic(
        code: Code, name: str, operands: list[ir.Type], arguments: list[ir.Value]
    ) -> None:
        function_type = ir.FunctionType(VOID, operands)
        code.call(
            code.module.globals.get(name) or ir.Function(code.module, function_type, name),
            arguments,
        )
