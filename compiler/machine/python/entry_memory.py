"""Where the arrays of results lie, in LLVM IR: functions for NumPy's allocation of data that keep
large blocks for the next call when their arrays go.

The system gives and takes such blocks page by page, which for some megabytes costs more than what
many a model computes. They start on a cache line, so that no vector straddles two. Whoever finds
the spare blocks locked does without them.
"""

from __future__ import annotations

ALLOCATE = "weft_allocate_data"
CLEARED = "weft_allocate_cleared_data"
RESIZE = "weft_resize_data"
RELEASE = "weft_release_data"

BLOCKS = 256
"""Spare blocks at most."""

LEAST_BYTES = 1 << 16
"""Of a block that is kept."""

MOST_BYTES = 1 << 30
"""Of all spare blocks together."""

HUGE_BYTES = 1 << 22
"""Of a block from which on the system is asked for huge pages, as NumPy asks it."""

SPARE_BYTES = 24 + 16 * BLOCKS
"""Of what notes them, all zeros at first."""

PLACEHOLDERS = {
    "allocate": ALLOCATE,
    "cleared": CLEARED,
    "resize": RESIZE,
    "release": RELEASE,
    "blocks": BLOCKS,
    "least": LEAST_BYTES,
    "many": LEAST_BYTES // 4,
    "most": MOST_BYTES,
    "huge": HUGE_BYTES,
}
"""What the text has instead of names and numbers."""

LENDING_IR = """
; From here on NumPy has the memory of arrays from us; returns what it had it from, or null.
define internal ptr @lend_memory(ptr %table, ptr %handler) {
  %set.at = getelementptr %table, ptr %table, i64 0, i32 17
  %set.handler = load ptr, ptr %set.at
  %before = call ptr %set.handler(ptr %handler)
  %refused = icmp eq ptr %before, null
  br i1 %refused, label %clear, label %done
clear:
  call void @PyErr_Clear()
  br label %done
done:
  ret ptr %before
}

define internal void @return_memory(ptr %table, ptr %before) {
  %none = icmp eq ptr %before, null
  br i1 %none, label %done, label %set
set:
  %set.at = getelementptr %table, ptr %table, i64 0, i32 17
  %set.handler = load ptr, ptr %set.at
  %ours = call ptr %set.handler(ptr %before)
  call void @Py_DecRef(ptr %before)
  %refused = icmp eq ptr %ours, null
  br i1 %refused, label %done, label %drop
drop:
  call void @Py_DecRef(ptr %ours)
  br label %done
done:
  ret void
}
"""

MEMORY_IR = """
; lock, bytes, the next place; sizes, blocks
%spare = type { i64, i64, i64, [$blocks x i64], [$blocks x ptr] }

declare ptr @malloc(i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare i32 @madvise(ptr, i64, i32)

define ptr @$allocate(ptr %spare, i64 %size) {
  %small = icmp ult i64 %size, $least
  br i1 %small, label %plain, label %try
plain:
  %few = call ptr @malloc(i64 %size)
  ret ptr %few
try:
  %locked = atomicrmw xchg ptr %spare, i64 1 acquire
  %busy = icmp ne i64 %locked, 0
  br i1 %busy, label %fresh, label %look
look:
  %place = phi i64 [ 0, %try ], [ %place.next, %other ]
  %none = icmp eq i64 %place, $blocks
  br i1 %none, label %unlock, label %compare
compare:
  %size.at = getelementptr %spare, ptr %spare, i64 0, i32 3, i64 %place
  %size.of = load i64, ptr %size.at
  %fits = icmp eq i64 %size.of, %size
  br i1 %fits, label %take, label %other
other:
  %place.next = add i64 %place, 1
  br label %look
take:
  %block.at = getelementptr %spare, ptr %spare, i64 0, i32 4, i64 %place
  %block = load ptr, ptr %block.at
  call void @forget(ptr %spare, i64 %place)
  store atomic i64 0, ptr %spare release, align 8
  ret ptr %block
unlock:
  store atomic i64 0, ptr %spare release, align 8
  br label %fresh
fresh:
  %with.rest = add i64 %size, 63
  %whole = and i64 %with.rest, -64
  %new = call ptr @aligned_alloc(i64 64, i64 %whole)
  %no.memory = icmp eq ptr %new, null
  %few.pages = icmp ult i64 %whole, $huge
  %as.it.is = or i1 %no.memory, %few.pages
  br i1 %as.it.is, label %give, label %advise
advise:
  %start = ptrtoint ptr %new to i64
  %page = add i64 %start, 4095
  %first = and i64 %page, -4096
  %first.at = inttoptr i64 %first to ptr
  %skipped = sub i64 %first, %start
  %rest = sub i64 %whole, %skipped
  %advised = call i32 @madvise(ptr %first.at, i64 %rest, i32 14) ; MADV_HUGEPAGE
  br label %give
give:
  ret ptr %new
}

; Empties a place.
define internal void @forget(ptr %spare, i64 %place) {
  %size.at = getelementptr %spare, ptr %spare, i64 0, i32 3, i64 %place
  %size = load i64, ptr %size.at
  store i64 0, ptr %size.at
  %block.at = getelementptr %spare, ptr %spare, i64 0, i32 4, i64 %place
  store ptr null, ptr %block.at
  %held.at = getelementptr %spare, ptr %spare, i64 0, i32 1
  %held = load i64, ptr %held.at
  %left = sub i64 %held, %size
  store i64 %left, ptr %held.at
  ret void
}

define ptr @$cleared(ptr %spare, i64 %count, i64 %size) {
  %block = call ptr @calloc(i64 %count, i64 %size)
  ret ptr %block
}

define ptr @$resize(ptr %spare, ptr %block, i64 %size) {
  %moved = call ptr @realloc(ptr %block, i64 %size)
  ret ptr %moved
}

define void @$release(ptr %spare, ptr %block, i64 %size) {
  %small = icmp ult i64 %size, $least
  %large = icmp ugt i64 %size, $most
  %no.spare = or i1 %small, %large
  br i1 %no.spare, label %plain, label %try
plain:
  call void @free(ptr %block)
  ret void
try:
  %locked = atomicrmw xchg ptr %spare, i64 1 acquire
  %busy = icmp ne i64 %locked, 0
  br i1 %busy, label %plain, label %room
room: ; the oldest go until there is room
  %next.at = getelementptr %spare, ptr %spare, i64 0, i32 2
  %place = load i64, ptr %next.at
  %old.at = getelementptr %spare, ptr %spare, i64 0, i32 4, i64 %place
  %old = load ptr, ptr %old.at
  call void @free(ptr %old)
  call void @forget(ptr %spare, i64 %place)
  %held.at = getelementptr %spare, ptr %spare, i64 0, i32 1
  %held = load i64, ptr %held.at
  %more = add i64 %held, %size
  %after = add i64 %place, 1
  %around = urem i64 %after, $blocks
  store i64 %around, ptr %next.at
  %too.much = icmp ugt i64 %more, $most
  br i1 %too.much, label %room, label %keep
keep:
  %size.at = getelementptr %spare, ptr %spare, i64 0, i32 3, i64 %place
  store i64 %size, ptr %size.at
  store ptr %block, ptr %old.at
  store i64 %more, ptr %held.at
  store atomic i64 0, ptr %spare release, align 8
  ret void
}
"""
