"""Buffers, errors and events of the plugin, in LLVM IR with the shorthands of
`weft.compiler.machine.pjrt.code`: `get` and `set` of members, `error` with a code and a text.

A buffer is one block of its structure and its dims, and one of its elements. Calls are over when
they return, so that one event, which is always ready, stands for all.
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
  set Event_IsReady.is_ready %args 1
  ret ptr null
}

define ptr @Event_OnReady(ptr %args) {
  %callback = get Event_OnReady.callback %args
  %argument = get Event_OnReady.user_arg %args
  call void %callback(ptr null, ptr %argument)
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

TRANSFERS_IR: Final = """
; Whether strides, if any, are those of dense elements in row-major order.
define internal i1 @is.dense(ptr %dims, i64 %rank, ptr %strides, i64 %count, i64 %element) {
  %none = icmp eq i64 %count, 0
  br i1 %none, label %yes, label %begin
begin:
  %last = sub i64 %rank, 1
  br label %next
next:
  %at = phi i64 [ %last, %begin ], [ %at.next, %agrees ]
  %expected = phi i64 [ %element, %begin ], [ %whole, %agrees ]
  %over = icmp slt i64 %at, 0
  br i1 %over, label %yes, label %look
look:
  %dim.at = getelementptr i64, ptr %dims, i64 %at
  %dim = load i64, ptr %dim.at
  %empty = icmp eq i64 %dim, 0
  br i1 %empty, label %yes, label %compare
compare:
  %stride.at = getelementptr i64, ptr %strides, i64 %at
  %stride = load i64, ptr %stride.at
  %same = icmp eq i64 %stride, %expected
  %single = icmp eq i64 %dim, 1
  %fits = or i1 %same, %single
  br i1 %fits, label %agrees, label %no
agrees:
  %whole = mul i64 %expected, %dim
  %at.next = sub i64 %at, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

define ptr @Client_BufferFromHostBuffer(ptr %args) {
  %type = get Client_BufferFromHostBuffer.type %args
  %dims = get Client_BufferFromHostBuffer.dims %args
  %rank = get Client_BufferFromHostBuffer.num_dims %args
  %client = get Client_BufferFromHostBuffer.client %args
  %device = get Client.device %client
  %bytes = call i64 @bytes.of(i32 %type, ptr %dims, i64 %rank)
  %buffer = call ptr @new.buffer(
    i32 %type, ptr %dims, i64 %rank, i64 %bytes, ptr null, ptr %device)
  %none = icmp eq ptr %buffer, null
  br i1 %none, label %poor, label %look
look:
  %strides = get Client_BufferFromHostBuffer.strides %args
  %count = get Client_BufferFromHostBuffer.num_strides %args
  %size.at = getelementptr i8, ptr @element.bytes, i32 %type
  %size = load i8, ptr %size.at
  %element = zext i8 %size to i64
  %dense = call i1 @is.dense(ptr %dims, i64 %rank, ptr %strides, i64 %count, i64 %element)
  %to = get Buffer.data %buffer
  br i1 %dense, label %copy, label %strided
copy:
  %from = get Client_BufferFromHostBuffer.data %args
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %done
strided:
  %copy.strided = load ptr, ptr @copy.strided
  call void %copy.strided(ptr %args, ptr %to, i64 %element)
  br label %done
done:
  set Client_BufferFromHostBuffer.done %args @ready
  set Client_BufferFromHostBuffer.buffer %args %buffer
  ret ptr null
poor:
  %error = error 8 "a buffer requires memory, got none"
  ret ptr %error
}

define ptr @Client_CreateViewOfDeviceBuffer(ptr %args) {
  %type = get Client_CreateViewOfDeviceBuffer.type %args
  %dims = get Client_CreateViewOfDeviceBuffer.dims %args
  %rank = get Client_CreateViewOfDeviceBuffer.num_dims %args
  %client = get Client_CreateViewOfDeviceBuffer.client %args
  %data = get Client_CreateViewOfDeviceBuffer.data %args
  %device = get Client.device %client
  %bytes = call i64 @bytes.of(i32 %type, ptr %dims, i64 %rank)
  %buffer = call ptr @new.buffer(
    i32 %type, ptr %dims, i64 %rank, i64 %bytes, ptr %data, ptr %device)
  %on.delete = get Client_CreateViewOfDeviceBuffer.on_delete %args
  %argument = get Client_CreateViewOfDeviceBuffer.on_delete_arg %args
  %none = icmp eq ptr %on.delete, null
  %callback = select i1 %none, ptr @keep, ptr %on.delete
  set Buffer.on_delete %buffer %callback
  set Buffer.on_delete_arg %buffer %argument
  set Client_CreateViewOfDeviceBuffer.buffer %args %buffer
  ret ptr null
}

define internal void @keep(ptr %data, ptr %argument) {
  ret void
}

; Whether a layout of the host, if any, is row-major.
define internal i1 @is.row.major(ptr %layout) {
  %none = icmp eq ptr %layout, null
  br i1 %none, label %yes, label %typed
typed:
  %type = get HostLayout.layout_type %layout
  %tiled = icmp eq i32 %type, 0
  br i1 %tiled, label %begin, label %no
begin:
  %rank = get HostLayout.rank %layout
  %order = get HostLayout.minor_to_major %layout
  br label %next
next:
  %at = phi i64 [ 0, %begin ], [ %at.next, %compare ]
  %over = icmp eq i64 %at, %rank
  br i1 %over, label %yes, label %compare
compare:
  %axis.at = getelementptr i64, ptr %order, i64 %at
  %axis = load i64, ptr %axis.at
  %at.next = add i64 %at, 1
  %expected = sub i64 %rank, %at.next
  %same = icmp eq i64 %axis, %expected
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define ptr @Buffer_ToHostBuffer(ptr %args) {
  %buffer = get Buffer_ToHostBuffer.buffer %args
  %bytes = get Buffer.size %buffer
  %from = get Buffer.data %buffer
  %to = get Buffer_ToHostBuffer.data %args
  %asks = icmp eq ptr %to, null
  br i1 %asks, label %answer, label %check
answer:
  set Buffer_ToHostBuffer.size %args %bytes
  ret ptr null
check:
  %gone = icmp eq ptr %from, null
  br i1 %gone, label %deleted, label %arrange
deleted:
  %error = error 3 "a copy requires a buffer, got one that was deleted or donated"
  ret ptr %error
arrange:
  %layout = get Buffer_ToHostBuffer.layout %args
  %plain = call i1 @is.row.major(ptr %layout)
  br i1 %plain, label %copy, label %refuse
refuse:
  %other = error 12 "a copy to the host requires a row-major layout, got another"
  ret ptr %other
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  set Buffer_ToHostBuffer.event %args @ready
  ret ptr null
}

define ptr @Buffer_CopyRawToHost(ptr %args) {
  %buffer = get Buffer_CopyRawToHost.buffer %args
  %data = get Buffer.data %buffer
  %to = get Buffer_CopyRawToHost.data %args
  %offset = get Buffer_CopyRawToHost.offset %args
  %bytes = get Buffer_CopyRawToHost.size %args
  %from = getelementptr i8, ptr %data, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  set Buffer_CopyRawToHost.event %args @ready
  ret ptr null
}
"""
"""Elements from the host's memory and back."""
