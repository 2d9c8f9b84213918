"""Guarded models of another architecture: a process under an emulator serves requests of this one.

The program that runs there is written here as LLVM IR, so that no C toolchain is needed, and knows
nothing of models or guards: it takes requests to call functions and sends what they return.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from tests.compiler.machine.artifact.foreign import AARCH64, RISCV64, Emulator, link_program
from tests.guard.process import FUNCTIONS, Allocate, Machine, Release
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.target.arm import ARM_TARGETS
from weft.compiler.target.features import baseline
from weft.compiler.target.riscv import RISCV_TARGETS

_RETURNED, _ALLOCATE, _RELEASE, _SIGNAL = range(4)
"""The types of the program's messages: a call has returned, wants memory of the host, gives it
back, or has been ended by a signal.
"""

PROGRAM: Final = f"""
declare i64 @write(i32, ptr, i64)
declare i64 @fread(ptr, i64, i64, ptr)
declare ptr @fdopen(i32, ptr)
declare ptr @dlsym(ptr, ptr)
declare void @_exit(i32)
@requests = internal global ptr null
@mode = private constant [3 x i8] c"rb\\00"
@room = internal global [4096 x i8] zeroinitializer

define internal void @send(i64 %type, i64 %first, i64 %second) {{
  %message = alloca [3 x i64], align 8
  %m1 = getelementptr i64, ptr %message, i64 1
  %m2 = getelementptr i64, ptr %message, i64 2
  store i64 %type, ptr %message
  store i64 %first, ptr %m1
  store i64 %second, ptr %m2
  %written = call i64 @write(i32 1, ptr %message, i64 24)
  ret void
}}

; Serves requests until one has no function, and returns the first argument of that.
define internal i64 @serve() {{
  %request = alloca [7 x i64], align 8
  %r1 = getelementptr i64, ptr %request, i64 1
  %r2 = getelementptr i64, ptr %request, i64 2
  %r3 = getelementptr i64, ptr %request, i64 3
  %r4 = getelementptr i64, ptr %request, i64 4
  %r5 = getelementptr i64, ptr %request, i64 5
  %r6 = getelementptr i64, ptr %request, i64 6
  br label %next
next:
  %file = load ptr, ptr @requests
  %read = call i64 @fread(ptr %request, i64 56, i64 1, ptr %file)
  %ends = icmp eq i64 %read, 0
  br i1 %ends, label %end, label %take
end:
  call void @_exit(i32 0)
  unreachable
take:
  %function = load ptr, ptr %request
  %a1 = load i64, ptr %r1
  %a2 = load i64, ptr %r2
  %a3 = load i64, ptr %r3
  %a4 = load i64, ptr %r4
  %a5 = load i64, ptr %r5
  %a6 = load i64, ptr %r6
  %none = icmp eq ptr %function, null
  br i1 %none, label %return, label %call
call:
  %result = call i64 %function(i64 %a1, i64 %a2, i64 %a3, i64 %a4, i64 %a5, i64 %a6)
  call void @send(i64 {_RETURNED}, i64 %result, i64 0)
  br label %next
return:
  ret i64 %a1
}}

define internal i64 @allocate(ptr %user, i64 %bytes, i64 %alignment) {{
  call void @send(i64 {_ALLOCATE}, i64 %bytes, i64 %alignment)
  %address = call i64 @serve()
  ret i64 %address
}}

define internal void @release(ptr %user, i64 %address) {{
  call void @send(i64 {_RELEASE}, i64 %address, i64 0)
  %nothing = call i64 @serve()
  ret void
}}

define internal void @handle(i32 %signal, ptr %information, ptr %context) {{
  %where = getelementptr i64, ptr %information, i64 2
  %address = load i64, ptr %where
  %number = zext i32 %signal to i64
  call void @send(i64 {_SIGNAL}, i64 %number, i64 %address)
  call void @_exit(i32 1)
  unreachable
}}

