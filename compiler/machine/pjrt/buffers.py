"""Buffers, errors and events of the plugin, in LLVM IR with the shorthands of
`weft.compiler.machine.pjrt.code`: `get` and `set` of members, `error` with a code and a text.

A buffer is one block of its structure and its dims, and one of its elements. Calls are over when
they return, so that one event, which is always ready, stands for all but the end of buffers.
"""

from __future__ import annotations

from typing import Final

BUFFERS_IR: Final = """
@ready = internal global i64 0
@descending = internal constant [64 x i64] [$descending]
@element.bytes = internal constant [34 x i8] [$element_bytes]
@copy.strided = internal global ptr null ; Python's: the arguments and where to, or from

@spare = internal global [$spare_bytes x i8] zeroinitializer, align 8 ; blocks for the next call

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @$error(i32 %code, ptr %text, i64 %length) {
  %whole = add i64 %length, $Error.bytes
  %error = call ptr @malloc(i64 %whole)
  %message = getelementptr i8, ptr %error, i64 $Error.bytes
  call void @llvm.memcpy.p0.p0.i64(ptr %message, ptr %text, i64 %length, i1 false)
  set Error.code %error %code
  set Error.message %error %message
  set Error.message_size %error %length
  ret ptr %error
}

define void @Error_Destroy(ptr %args) {
  %error = get Error_Destroy.error %args
  call void @free(ptr %error)
  ret void
}

define void @Error_Message(ptr %args) {
  %error = get Error_Message.error %args
  %message = get Error.message %error
  %length = get Error.message_size %error
  set Error_Message.message %args %message
  set Error_Message.message_size %args %length
  ret void
}

define ptr @Error_GetCode(ptr %args) {
  %error = get Error_GetCode.error %args
  %code = get Error.code %error
  set Error_GetCode.code %args %code
  ret ptr null
}

define ptr @Event_IsReady(ptr %args) {
  %event = get Event_IsReady.event %args
  %state = load i64, ptr %event
  %is.ready = icmp eq i64 %state, 0
  %answer = zext i1 %is.ready to i8
  set Event_IsReady.is_ready %args %answer
  ret ptr null
}

define ptr @ExecuteContext_Create(ptr %args) {
  set ExecuteContext_Create.context %args @ready
  ret ptr null
}

; There are none, and nothing to give back.
define ptr @Device_GetAttributes(ptr %args) {
  set Device_GetAttributes.attributes %args null
  set Device_GetAttributes.num_attributes %args 0
  set Device_GetAttributes.holder %args @ready
  set Device_GetAttributes.deleter %args @keep
  ret ptr null
}

; The bytes of dense elements.
define internal i64 @bytes.of(i32 %type, ptr %dims, i64 %rank) {
  %size.at = getelementptr i8, ptr @element.bytes, i32 %type
  %size = load i8, ptr %size.at
  %element = zext i8 %size to i64
  br label %next
next:
  %at = phi i64 [ 0, %0 ], [ %at.next, %multiply ]
  %bytes = phi i64 [ %element, %0 ], [ %more, %multiply ]
  %all = icmp eq i64 %at, %rank
  br i1 %all, label %done, label %multiply
multiply:
  %dim.at = getelementptr i64, ptr %dims, i64 %at
  %dim = load i64, ptr %dim.at
  %more = mul i64 %bytes, %dim
  %at.next = add i64 %at, 1
  br label %next
done:
  ret i64 %bytes
}

; A buffer of elements that are there, or with room for them; null where there is no memory.
define internal ptr @new.buffer(i32 %type, ptr %dims, i64 %rank, i64 %bytes, ptr %given, ptr %dev) {
  %dim.bytes = mul i64 %rank, 8
  %whole = add i64 %dim.bytes, $Buffer.bytes
  %buffer = call ptr @malloc(i64 %whole)
  %is.given = icmp ne ptr %given, null
  br i1 %is.given, label %fill, label %new
new:
  %made = call ptr @$allocate(ptr @spare, i64 %bytes)
  %none = icmp eq ptr %made, null
  br i1 %none, label %poor, label %fill
poor:
  call void @free(ptr %buffer)
  ret ptr null
fill:
  %data = phi ptr [ %given, %0 ], [ %made, %new ]
  %own.dims = getelementptr i8, ptr %buffer, i64 $Buffer.bytes
  call void @llvm.memcpy.p0.p0.i64(ptr %own.dims, ptr %dims, i64 %dim.bytes, i1 false)
  set Buffer.is_deleted %buffer 0
  set Buffer.is_on_cpu %buffer 1
  set Buffer.type %buffer %type
  set Buffer.external %buffer 0
  set Buffer.data %buffer %data
  set Buffer.size %buffer %bytes
  set Buffer.num_dims %buffer %rank
  set Buffer.dims %buffer %own.dims
  set Buffer.nothing %buffer null
  set Buffer.num_nothing %buffer 0
  set Buffer.device %buffer %dev
  %memory = get Device.memory %dev
  set Buffer.memory %buffer %memory
  set Buffer.on_delete %buffer null
  ret ptr %buffer
}

; Gives the elements back to whom they are of.
define internal void @release.data(ptr %buffer) {
  %data = get Buffer.data %buffer
  set Buffer.data %buffer null
  %callback = get Buffer.on_delete %buffer
  %is.view = icmp ne ptr %callback, null
  br i1 %is.view, label %tell, label %own
tell:
  set Buffer.on_delete %buffer null
  %argument = get Buffer.on_delete_arg %buffer
  call void %callback(ptr %data, ptr %argument)
  ret void
own:
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %give
give:
  %bytes = get Buffer.size %buffer
  call void @$release(ptr @spare, ptr %data, i64 %bytes)
  br label %done
done:
  ret void
}

define ptr @Buffer_Destroy(ptr %args) {
  %buffer = get Buffer_Destroy.buffer %args
  call void @release.data(ptr %buffer)
  call void @free(ptr %buffer)
  ret ptr null
}

define ptr @Buffer_Delete(ptr %args) {
  %buffer = get Buffer_Delete.buffer %args
  set Buffer.is_deleted %buffer 1
  %external = get Buffer.external %buffer
  %held = icmp sgt i64 %external, 0
  br i1 %held, label %done, label %release
release:
  call void @release.data(ptr %buffer)
  br label %done
done:
  ret ptr null
}

define ptr @Buffer_IncreaseExternalReferenceCount(ptr %args) {
  %buffer = get Buffer_IncreaseExternalReferenceCount.buffer %args
  %external.at = getelementptr i8, ptr %buffer, i64 $Buffer.external
  %before = atomicrmw add ptr %external.at, i64 1 acq_rel
  ret ptr null
}

define ptr @Buffer_DecreaseExternalReferenceCount(ptr %args) {
  %buffer = get Buffer_DecreaseExternalReferenceCount.buffer %args
  %external.at = getelementptr i8, ptr %buffer, i64 $Buffer.external
  %before = atomicrmw sub ptr %external.at, i64 1 acq_rel
  %deleted = get Buffer.is_deleted %buffer
  %is.deleted = icmp ne i8 %deleted, 0
  %is.last = icmp eq i64 %before, 1
  %over = and i1 %is.deleted, %is.last
  br i1 %over, label %release, label %done
release:
  call void @release.data(ptr %buffer)
  br label %done
done:
  ret ptr null
}

define ptr @Buffer_ReadyEvent(ptr %args) {
  set Buffer_ReadyEvent.event %args @ready
  ret ptr null
}

define ptr @Buffer_GetMemoryLayout(ptr %args) {
  %buffer = get Buffer_GetMemoryLayout.buffer %args
  %rank = get Buffer.num_dims %buffer
  %before = sub i64 64, %rank
  %order = getelementptr i64, ptr @descending, i64 %before
  set Buffer_GetMemoryLayout.layout_type %args 0
  set Buffer_GetMemoryLayout.minor_to_major %args %order
  set Buffer_GetMemoryLayout.rank %args %rank
  set Buffer_GetMemoryLayout.tiles %args null
  set Buffer_GetMemoryLayout.tile_sizes %args null
  set Buffer_GetMemoryLayout.num_tiles %args 0
  ret ptr null
}

define internal ptr @copy.of(ptr %buffer) {
  %type = get Buffer.type %buffer
  %dims = get Buffer.dims %buffer
  %rank = get Buffer.num_dims %buffer
  %bytes = get Buffer.size %buffer
  %device = get Buffer.device %buffer
  %copy = call ptr @new.buffer(
    i32 %type, ptr %dims, i64 %rank, i64 %bytes, ptr null, ptr %device)
  %none = icmp eq ptr %copy, null
  br i1 %none, label %done, label %fill
fill:
  %from = get Buffer.data %buffer
  %to = get Buffer.data %copy
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %done
done:
  ret ptr %copy
}

define ptr @Buffer_CopyToDevice(ptr %args) {
  %buffer = get Buffer_CopyToDevice.buffer %args
  %copy = call ptr @copy.of(ptr %buffer)
  set Buffer_CopyToDevice.copy %args %copy
  ret ptr null
}

define ptr @Buffer_CopyToMemory(ptr %args) {
  %buffer = get Buffer_CopyToMemory.buffer %args
  %copy = call ptr @copy.of(ptr %buffer)
  set Buffer_CopyToMemory.copy %args %copy
  ret ptr null
}
"""
"""Errors, events, and what buffers do for themselves."""
