"""`PJRT_LoadedExecutable_Execute` in LLVM IR, with the shorthands of
`weft.compiler.machine.pjrt.code`: buffers become a weft_call, and outputs new buffers or, where
they were donated, what inputs had.
"""

from __future__ import annotations

from typing import Final

EXECUTE_IR: Final = """
%call = type { i64, ptr, ptr, ptr, ptr, i64, i64, i64 }

define ptr @LoadedExecutable_GetExecutable(ptr %args) {
  %executable = get LoadedExecutable_GetExecutable.executable %args
  %references.at = getelementptr i8, ptr %executable, i64 $Executable.references
  %before = atomicrmw add ptr %references.at, i64 1 acq_rel
  set LoadedExecutable_GetExecutable.itself %args %executable
  ret ptr null
}

; Python lets go of what no one refers to at the next compilation: the interpreter may be gone.
define internal void @drop.executable(ptr %executable) {
  %references.at = getelementptr i8, ptr %executable, i64 $Executable.references
  %before = atomicrmw sub ptr %references.at, i64 1 acq_rel
  ret void
}

define ptr @Executable_Destroy(ptr %args) {
  %executable = get Executable_Destroy.executable %args
  call void @drop.executable(ptr %executable)
  ret ptr null
}

define ptr @LoadedExecutable_Destroy(ptr %args) {
  %executable = get LoadedExecutable_Destroy.executable %args
  call void @drop.executable(ptr %executable)
  ret ptr null
}

; One replica of one program, on device 0: a message of protocol buffers.
@assignment = internal constant [9 x i8] c"\\08\\01\\10\\01\\1A\\03\\0A\\01\\00"

define ptr @LoadedExecutable_GetDeviceAssignment(ptr %args) {
  set LoadedExecutable_GetDeviceAssignment.bytes %args @assignment
  set LoadedExecutable_GetDeviceAssignment.bytes_size %args 9
  set LoadedExecutable_GetDeviceAssignment.holder %args @ready
  set LoadedExecutable_GetDeviceAssignment.deleter %args @keep
  ret ptr null
}

define ptr @LoadedExecutable_Delete(ptr %args) {
  %executable = get LoadedExecutable_Delete.executable %args
  set Executable.is_deleted %executable 1
  ret ptr null
}

; Memory that starts with room for its own size, behind which so many bytes are aligned.
define internal ptr @take.workspace(ptr %executable, i64 %bytes) {
  %cell = getelementptr i8, ptr %executable, i64 $Executable.workspace
  %spare = atomicrmw xchg ptr %cell, ptr null acquire
  %none = icmp eq ptr %spare, null
  br i1 %none, label %new, label %reuse
reuse:
  ret ptr %spare
new:
  %with.end = add i64 %bytes, 127
  %whole = and i64 %with.end, -64
  %made = call ptr @aligned_alloc(i64 64, i64 %whole)
  ret ptr %made
}

; Whether an input's memory may become an output's: nobody holds it, and it is given once.
define internal i1 @may.take(ptr %options, ptr %list, i64 %count, i64 %position) {
  %buffer.at = getelementptr ptr, ptr %list, i64 %position
  %buffer = load ptr, ptr %buffer.at
  %external = get Buffer.external %buffer
  %held = icmp sgt i64 %external, 0
  %view = get Buffer.on_delete %buffer
  %is.view = icmp ne ptr %view, null
  %shared = or i1 %held, %is.view
  br i1 %shared, label %no, label %begin
begin:
  %kept = get ExecuteOptions.kept %options
  %num.kept = get ExecuteOptions.num_kept %options
  br label %next
next:
  %at = phi i64 [ 0, %begin ], [ %at.next, %compare ]
  %over = icmp eq i64 %at, %num.kept
  br i1 %over, label %other, label %compare
compare:
  %index.at = getelementptr i64, ptr %kept, i64 %at
  %index = load i64, ptr %index.at
  %at.next = add i64 %at, 1
  %is.kept = icmp eq i64 %index, %position
  br i1 %is.kept, label %no, label %next
other:
  %input = phi i64 [ 0, %next ], [ %input.next, %differs ]
  %done = icmp eq i64 %input, %count
  br i1 %done, label %yes, label %look
look:
  %other.at = getelementptr ptr, ptr %list, i64 %input
  %given = load ptr, ptr %other.at
  %same = icmp eq ptr %given, %buffer
  %itself = icmp eq i64 %input, %position
  %differs.or = xor i1 %same, true
  %fine = or i1 %differs.or, %itself
  br i1 %fine, label %differs, label %no
differs:
  %input.next = add i64 %input, 1
  br label %other
yes:
  ret i1 true
no:
  ret i1 false
}

; The buffer of output `n`; null where there is no memory.
define internal ptr @new.output(ptr %owner, i64 %n, ptr %dims, ptr %options, ptr %list, i64 %all) {
  %ranks = get Executable.output_ranks %owner
  %rank.at = getelementptr i64, ptr %ranks, i64 %n
  %rank = load i64, ptr %rank.at
  %types = get Executable.output_types %owner
  %type.at = getelementptr i32, ptr %types, i64 %n
  %type = load i32, ptr %type.at
  %sizes = get Executable.output_sizes %owner
  %size.at = getelementptr i64, ptr %sizes, i64 %n
  %bytes = load i64, ptr %size.at
  %donors = get Executable.donors %owner
  %donor.at = getelementptr i64, ptr %donors, i64 %n
  %donor = load i64, ptr %donor.at
  %device = get Executable.device %owner
  %donated = icmp sge i64 %donor, 0
  br i1 %donated, label %ask, label %make
ask:
  %may = call i1 @may.take(ptr %options, ptr %list, i64 %all, i64 %donor)
  br i1 %may, label %take, label %make
take:
  %given.at = getelementptr ptr, ptr %list, i64 %donor
  %given = load ptr, ptr %given.at
  %taken = get Buffer.data %given
  set Buffer.data %given null
  set Buffer.is_deleted %given 1
  br label %make
make:
  %data = phi ptr [ null, %0 ], [ null, %ask ], [ %taken, %take ]
  %buffer = call ptr @new.buffer(
    i32 %type, ptr %dims, i64 %rank, i64 %bytes, ptr %data, ptr %device)
  ret ptr %buffer
}

define ptr @LoadedExecutable_Execute(ptr %args) {
  %executable = get LoadedExecutable_Execute.executable %args
  %options = get LoadedExecutable_Execute.options %args
  %lists = get LoadedExecutable_Execute.argument_lists %args
  %list = load ptr, ptr %lists
  %output.lists = get LoadedExecutable_Execute.output_lists %args
  %results = load ptr, ptr %output.lists
  %given = get LoadedExecutable_Execute.num_args %args
  %inputs = get Executable.num_inputs %executable
  %outputs = get Executable.num_outputs %executable
  %read = alloca ptr, i64 %inputs, align 8
  %written = alloca ptr, i64 %outputs, align 8
  %call = alloca %call, align 8
  %complete = icmp eq i64 %given, %inputs
  br i1 %complete, label %input, label %miscounted
miscounted:
  %count.error = error 3 "a call requires as many buffers as the program has parameters"
  ret ptr %count.error
input:
  %at = phi i64 [ 0, %0 ], [ %at.next, %accept ]
  %all.read = icmp eq i64 %at, %inputs
  br i1 %all.read, label %output, label %look
look:
  %buffer.at = getelementptr ptr, ptr %list, i64 %at
  %buffer = load ptr, ptr %buffer.at
  %data = get Buffer.data %buffer
  %gone = icmp eq ptr %data, null
  br i1 %gone, label %deleted, label %accept
deleted:
  %deleted.error = error 3 "a call requires buffers, got one that was deleted or donated"
  ret ptr %deleted.error
accept:
  %read.at = getelementptr ptr, ptr %read, i64 %at
  store ptr %data, ptr %read.at
  %at.next = add i64 %at, 1
  br label %input
output:
  %number = phi i64 [ 0, %input ], [ %number.next, %made ]
  %dims.before = phi i64 [ 0, %input ], [ %dims.next, %made ]
  %all.made = icmp eq i64 %number, %outputs
  br i1 %all.made, label %run, label %make
make:
  %first.dims = get Executable.output_dims %executable
  %dims = getelementptr i64, ptr %first.dims, i64 %dims.before
  %result = call ptr @new.output(
    ptr %executable, i64 %number, ptr %dims, ptr %options, ptr %list, i64 %inputs)
  %no.memory = icmp eq ptr %result, null
  br i1 %no.memory, label %poor, label %made
made:
  %rank = get Buffer.num_dims %result
  %dims.next = add i64 %dims.before, %rank
  %result.at = getelementptr ptr, ptr %results, i64 %number
  store ptr %result, ptr %result.at
  %answer = get Buffer.data %result
  %written.at = getelementptr ptr, ptr %written, i64 %number
  store ptr %answer, ptr %written.at
  %number.next = add i64 %number, 1
  br label %output
run:
  %bytes = get Executable.workspace_size %executable
  %workspace = call ptr @take.workspace(ptr %executable, i64 %bytes)
  %no.workspace = icmp eq ptr %workspace, null
  br i1 %no.workspace, label %poor, label %start
start:
  store i64 64, ptr %call
  %call.1 = getelementptr %call, ptr %call, i64 0, i32 1
  store ptr %read, ptr %call.1
  %call.2 = getelementptr %call, ptr %call, i64 0, i32 2
  store ptr %written, ptr %call.2
  %call.3 = getelementptr %call, ptr %call, i64 0, i32 3
  store ptr null, ptr %call.3
  %call.4 = getelementptr %call, ptr %call, i64 0, i32 4
  store ptr %workspace, ptr %call.4
  %call.5 = getelementptr %call, ptr %call, i64 0, i32 5
  store i64 %bytes, ptr %call.5
  %call.6 = getelementptr %call, ptr %call, i64 0, i32 6
  store i64 0, ptr %call.6
  %call.7 = getelementptr %call, ptr %call, i64 0, i32 7
  store i64 0, ptr %call.7
  %context = get Executable.context %executable
  %function = get Executable.run %executable
  %status = call i32 %function(ptr %context, ptr %call)
  %cell = getelementptr i8, ptr %executable, i64 $Executable.workspace
  %other = atomicrmw xchg ptr %cell, ptr %workspace acq_rel
  call void @free(ptr %other)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %tell, label %failed
failed:
  call void @drop.outputs(ptr %results, i64 %outputs)
  %fail = get Executable.fail %executable
  %reason = call ptr %fail(ptr %executable, i32 %status)
  ret ptr %reason
poor:
  %have = phi i64 [ %number, %make ], [ %outputs, %run ]
  call void @drop.outputs(ptr %results, i64 %have)
  %poor.error = error 8 "a call requires memory, got none"
  ret ptr %poor.error
tell:
  %events = get LoadedExecutable_Execute.events %args
  %unheard = icmp eq ptr %events, null
  br i1 %unheard, label %done, label %complete.event
complete.event:
  store ptr @ready, ptr %events
  br label %done
done:
  ret ptr null
}

define internal void @drop.outputs(ptr %results, i64 %count) {
  br label %next
next:
  %at = phi i64 [ 0, %0 ], [ %at.next, %drop ]
  %over = icmp eq i64 %at, %count
  br i1 %over, label %done, label %drop
drop:
  %result.at = getelementptr ptr, ptr %results, i64 %at
  %result = load ptr, ptr %result.at
  call void @release.data(ptr %result)
  call void @free(ptr %result)
  %at.next = add i64 %at, 1
  br label %next
done:
  ret void
}
"""
"""Calls of programs."""