define void @start() {{
  %file = call ptr @fdopen(i32 0, ptr @mode)
  store ptr %file, ptr @requests
  %dlsym = ptrtoint ptr @dlsym to i64
  %fread = ptrtoint ptr @fread to i64
  %write = ptrtoint ptr @write to i64
  %room = ptrtoint ptr @room to i64
  %handle = ptrtoint ptr @handle to i64
  %allocate = ptrtoint ptr @allocate to i64
  %release = ptrtoint ptr @release to i64
  %requests = ptrtoint ptr %file to i64
  call void @send(i64 %dlsym, i64 %fread, i64 %write)
  call void @send(i64 %room, i64 %requests, i64 %handle)
  call void @send(i64 %allocate, i64 %release, i64 0)
  %end = call i64 @serve()
  unreachable
}}
"""
"""A request is a function's address and six arguments, a message a type and two numbers. The first
messages have addresses alone.
"""


_REQUEST: Final = struct.Struct("<7Q")
_MESSAGE: Final = struct.Struct("<3Q")
_SIGACTION: Final = struct.Struct("<Q128xI12x")
"""Of 64-bit Linux where its fields have the usual order: the handler, the mask, the flags."""
_SA_SIGINFO: Final = 4
_LIBC: Final = (
    "dlopen", "getpagesize", "memset", "mmap", "mprotect", "munmap", "sigaction", "strlen",
)  # fmt: skip
_CAUGHT: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP, signal.SIGFPE)


class Crashed(Exception):
    """The other process ended."""


EMULATORS: Final = {"aarch64": (AARCH64, ARM_TARGETS), "riscv64": (RISCV64, RISCV_TARGETS)}
"""Of architectures: the emulator, and targets whose code it runs."""


def emulated_machine(arch: str, folder: Path) -> Machine:
    """A machine of that architecture, whose program is written into the folder."""
    emulator, targets = EMULATORS[arch]
    least = baseline(targets[0])
    program = link_program(PROGRAM, least, folder / "serve.so", ["libc.so.6"])
    return Machine(targets, partial(EmulatedProcess, emulator, program))


class EmulatedProcess:
    """A process under an emulator. Raises Crashed when it ends, by which signal and for which
    address.
    """

    def __init__(self, emulator: Emulator, program: Path):
        self._process = subprocess.Popen(
            emulator.arguments(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None, "requests go through a pipe"
        assert self._process.stdout is not None, "messages come through a pipe"
        self._requests: IO[bytes] = self._process.stdin
        self._messages: IO[bytes] = self._process.stdout
        self._crashed: Crashed | None = None
        self._allocate: Allocate = lambda bytes, alignment: 0
        self._release: Release = lambda address: None
        self._dlsym, fread, write = self._message()
        self._room, self._file, handler = self._message()
        *self._allocator, _ = self._message()
        self._libc = {"fread": fread, "write": write}
        for name in _LIBC:
            self._libc[name] = self.call(self._dlsym, 0, self._text(name))
        self.page = self.call("getpagesize")
        for number in _CAUGHT:
            self.write(self._room, _SIGACTION.pack(handler, _SA_SIGINFO))
            self.call("sigaction", number, self._room)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def call(self, function: str | int, *arguments: int) -> int:
        self._request(function, *arguments)
        return self._result()

    def read(self, address: int, size: int) -> bytes:
        self._request("write", 1, address, size)
        data = self._take(size)
        assert self._result() == size, "what is written into a pipe is written whole"
        return data

    def write(self, address: int, data: bytes) -> None:
        self._request("fread", address, 1, len(data), self._file)
        self._send(data)
        assert self._result() == len(data), "what is read from a pipe is read whole"

    def load(self, compiled: Compiled) -> Mapping[str, int]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "libmodel.so"
            compiled.export(path)
            library = self.call("dlopen", self._text(str(path)), os.RTLD_NOW)
        assert library, "the loader takes an artifact"
        return {
            name: self.call(self._dlsym, library, self._text(f"{compiled.prefix}_{name}"))
            for name in FUNCTIONS
        }

    def allocator(self, allocate: Allocate, release: Release) -> tuple[int, int]:
        self._allocate, self._release = allocate, release
        first, second = self._allocator
        return first, second

    def _text(self, text: str) -> int:
        """Where a text stands, until the next one."""
        self.write(self._room, text.encode() + b"\0")
        return self._room

    def _request(self, function: str | int, *arguments: int) -> None:
        address = self._libc[function] if isinstance(function, str) else function
        self._send(_REQUEST.pack(address, *arguments, *[0] * (6 - len(arguments))))

    def _result(self) -> int:
        """What the call returns that was asked for last; serves the host's allocator meanwhile."""
        while True:
            what, first, second = self._message()
            if what == _RETURNED:
                return first
            if what == _SIGNAL:
                self._crashed = Crashed(f"{signal.Signals(first).name} at {second:#x}")
                raise self._crashed
            address = self._allocate(first, second) if what == _ALLOCATE else 0
            if what == _RELEASE:
                self._release(first)
            self._request(0, address)

    def _message(self) -> tuple[int, int, int]:
        return _MESSAGE.unpack(self._take(_MESSAGE.size))

    def _send(self, data: bytes) -> None:
        try:
            self._requests.write(data)
            self._requests.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _take(self, size: int) -> bytes:
        data = self._messages.read(size)
        if len(data) < size:
            raise self._ended()
        return data

    def _ended(self) -> Crashed:
        return self._crashed or Crashed(f"the process ended with {self._process.wait()}")
