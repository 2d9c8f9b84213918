"""Transfers of the plugin between the host's arrays and buffers, in LLVM IR with the shorthands of
`weft.compiler.machine.pjrt.code`. An array that stays as it is becomes a buffer where it lies.
"""

from __future__ import annotations

from typing import Final

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
  %strides = get Client_BufferFromHostBuffer.strides %args
  %count = get Client_BufferFromHostBuffer.num_strides %args
  %size.at = getelementptr i8, ptr @element.bytes, i32 %type
  %size = load i8, ptr %size.at
  %element = zext i8 %size to i64
  %dense = call i1 @is.dense(ptr %dims, i64 %rank, ptr %strides, i64 %count, i64 %element)
  %from = get Client_BufferFromHostBuffer.data %args
  %semantics = get Client_BufferFromHostBuffer.semantics %args
  %stays = icmp sge i32 %semantics, 2
  %address = ptrtoint ptr %from to i64
  %below = sub i64 %element, 1
  %odd = and i64 %address, %below
  %aligned = icmp eq i64 %odd, 0
  %some = icmp ne i64 %bytes, 0
  %fits = and i1 %dense, %aligned
  %worth = and i1 %stays, %some
  %shared = and i1 %fits, %worth
  %given = select i1 %shared, ptr %from, ptr null
  %buffer = call ptr @new.buffer(
    i32 %type, ptr %dims, i64 %rank, i64 %bytes, ptr %given, ptr %device)
  %none = icmp eq ptr %buffer, null
  br i1 %none, label %poor, label %look
look:
  %to = get Buffer.data %buffer
  br i1 %shared, label %share, label %transfer
share:
  %event = call ptr @malloc(i64 24)
  %event.0 = getelementptr i64, ptr %event, i64 0
  store i64 1, ptr %event.0
  %event.1 = getelementptr i64, ptr %event, i64 1
  store ptr null, ptr %event.1
  set Buffer.on_delete %buffer @tell.event
  set Buffer.on_delete_arg %buffer %event
  br label %done
transfer:
  br i1 %dense, label %copy, label %strided
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %done
strided:
  %copy.strided = load ptr, ptr @copy.strided
  call void %copy.strided(ptr %args, ptr %to, i64 %element)
  br label %done
done:
  %finished = phi ptr [ %event, %share ], [ @ready, %copy ], [ @ready, %strided ]
  set Client_BufferFromHostBuffer.done %args %finished
  set Client_BufferFromHostBuffer.buffer %args %buffer
  ret ptr null
poor:
  %error = error 8 "a buffer requires memory, got none"
  ret ptr %error
}

; The end of a buffer that has the host's own memory: an event is 1, what hears of it, and its
; argument, and goes with the buffer. JAX asks to hear before it has the buffer.
define internal void @tell.event(ptr %data, ptr %event) {
  %callback.at = getelementptr ptr, ptr %event, i64 1
  %callback = load ptr, ptr %callback.at
  %argument.at = getelementptr ptr, ptr %event, i64 2
  %argument = load ptr, ptr %argument.at
  %unheard = icmp eq ptr %callback, null
  br i1 %unheard, label %done, label %tell
tell:
  call void %callback(ptr null, ptr %argument)
  br label %done
done:
  call void @free(ptr %event)
  ret void
}

define ptr @Event_OnReady(ptr %args) {
  %event = get Event_OnReady.event %args
  %callback = get Event_OnReady.callback %args
  %argument = get Event_OnReady.user_arg %args
  %state = load i64, ptr %event
  %is.ready = icmp eq i64 %state, 0
  br i1 %is.ready, label %now, label %later
now:
  call void %callback(ptr null, ptr %argument)
  ret ptr null
later:
  %callback.at = getelementptr ptr, ptr %event, i64 1
  store ptr %callback, ptr %callback.at
  %argument.at = getelementptr ptr, ptr %event, i64 2
  store ptr %argument, ptr %argument.at
  ret ptr null
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
