"""What the run time needs of a system, where there is none: memory that grows, and one thread."""

from __future__ import annotations

from typing import Final

from weft.compiler.target.target import Target

_SYSTEM: Final = """\
@{prefix}.heap_end = internal global i32 0
@__heap_base = external hidden global i8

declare i32 @llvm.wasm.memory.size.i32(i32)
declare i32 @llvm.wasm.memory.grow.i32(i32, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define hidden ptr @aligned_alloc(i64 %alignment, i64 %bytes) nounwind {{
  %last = load i32, ptr @{prefix}.heap_end
  %base = ptrtoint ptr @__heap_base to i32
  %first = icmp eq i32 %last, 0
  %free32 = select i1 %first, i32 %base, i32 %last
  %free = zext i32 %free32 to i64
  %less = sub i64 %alignment, 1
  %beyond = add i64 %free, %less
  %mask = xor i64 %less, -1
  %start = and i64 %beyond, %mask
  %room = sub i64 4294967295, %start
  %fits = icmp ule i64 %bytes, %room
  br i1 %fits, label %measure, label %fail
measure:
  %end = add i64 %start, %bytes
  %pages = call i32 @llvm.wasm.memory.size.i32(i32 0)
  %wide = zext i32 %pages to i64
  %size = shl i64 %wide, 16
  %enough = icmp ule i64 %end, %size
  br i1 %enough, label %done, label %grow
grow:
  %lacking = sub i64 %end, %size
  %upward = add i64 %lacking, 65535
  %more = lshr i64 %upward, 16
  %more32 = trunc i64 %more to i32
  %before = call i32 @llvm.wasm.memory.grow.i32(i32 0, i32 %more32)
  %refused = icmp eq i32 %before, -1
  br i1 %refused, label %fail, label %done
done:
  %end32 = trunc i64 %end to i32
  store i32 %end32, ptr @{prefix}.heap_end
  %start32 = trunc i64 %start to i32
  %result = inttoptr i32 %start32 to ptr
  ret ptr %result
fail:
  ret ptr null
}}

define ptr @{prefix}_allocate(i32 %bytes) nounwind {{
  %wide = zext i32 %bytes to i64
  %result = call ptr @aligned_alloc(i64 64, i64 %wide)
  ret ptr %result
}}

define hidden void @free(ptr %memory) nounwind {{
  ret void
}}

define hidden ptr @memcpy(ptr %to, ptr %from, i64 %bytes) nounwind {{
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret ptr %to
}}

define hidden ptr @memset(ptr %to, i32 %byte, i64 %bytes) nounwind {{
  %value = trunc i32 %byte to i8
  call void @llvm.memset.p0.i64(ptr %to, i8 %value, i64 %bytes, i1 false)
  ret ptr %to
}}

define hidden i32 @getpid() nounwind {{
  ret i32 1
}}

define hidden i32 @sched_getaffinity(i32 %process, i64 %bytes, ptr %mask) nounwind {{
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 %bytes, i1 false)
  store i8 1, ptr %mask
  ret i32 0
}}

define hidden i32 @pthread_create(ptr %handle, ptr %how, ptr %start, ptr %argument) nounwind {{
  ret i32 1
}}

define hidden i32 @pthread_join(i64 %handle, ptr %result) nounwind {{
  ret i32 0
}}

define hidden i32 @pthread_sigmask(i32 %how, ptr %set, ptr %before) nounwind {{
  ret i32 0
}}

define hidden i32 @sigfillset(ptr %set) nounwind {{
  ret i32 0
}}

define hidden i64 @syscall(i64 %n, ptr %word, i64 %operation, i64 %value, ptr %time) nounwind {{
  ret i64 0
}}
"""


def is_standalone(target: Target) -> bool:
    """Whether artifacts of the target run without a system beneath them."""
    return target.arch == "wasm32"


def standalone_exports(target: Target, prefix: str) -> tuple[str, ...]:
    """What such artifacts show to others beside what all do."""
    return (f"{prefix}_allocate",) if is_standalone(target) else ()


def emit_standalone(prefix: str) -> str:
    """LLVM IR of what libc gives elsewhere, and of `m_allocate`, by which a host gets buffers.

    Memory is handed out once and never taken back: a context and the buffers of its calls live as
    long as their instance. No thread can be started.
    """
    return _SYSTEM.format(prefix=prefix)
