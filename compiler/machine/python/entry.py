"""The function that Python calls a model by, in LLVM IR: arrays out of the interpreter's hands into
a weft_call, and new arrays back.

It is one function for all models: what a model takes and gives stands in a table, of which
`weft.compiler.machine.python.fast_call` says what is in it. Whatever it does not know (other names,
objects and shapes, failures) it hands over to Python, which knows more and has time.

It names CPython's functions as any extension module does; the one function of NumPy's is in the
table. Of CPython's objects it reads the type alone, of NumPy's the members that NumPy documents.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from weft.compiler.deferred import deferred
from weft.compiler.machine.python.entry_arrays import ARRAYS_IR
from weft.compiler.machine.python.entry_memory import LENDING_IR, MEMORY_IR, PLACEHOLDERS
from weft.compiler.machine.python.signals import POLL, SIGNALS_IR
from weft.compiler.target.target import Target

if TYPE_CHECKING:
    from weft.compiler.machine.python import tensor_entry, tensor_memory
else:
    tensor_entry = deferred("weft.compiler.machine.python.tensor_entry")
    tensor_memory = deferred("weft.compiler.machine.python.tensor_memory")

ENTRY, TENSOR_ENTRY = "weft_python_call", "weft_tensor_call"

_HEADER_BYTES = object.__basicsize__
_TYPE_OFFSET = _HEADER_BYTES - 8

_IR = """\
; context, run, workspace_size, inputs, outputs, symbols, fixed workspace, cell of
; a spare workspace, releases, otherwise, failed, new_array, array_type, tensors, programs, depth,
; has derived inputs, set_handler, handler of large results' memory or null, names of inputs, what
; the entry for tensors knows beside it, or null
%table = type {
  ptr, ptr, ptr, i64, i64, i64, i64, ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64, ptr, ptr,
  ptr, ptr }
%tensor = type { ptr, i64, ptr, i32, i64 } ; dtype, rank, sizes, flags, donor
%array = type { [$header x i8], ptr, i32, ptr, ptr, ptr, ptr, i32 }
%call = type { i64, ptr, ptr, ptr, ptr, i64, i64, i64 }

