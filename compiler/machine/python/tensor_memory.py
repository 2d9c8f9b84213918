"""What the entry for tensors does with one, in LLVM IR: read an integer, ask how many threads
compute, find the memory of a tensor, check how it is laid out, make memory for a new one.

i1 @integer_of(ptr object, ptr to)
i1 @threads_fit(ptr exchange)
i1 @memory_of(ptr exchange, ptr operand, ptr object, ptr memory)
i1 @lies(ptr tensor, ptr order, ptr memory, ptr symbols, i64 count, ptr to)
ptr @new_memory(ptr table, ptr tensor, ptr output, ptr symbols, ptr shape)
void @drop_memory(ptr made, i64 count)
"""

from __future__ import annotations

from typing import Final

TENSOR_MEMORY_IR: Final = """
; version, object's tensor, tensor's object, operands, dtypes and orders of outputs, results, count
; of results, count of arguments, type of tensors, of parameters, is_neg, threads of a call, or
; null, how many these have to be, spare memory
%exchange = type {
  i64, ptr, ptr, ptr, ptr, ptr, i64, i64, ptr, ptr, ptr, ptr, i64, ptr }
%operand = type { i64, i64, i64, ptr } ; argument, what it is, dtype, order of axes or null
%output = type { i64, i64, ptr } ; dtype, bytes of an element, order of axes or null
%result = type { i64, i64 } ; what it is, which
%view = type { %result, ptr, [3 x ptr] } ; what is viewed, a function, its operands behind that
%memory = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 } ; DLTensor
%managed = type { i64, ptr, ptr, i64, %memory, i64 } ; DLManagedTensorVersioned, bytes

declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i64 @PyLong_AsLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare i32 @PyObject_IsTrue(ptr)

; The integer of an object; false where it has none.
define internal i1 @integer_of(ptr %object, ptr %to) {
  %value = call i64 @PyLong_AsLong(ptr %object)
  store i64 %value, ptr %to
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %look, label %yes
look:
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %yes, label %clear
clear:
  call void @PyErr_Clear()
  ret i1 false
yes:
  ret i1 true
}

; Whether as many threads compute as the model has.
define internal i1 @threads_fit(ptr %exchange) {
  %ask.at = getelementptr %exchange, ptr %exchange, i64 0, i32 11
  %ask = load ptr, ptr %ask.at
  %any = icmp eq ptr %ask, null
  br i1 %any, label %yes, label %count
count:
  %told = call ptr @PyObject_CallNoArgs(ptr %ask)
  %failed = icmp eq ptr %told, null
  br i1 %failed, label %clear, label %compare
compare:
  %wanted.at = getelementptr %exchange, ptr %exchange, i64 0, i32 12
  %wanted = load i64, ptr %wanted.at
  %threads = call i64 @PyLong_AsLong(ptr %told)
  call void @Py_DecRef(ptr %told)
  %equal = icmp eq i64 %threads, %wanted
  ret i1 %equal
clear:
  call void @PyErr_Clear()
  ret i1 false
yes:
  ret i1 true
}

; The memory of an object of the framework's own types that is stored as it is, of the dtype that is
; wanted and aligned; false for others.
define internal i1 @memory_of(ptr %exchange, ptr %operand, ptr %object, ptr %memory) {
  %type.at = getelementptr i8, ptr %object, i64 $type
  %type = load ptr, ptr %type.at
  %tensors.at = getelementptr %exchange, ptr %exchange, i64 0, i32 8
  %tensors = load ptr, ptr %tensors.at
  %parameters.at = getelementptr %exchange, ptr %exchange, i64 0, i32 9
  %parameters = load ptr, ptr %parameters.at
  %is.tensor = icmp eq ptr %type, %tensors
  %is.parameter = icmp eq ptr %type, %parameters
  %own = or i1 %is.tensor, %is.parameter
  br i1 %own, label %ask, label %no
ask:
  %negative.at = getelementptr %exchange, ptr %exchange, i64 0, i32 10
  %negative = load ptr, ptr %negative.at
  %told = call ptr @PyObject_CallOneArg(ptr %negative, ptr %object)
  %silent = icmp eq ptr %told, null
  br i1 %silent, label %clear, label %truth
truth:
  %true = call i32 @PyObject_IsTrue(ptr %told)
  call void @Py_DecRef(ptr %told)
  %plain = icmp eq i32 %true, 0
  br i1 %plain, label %take, label %no
take:
  %from.at = getelementptr %exchange, ptr %exchange, i64 0, i32 1
  %from = load ptr, ptr %from.at
  %status = call i32 %from(ptr %object, ptr %memory)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %type.of, label %clear
type.of:
  %device.at = getelementptr %memory, ptr %memory, i64 0, i32 1
  %device = load i32, ptr %device.at
  %cpu = icmp eq i32 %device, 1
  %wanted.at = getelementptr %operand, ptr %operand, i64 0, i32 2
  %wanted = load i64, ptr %wanted.at
  %dtype.at = getelementptr %memory, ptr %memory, i64 0, i32 4
  %dtype32 = load i32, ptr %dtype.at
  %dtype = zext i32 %dtype32 to i64
  %dtypes = icmp eq i64 %dtype, %wanted
  %both = and i1 %cpu, %dtypes
  %data = load ptr, ptr %memory
  %offset.at = getelementptr %memory, ptr %memory, i64 0, i32 7
  %offset = load i64, ptr %offset.at
  %elements = getelementptr i8, ptr %data, i64 %offset
  store ptr %elements, ptr %memory
  %bits = lshr i64 %wanted, 11
  %bytes = and i64 %bits, 31
  %mask = sub i64 %bytes, 1
  %address = ptrtoint ptr %elements to i64
  %over = and i64 %address, %mask
  %aligned = icmp eq i64 %over, 0
  %all = and i1 %both, %aligned
  ret i1 %all
clear:
  call void @PyErr_Clear()
  ret i1 false
no:
  ret i1 false
}

; Whether a tensor's sizes are those of the table and its elements dense in the order of the axes,
; where there are any. Symbols that are still -1 are bound to its sizes, and the sizes in the order
; are written.
define internal i1 @lies(ptr %tensor, ptr %order, ptr %memory, ptr %symbols, i64 %count, ptr %to) {
entry:
  %rank.at = getelementptr %memory, ptr %memory, i64 0, i32 3
  %rank32 = load i32, ptr %rank.at
  %rank = sext i32 %rank32 to i64
  %wanted.at = getelementptr %tensor, ptr %tensor, i64 0, i32 1
  %wanted = load i64, ptr %wanted.at
  %ranks = icmp eq i64 %rank, %wanted
  %dims.at = getelementptr %memory, ptr %memory, i64 0, i32 5
  %dims = load ptr, ptr %dims.at
  %strides.at = getelementptr %memory, ptr %memory, i64 0, i32 6
  %strides = load ptr, ptr %strides.at
  %sizes.at = getelementptr %tensor, ptr %tensor, i64 0, i32 2
  %sizes = load ptr, ptr %sizes.at
  %in.order = icmp eq ptr %order, null
  br i1 %ranks, label %axis, label %no
axis: ; from the fastest to the slowest
  %left = phi i64 [ %rank, %entry ], [ %number, %fits ]
  %expected = phi i64 [ 1, %entry ], [ %expected.next, %fits ]
  %dense = phi i1 [ true, %entry ], [ %dense.next, %fits ]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %all, label %which
which:
  %number = sub i64 %left, 1
  br i1 %in.order, label %compare, label %ordered
ordered:
  %place.at = getelementptr i64, ptr %order, i64 %number
  %place = load i64, ptr %place.at
  br label %compare
compare:
  %at = phi i64 [ %number, %which ], [ %place, %ordered ]
  %given.at = getelementptr i64, ptr %dims, i64 %at
  %given = load i64, ptr %given.at
  %stride.at = getelementptr i64, ptr %strides, i64 %at
  %stride = load i64, ptr %stride.at
  %shape.at = getelementptr i64, ptr %to, i64 %number
  store i64 %given, ptr %shape.at
  %size.at = getelementptr i64, ptr %sizes, i64 %number
  %size = load i64, ptr %size.at
  %agrees = call i1 @fits(i64 %size, i64 %given, ptr %symbols, i64 %count)
  br i1 %agrees, label %fits, label %no
fits:
  %single = icmp eq i64 %given, 1
  %follows = icmp eq i64 %stride, %expected
  %either = or i1 %single, %follows
  %dense.next = and i1 %dense, %either
  %expected.next = mul i64 %expected, %given
  br label %axis
all:
  %empty = icmp eq i64 %expected, 0
  %is = or i1 %empty, %dense
  %data = load ptr, ptr %memory
  %exists = icmp ne ptr %data, null
  %there = or i1 %empty, %exists
  %good = and i1 %is, %there
  ret i1 %good
no:
  ret i1 false
}

define internal void @drop_small(ptr %managed) {
  call void @free(ptr %managed)
  ret void
}

define internal void @drop_large(ptr %managed) {
  %spare.at = getelementptr %managed, ptr %managed, i64 0, i32 1
  %spare = load ptr, ptr %spare.at
  %data.at = getelementptr %managed, ptr %managed, i64 0, i32 4, i32 0
  %data = load ptr, ptr %data.at
  %bytes.at = getelementptr %managed, ptr %managed, i64 0, i32 5
  %bytes = load i64, ptr %bytes.at
  call void @$release(ptr %spare, ptr %data, i64 %bytes)
  call void @free(ptr %managed)
  ret void
}

; Memory for an output, as DLPack hands it on: sizes and strides behind the structure, and behind
; these the elements of a small one; null for a size below 0, or without memory.
define internal ptr @new_memory(ptr %table, ptr %tensor, ptr %output, ptr %symbols, ptr %shape) {
entry:
  %exchange.at = getelementptr %table, ptr %table, i64 0, i32 20
  %exchange = load ptr, ptr %exchange.at
  %depth.at = getelementptr %table, ptr %table, i64 0, i32 15
  %depth = load i64, ptr %depth.at
  %stack = alloca i64, i64 %depth, align 8
  %rank.at = getelementptr %tensor, ptr %tensor, i64 0, i32 1
  %rank = load i64, ptr %rank.at
  %elements = call i64 @shape_of(
    ptr %table, ptr %tensor, ptr %symbols, ptr %stack, ptr %shape)
  %negative = icmp slt i64 %elements, 0
  br i1 %negative, label %none, label %weigh
weigh:
  %item.at = getelementptr %output, ptr %output, i64 0, i32 1
  %item = load i64, ptr %item.at
  %bytes = mul i64 %elements, %item
  %axes = shl i64 %rank, 4
  %head.size = ptrtoint ptr getelementptr (%managed, ptr null, i64 1) to i64
  %head = add i64 %head.size, %axes
  %small = icmp ult i64 %bytes, $least
  %behind = add i64 %bytes, 64
  %rest = select i1 %small, i64 %behind, i64 0
  %room = add i64 %head, %rest
  %managed = call ptr @malloc(i64 %room)
  %no.head = icmp eq ptr %managed, null
  br i1 %no.head, label %none, label %place
place:
  %spare.at = getelementptr %exchange, ptr %exchange, i64 0, i32 13
  %spare = load ptr, ptr %spare.at
  br i1 %small, label %inside, label %apart
inside:
  %start = ptrtoint ptr %managed to i64
  %end = add i64 %start, %head
  %up = add i64 %end, 63
  %line = and i64 %up, -64
  %own = inttoptr i64 %line to ptr
  br label %fill
apart:
  %block = call ptr @$allocate(ptr %spare, i64 %bytes)
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %poor, label %fill
poor:
  call void @free(ptr %managed)
  br label %none
fill:
  %data = phi ptr [ %own, %inside ], [ %block, %apart ]
  %drop = select i1 %small, ptr @drop_small, ptr @drop_large
  %dims = getelementptr %managed, ptr %managed, i64 1
  %strides = getelementptr i64, ptr %dims, i64 %rank
  %version = load i64, ptr %exchange
  store i64 %version, ptr %managed
  %context.at = getelementptr %managed, ptr %managed, i64 0, i32 1
  store ptr %spare, ptr %context.at
  %drop.at = getelementptr %managed, ptr %managed, i64 0, i32 2
  store ptr %drop, ptr %drop.at
  %flags.at = getelementptr %managed, ptr %managed, i64 0, i32 3
  store i64 0, ptr %flags.at
  %memory = getelementptr %managed, ptr %managed, i64 0, i32 4
  store ptr %data, ptr %memory
  %device.at = getelementptr %memory, ptr %memory, i64 0, i32 1
  store i32 1, ptr %device.at
  %device.number.at = getelementptr %memory, ptr %memory, i64 0, i32 2
  store i32 0, ptr %device.number.at
  %rank32 = trunc i64 %rank to i32
  %ndim.at = getelementptr %memory, ptr %memory, i64 0, i32 3
  store i32 %rank32, ptr %ndim.at
  %dtype = load i64, ptr %output
  %dtype32 = trunc i64 %dtype to i32
  %dtype.at = getelementptr %memory, ptr %memory, i64 0, i32 4
  store i32 %dtype32, ptr %dtype.at
  %dims.at = getelementptr %memory, ptr %memory, i64 0, i32 5
  store ptr %dims, ptr %dims.at
  %strides.at = getelementptr %memory, ptr %memory, i64 0, i32 6
  store ptr %strides, ptr %strides.at
  %offset.at = getelementptr %memory, ptr %memory, i64 0, i32 7
  store i64 0, ptr %offset.at
  %bytes.at = getelementptr %managed, ptr %managed, i64 0, i32 5
  store i64 %bytes, ptr %bytes.at
  %order.at = getelementptr %output, ptr %output, i64 0, i32 2
  %order = load ptr, ptr %order.at
  %in.order = icmp eq ptr %order, null
  br label %stride
stride: ; from the fastest axis to the slowest; no axis counts for less than one element
  %left = phi i64 [ %rank, %fill ], [ %last, %lay ]
  %step = phi i64 [ 1, %fill ], [ %step.next, %lay ]
  %all = icmp eq i64 %left, 0
  br i1 %all, label %give, label %which
which:
  %last = sub i64 %left, 1
  br i1 %in.order, label %lay, label %ordered
ordered:
  %ordered.at = getelementptr i64, ptr %order, i64 %last
  %ordered.axis = load i64, ptr %ordered.at
  br label %lay
lay:
  %to = phi i64 [ %last, %which ], [ %ordered.axis, %ordered ]
  %extent.at = getelementptr i64, ptr %shape, i64 %last
  %extent = load i64, ptr %extent.at
  %dim.at = getelementptr i64, ptr %dims, i64 %to
  store i64 %extent, ptr %dim.at
  %step.at = getelementptr i64, ptr %strides, i64 %to
  store i64 %step, ptr %step.at
  %counted = call i64 @llvm.smax.i64(i64 %extent, i64 1)
  %step.next = mul i64 %step, %counted
  br label %stride
give:
  ret ptr %managed
none:
  ret ptr null
}

; Gives back the memory of outputs that no tensor has taken.
define internal void @drop_memory(ptr %made, i64 %count) {
  br label %next
next:
  %number = phi i64 [ 0, %0 ], [ %after, %look ], [ %after, %drop ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %end, label %look
look:
  %at = getelementptr [2 x ptr], ptr %made, i64 %number, i32 0
  %managed = load ptr, ptr %at
  %after = add i64 %number, 1
  %none = icmp eq ptr %managed, null
  br i1 %none, label %next, label %drop
drop:
  %drop.at = getelementptr %managed, ptr %managed, i64 0, i32 2
  %function = load ptr, ptr %drop.at
  call void %function(ptr %managed)
  br label %next
end:
  ret void
}
"""