declare ptr @PyByteArray_AsString(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyUnicode_Compare(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; Memory that starts with its own size and has room for that many bytes after a cache line: what an
; earlier call left, or new. The second word says whether it stays when calls have left another.
define internal ptr @take_workspace(ptr %table, i64 %bytes) {
  %cell.at = getelementptr %table, ptr %table, i64 0, i32 7
  %cell = load ptr, ptr %cell.at
  %spare = atomicrmw xchg ptr %cell, ptr null acquire
  %none = icmp eq ptr %spare, null
  br i1 %none, label %new, label %measure
measure:
  %room = load i64, ptr %spare
  %enough = icmp uge i64 %room, %bytes
  br i1 %enough, label %reuse, label %drop
reuse:
  ret ptr %spare
drop:
  call void @free(ptr %spare)
  br label %new
new:
  %with.head = add i64 %bytes, 127
  %whole = and i64 %with.head, -64
  %memory = call ptr @aligned_alloc(i64 64, i64 %whole)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %give, label %note
note:
  store i64 %bytes, ptr %memory
  %stays.at = getelementptr i64, ptr %memory, i64 1
  store i64 0, ptr %stays.at
  br label %give
give:
  ret ptr %memory
}

define internal void @leave_workspace(ptr %table, ptr %memory) {
  %cell.at = getelementptr %table, ptr %table, i64 0, i32 7
  %cell = load ptr, ptr %cell.at
  %other = atomicrmw xchg ptr %cell, ptr %memory acq_rel
  %none = icmp eq ptr %other, null
  br i1 %none, label %left, label %look
look:
  %stays.at = getelementptr i64, ptr %other, i64 1
  %stays = load i64, ptr %stays.at
  %goes = icmp eq i64 %stays, 0
  br i1 %goes, label %drop, label %restore
restore:
  %later = atomicrmw xchg ptr %cell, ptr %other acq_rel
  br label %drop
drop:
  %spare = phi ptr [ %other, %look ], [ %later, %restore ]
  call void @free(ptr %spare)
  br label %left
left:
  ret void
}

; Calls the model on what a call reads, writes and binds, without the interpreter's lock where that
; is worth its price.
define internal i32 @run_model(ptr %table, ptr %call, ptr %workspace, i64 %bytes) {
  %arena = getelementptr i8, ptr %workspace, i64 64
  store i64 64, ptr %call
  %call.4 = getelementptr %call, ptr %call, i64 0, i32 4
  store ptr %arena, ptr %call.4
  %call.5 = getelementptr %call, ptr %call, i64 0, i32 5
  store i64 %bytes, ptr %call.5
  %call.6 = getelementptr %call, ptr %call, i64 0, i32 6
  store i64 0, ptr %call.6
  %call.7 = getelementptr %call, ptr %call, i64 0, i32 7
  store i64 0, ptr %call.7
  %context = load ptr, ptr %table
  %run.at = getelementptr %table, ptr %table, i64 0, i32 1
  %run = load ptr, ptr %run.at
  %releases.at = getelementptr %table, ptr %table, i64 0, i32 8
  %releases = load i64, ptr %releases.at
  %short = icmp eq i64 %releases, 0
  br i1 %short, label %hold, label %release
hold:
  %status.held = call i32 %run(ptr %context, ptr %call)
  ret i32 %status.held
release:
  %thread = call ptr @PyEval_SaveThread()
  %status.released = call i32 %run(ptr %context, ptr %call)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %status.released
}

; The bytes of the workspace for sizes; -1 for sizes that the model refuses.
define internal i64 @workspace_bytes(ptr %table, ptr %symbols) alwaysinline {
  %fixed.at = getelementptr %table, ptr %table, i64 0, i32 6
  %fixed = load i64, ptr %fixed.at
  %is.fixed = icmp ne i64 %fixed, -1
  br i1 %is.fixed, label %known, label %ask
known:
  ret i64 %fixed
ask:
  %ask.at = getelementptr %table, ptr %table, i64 0, i32 2
  %ask.for = load ptr, ptr %ask.at
  %asked = call i64 %ask.for(ptr %symbols)
  ret i64 %asked
}

; What failed is raised apart from calls that do not fail.
define internal ptr @raise(ptr %table, i32 %status) noinline {
  %failed.at = getelementptr %table, ptr %table, i64 0, i32 10
  %failed = load ptr, ptr %failed.at
  %wide = sext i32 %status to i64
  %told = call ptr @PyLong_FromLong(i64 %wide)
  %raised = call ptr @PyObject_CallOneArg(ptr %failed, ptr %told)
  call void @Py_DecRef(ptr %told)
  ret ptr %raised
}

define ptr @$entry(ptr %self, ptr %given.arguments, i64 %given, ptr %names) {
entry:
  %table = call ptr @PyByteArray_AsString(ptr %self)
  %inputs.at = getelementptr %table, ptr %table, i64 0, i32 3
  %inputs = load i64, ptr %inputs.at
  %outputs.at = getelementptr %table, ptr %table, i64 0, i32 4
  %outputs = load i64, ptr %outputs.at
  %count.at = getelementptr %table, ptr %table, i64 0, i32 5
  %count = load i64, ptr %count.at
  %depth.at = getelementptr %table, ptr %table, i64 0, i32 15
  %depth = load i64, ptr %depth.at
  %tensors.at = getelementptr %table, ptr %table, i64 0, i32 13
  %tensors = load ptr, ptr %tensors.at
  %results = getelementptr %tensor, ptr %tensors, i64 %inputs
  %call = alloca %call, align 8
  %read = alloca ptr, i64 %inputs, align 8
  %written = alloca ptr, i64 %outputs, align 8
  %symbols = alloca i64, i64 %count, align 8
  %stack = alloca i64, i64 %depth, align 8
  %shape = alloca i64, i64 $most_dims, align 8
  %sorted = alloca ptr, i64 %inputs, align 8
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %positional, label %named
positional:
  %complete = icmp eq i64 %given, %inputs
  br i1 %complete, label %unbind, label %odd
named:
  %all.named = call i1 @sort_by_name(
    ptr %table, ptr %given.arguments, i64 %given, ptr %names, ptr %sorted)
  br i1 %all.named, label %unbind, label %odd
unbind:
  %arguments = phi ptr [ %given.arguments, %positional ], [ %sorted, %named ],
    [ %arguments, %unbind.one ]
  %unbound = phi i64 [ 0, %positional ], [ 0, %named ], [ %unbound.next, %unbind.one ]
  %all.unbound = icmp eq i64 %unbound, %count
  br i1 %all.unbound, label %argument, label %unbind.one
unbind.one:
  %symbol.at = getelementptr i64, ptr %symbols, i64 %unbound
  store i64 -1, ptr %symbol.at
  %unbound.next = add i64 %unbound, 1
  br label %unbind
argument:
  %number = phi i64 [ 0, %unbind ], [ %number.next, %accepted ]
  %all.accepted = icmp eq i64 %number, %inputs
  br i1 %all.accepted, label %memory, label %look
look:
  %tensor = getelementptr %tensor, ptr %tensors, i64 %number
  %object.at = getelementptr ptr, ptr %arguments, i64 %number
  %object = load ptr, ptr %object.at
  %fits = call i1 @accept(ptr %table, ptr %tensor, ptr %object, ptr %symbols, i64 %count)
  br i1 %fits, label %accepted, label %odd
accepted:
  %elements.at = getelementptr %array, ptr %object, i64 0, i32 1
  %elements = load ptr, ptr %elements.at
  %read.at = getelementptr ptr, ptr %read, i64 %number
  store ptr %elements, ptr %read.at
  %number.next = add i64 %number, 1
  br label %argument
memory: ; which says also whether the sizes are allowed, before anything is computed from them
  %bytes = call i64 @workspace_bytes(ptr %table, ptr %symbols)
  %refused = icmp eq i64 %bytes, -1
  br i1 %refused, label %odd, label %derived
derived:
  %has.derived.at = getelementptr %table, ptr %table, i64 0, i32 16
  %has.derived = load i64, ptr %has.derived.at
  %must.agree = icmp ne i64 %has.derived, 0
  br i1 %must.agree, label %again, label %answers
again:
  %second = phi i64 [ 0, %derived ], [ %second.next, %check ]
  %all.agree = icmp eq i64 %second, %inputs
  br i1 %all.agree, label %answers, label %check
check:
  %checked = getelementptr %tensor, ptr %tensors, i64 %second
  %checked.at = getelementptr ptr, ptr %arguments, i64 %second
  %checked.object = load ptr, ptr %checked.at
  %shape.at = getelementptr %array, ptr %checked.object, i64 0, i32 3
  %shape.of = load ptr, ptr %shape.at
  %agree = call i1 @agrees(ptr %table, ptr %checked, ptr %shape.of, ptr %symbols, ptr %stack)
  %second.next = add i64 %second, 1
  br i1 %agree, label %again, label %odd
answers:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %error, label %output
output:
  %place = phi i64 [ 0, %answers ], [ %place.next, %keep ]
  %all.made = icmp eq i64 %place, %outputs
  br i1 %all.made, label %sized, label %make
make:
  %result = getelementptr %tensor, ptr %results, i64 %place
  %donor.at = getelementptr %tensor, ptr %result, i64 0, i32 4
  %donor = load i64, ptr %donor.at
  %donated = icmp sge i64 %donor, 0
  br i1 %donated, label %take, label %new
take:
  %given.at = getelementptr ptr, ptr %arguments, i64 %donor
  %given.array = load ptr, ptr %given.at
  call void @Py_IncRef(ptr %given.array)
  br label %keep
new:
  %new.array = call ptr @new_output(
    ptr %table, ptr %result, ptr %symbols, ptr %stack, ptr %shape)
  %not.made = icmp eq ptr %new.array, null
  br i1 %not.made, label %spoiled, label %keep
keep:
  %made = phi ptr [ %given.array, %take ], [ %new.array, %new ]
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %place, ptr %made)
  %answer.at = getelementptr %array, ptr %made, i64 0, i32 1
  %answer = load ptr, ptr %answer.at
  %written.at = getelementptr ptr, ptr %written, i64 %place
  store ptr %answer, ptr %written.at
  %place.next = add i64 %place, 1
  br label %output
sized:
  %workspace = call ptr @take_workspace(ptr %table, i64 %bytes)
  %no.memory = icmp eq ptr %workspace, null
  br i1 %no.memory, label %poor, label %start
start:
  %call.1 = getelementptr %call, ptr %call, i64 0, i32 1
  store ptr %read, ptr %call.1
  %call.2 = getelementptr %call, ptr %call, i64 0, i32 2
  store ptr %written, ptr %call.2
  %call.3 = getelementptr %call, ptr %call, i64 0, i32 3
  store ptr %symbols, ptr %call.3
  %status = call i32 @run_model(ptr %table, ptr %call, ptr %workspace, i64 %bytes)
  call void @leave_workspace(ptr %table, ptr %workspace)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %give, label %fail
give:
  ret ptr %tuple
error:
  ret ptr null
fail:
  call void @Py_DecRef(ptr %tuple)
  %raised = call ptr @raise(ptr %table, i32 %status)
  ret ptr %raised
poor:
  call void @Py_DecRef(ptr %tuple)
  %out.of.memory = call ptr @PyErr_NoMemory()
  ret ptr %out.of.memory
spoiled:
  call void @Py_DecRef(ptr %tuple)
  %unclear = call ptr @PyErr_Occurred()
  %clear = icmp eq ptr %unclear, null
  br i1 %clear, label %odd, label %error
odd:
  %otherwise.at = getelementptr %table, ptr %table, i64 0, i32 9
  %otherwise = load ptr, ptr %otherwise.at
  %slow = call ptr @PyObject_Vectorcall(
    ptr %otherwise, ptr %given.arguments, i64 %given, ptr %names)
  ret ptr %slow
}
"""

MOST_DIMS = 64
"""Of an array, as NumPy has it."""

DENSE_FLAGS = 0x1 | 0x100
"""In C order, aligned."""

WRITABLE_FLAG = 0x400


def entry_ir(target: Target, *, tensors: bool = False) -> str:
    """The module as text; with the entry for tensors it is twice as long."""
    parts = (_IR, ARRAYS_IR, LENDING_IR, MEMORY_IR, SIGNALS_IR)
    if tensors:
        parts += tensor_memory.TENSOR_MEMORY_IR, tensor_entry.TENSORS_IR
    text = Template("".join(parts)).substitute(
        PLACEHOLDERS,
        entry=ENTRY,
        tensors=TENSOR_ENTRY,
        poll=POLL,
        header=_HEADER_BYTES,
        type=_TYPE_OFFSET,
        most_dims=MOST_DIMS,
    )
    return f'target triple = "{target.triple}"\n\n{text}'
