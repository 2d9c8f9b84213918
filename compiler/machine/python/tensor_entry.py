"""The function that calls a model with the tensors of a framework, in LLVM IR: memory by DLPack's
exchange functions, and new tensors back.

It takes one list, which it empties, and gives a list. The table is that of
`weft.compiler.machine.python.entry`, with the framework's functions, the operands and the results
behind it; what it does not know it hands over to Python too.

ptr @weft_tensor_call(ptr self, ptr arguments, i64 given, ptr names)
"""

from __future__ import annotations

from typing import Final

OPERANDS: Final = ("tensor", "integer", "float")
"""What an operand is: a tensor, a size, a number."""

RESULTS: Final = ("output", "argument", "size", "object", "view")
"""What a result is: an output of the model, an argument, a number of the table, any object, or what
a function makes of an output or argument.
"""

TENSORS_IR: Final = """
define ptr @$tensors(ptr %self, ptr %given.arguments, i64 %given, ptr %names) {
entry:
  %table = call ptr @PyByteArray_AsString(ptr %self)
  %exchange.at = getelementptr %table, ptr %table, i64 0, i32 20
  %exchange = load ptr, ptr %exchange.at
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
  %operands.at = getelementptr %exchange, ptr %exchange, i64 0, i32 3
  %operands = load ptr, ptr %operands.at
  %descriptions.at = getelementptr %exchange, ptr %exchange, i64 0, i32 4
  %descriptions = load ptr, ptr %descriptions.at
  %arguments.at = getelementptr %exchange, ptr %exchange, i64 0, i32 7
  %arguments = load i64, ptr %arguments.at
  %call = alloca %call, align 8
  %memory = alloca %memory, align 8
  %integer = alloca i64, align 8
  %read = alloca ptr, i64 %inputs, align 8
  %numbers = alloca double, i64 %inputs, align 8
  %written = alloca ptr, i64 %outputs, align 8
  %made = alloca [2 x ptr], i64 %outputs, align 8 ; memory, and the tensor that took it
  %symbols = alloca i64, i64 %count, align 8
  %stack = alloca i64, i64 %depth, align 8
  %shape = alloca i64, i64 $most_dims, align 8
  %unnamed = icmp eq ptr %names, null
  %single = icmp eq i64 %given, 1
  %plain = and i1 %unnamed, %single
  br i1 %plain, label %measure, label %odd
measure:
  %list = load ptr, ptr %given.arguments
  %length = call i64 @PyList_Size(ptr %list)
  %complete = icmp eq i64 %length, %arguments
  br i1 %complete, label %threads, label %other
other:
  call void @PyErr_Clear() ; it was no list
  br label %odd
threads:
  %threads.fit = call i1 @threads_fit(ptr %exchange)
  br i1 %threads.fit, label %unbind, label %odd
unbind:
  %unbound = phi i64 [ 0, %threads ], [ %unbound.next, %unbind.one ]
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
  br i1 %all.accepted, label %size, label %look
look:
  %tensor = getelementptr %tensor, ptr %tensors, i64 %number
  %operand = getelementptr %operand, ptr %operands, i64 %number
  %position = load i64, ptr %operand
  %object = call ptr @PyList_GetItem(ptr %list, i64 %position)
  %kind.at = getelementptr %operand, ptr %operand, i64 0, i32 1
  %kind = load i64, ptr %kind.at
  switch i64 %kind, label %take [
    i64 1, label %bind
    i64 2, label %number.of ]
take:
  %is.memory = call i1 @memory_of(ptr %exchange, ptr %operand, ptr %object, ptr %memory)
  br i1 %is.memory, label %lay, label %odd
lay:
  %order.at = getelementptr %operand, ptr %operand, i64 0, i32 3
  %order = load ptr, ptr %order.at
  %lies = call i1 @lies(
    ptr %tensor, ptr %order, ptr %memory, ptr %symbols, i64 %count, ptr %shape)
  %own = load ptr, ptr %memory
  %nowhere = icmp eq ptr %own, null ; without elements
  %elements = select i1 %nowhere, ptr %memory, ptr %own
  br i1 %lies, label %accepted, label %odd
bind:
  %has.integer = call i1 @integer_of(ptr %object, ptr %integer)
  br i1 %has.integer, label %bound, label %odd
bound:
  %sizes.at = getelementptr %tensor, ptr %tensor, i64 0, i32 2
  %sizes = load ptr, ptr %sizes.at
  %wanted = load i64, ptr %sizes
  %value = load i64, ptr %integer
  %fits = call i1 @fits(i64 %wanted, i64 %value, ptr %symbols, i64 %count)
  %negative = icmp slt i64 %value, 0
  %is.size = xor i1 %negative, true
  %is.bound = and i1 %fits, %is.size
  br i1 %is.bound, label %accepted, label %odd
number.of:
  %real = call double @PyFloat_AsDouble(ptr %object)
  %failed = call ptr @PyErr_Occurred()
  %is.real = icmp eq ptr %failed, null
  %number.at = getelementptr double, ptr %numbers, i64 %number
  store double %real, ptr %number.at
  br i1 %is.real, label %accepted, label %unclear
unclear:
  call void @PyErr_Clear()
  br label %odd
accepted:
  %elements.of = phi ptr [ %elements, %lay ], [ %integer, %bound ], [ %number.at, %number.of ]
  %read.at = getelementptr ptr, ptr %read, i64 %number
  store ptr %elements.of, ptr %read.at
  %number.next = add i64 %number, 1
  br label %argument
size: ; which says also whether the sizes are allowed, before anything is computed from them
  %bytes = call i64 @workspace_bytes(ptr %table, ptr %symbols)
  %refused = icmp eq i64 %bytes, -1
  br i1 %refused, label %odd, label %derived
derived:
  %has.derived.at = getelementptr %table, ptr %table, i64 0, i32 16
  %has.derived = load i64, ptr %has.derived.at
  %must.agree = icmp ne i64 %has.derived, 0
  br i1 %must.agree, label %again, label %output
again:
  %second = phi i64 [ 0, %derived ], [ %second.next, %check ], [ %second.next, %check.one ]
  %all.agree = icmp eq i64 %second, %inputs
  br i1 %all.agree, label %output, label %check
check:
  %checked = getelementptr %tensor, ptr %tensors, i64 %second
  %checked.operand = getelementptr %operand, ptr %operands, i64 %second
  %checked.position = load i64, ptr %checked.operand
  %checked.kind.at = getelementptr %operand, ptr %checked.operand, i64 0, i32 1
  %checked.kind = load i64, ptr %checked.kind.at
  %is.tensor = icmp eq i64 %checked.kind, 0
  %second.next = add i64 %second, 1
  br i1 %is.tensor, label %check.one, label %again
check.one:
  %checked.object = call ptr @PyList_GetItem(ptr %list, i64 %checked.position)
  %same = call i1 @memory_of(
    ptr %exchange, ptr %checked.operand, ptr %checked.object, ptr %memory)
  %checked.order.at = getelementptr %operand, ptr %checked.operand, i64 0, i32 3
  %checked.order = load ptr, ptr %checked.order.at
  %laid.out = call i1 @lies(
    ptr %checked, ptr %checked.order, ptr %memory, ptr %symbols, i64 %count, ptr %shape)
  %agree = call i1 @agrees(ptr %table, ptr %checked, ptr %shape, ptr %symbols, ptr %stack)
  br i1 %agree, label %again, label %odd
output:
  %place = phi i64 [ 0, %derived ], [ 0, %again ], [ %place.next, %keep ]
  %all.made = icmp eq i64 %place, %outputs
  br i1 %all.made, label %work, label %make
make:
  %result = getelementptr %tensor, ptr %results, i64 %place
  %donor.at = getelementptr %tensor, ptr %result, i64 0, i32 4
  %donor = load i64, ptr %donor.at
  %donated = icmp sge i64 %donor, 0
  br i1 %donated, label %lend, label %new
lend:
  %lent.at = getelementptr ptr, ptr %read, i64 %donor
  %lent = load ptr, ptr %lent.at
  br label %keep
new:
  %description = getelementptr %output, ptr %descriptions, i64 %place
  %managed = call ptr @new_memory(
    ptr %table, ptr %result, ptr %description, ptr %symbols, ptr %shape)
  %not.made = icmp eq ptr %managed, null
  br i1 %not.made, label %spoiled, label %data
data:
  %data.at = getelementptr %managed, ptr %managed, i64 0, i32 4, i32 0
  %data.of = load ptr, ptr %data.at
  br label %keep
keep:
  %answer = phi ptr [ %lent, %lend ], [ %data.of, %data ]
  %owner = phi ptr [ null, %lend ], [ %managed, %data ]
  %written.at = getelementptr ptr, ptr %written, i64 %place
  store ptr %answer, ptr %written.at
  %made.at = getelementptr [2 x ptr], ptr %made, i64 %place, i32 0
  store ptr %owner, ptr %made.at
  %object.at = getelementptr [2 x ptr], ptr %made, i64 %place, i32 1
  store ptr null, ptr %object.at
  %place.next = add i64 %place, 1
  br label %output
work:
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
  br i1 %well, label %answers, label %fail
answers:
  %results.at = getelementptr %exchange, ptr %exchange, i64 0, i32 5
  %answer.kinds = load ptr, ptr %results.at
  %wanted.at = getelementptr %exchange, ptr %exchange, i64 0, i32 6
  %wanted.results = load i64, ptr %wanted.at
  %answer.list = call ptr @PyList_New(i64 %wanted.results)
  %no.list = icmp eq ptr %answer.list, null
  br i1 %no.list, label %lost, label %give
give:
  %given.number = phi i64 [ 0, %answers ], [ %given.next, %hand ]
  %all.given = icmp eq i64 %given.number, %wanted.results
  br i1 %all.given, label %end, label %one
one:
  %result.of = getelementptr %result, ptr %answer.kinds, i64 %given.number
  %one.object = call ptr @answer(
    ptr %table, ptr %result.of, ptr %list, ptr %made, ptr %symbols)
  %no.object = icmp eq ptr %one.object, null
  br i1 %no.object, label %half, label %hand
hand:
  %set = call i32 @PyList_SetItem(ptr %answer.list, i64 %given.number, ptr %one.object)
  %given.next = add i64 %given.number, 1
  br label %give
end:
  %emptied = call i32 @PyList_SetSlice(ptr %list, i64 0, i64 %length, ptr null)
  ret ptr %answer.list
half:
  call void @Py_DecRef(ptr %answer.list)
  br label %lost
lost:
  call void @drop_memory(ptr %made, i64 %outputs)
  ret ptr null
fail:
  call void @drop_memory(ptr %made, i64 %outputs)
  %raised = call ptr @raise(ptr %table, i32 %status)
  ret ptr %raised
poor:
  call void @drop_memory(ptr %made, i64 %outputs)
  %out.of.memory = call ptr @PyErr_NoMemory()
  ret ptr %out.of.memory
spoiled:
  call void @drop_memory(ptr %made, i64 %place)
  br label %odd
odd:
  %otherwise.at = getelementptr %table, ptr %table, i64 0, i32 9
  %otherwise = load ptr, ptr %otherwise.at
  %slow = call ptr @PyObject_Vectorcall(
    ptr %otherwise, ptr %given.arguments, i64 %given, ptr %names)
  ret ptr %slow
}

; A new reference to a result. The memory of an output becomes a tensor when it is first asked for.
define internal ptr @answer(ptr %table, ptr %result, ptr %list, ptr %made, ptr %symbols) {
  %kind = load i64, ptr %result
  %which.at = getelementptr %result, ptr %result, i64 0, i32 1
  %which = load i64, ptr %which.at
  switch i64 %kind, label %object [
    i64 0, label %output
    i64 1, label %argument
    i64 2, label %size
    i64 4, label %view ]
object:
  %known = inttoptr i64 %which to ptr
  call void @Py_IncRef(ptr %known)
  ret ptr %known
argument:
  %own = call ptr @PyList_GetItem(ptr %list, i64 %which)
  call void @Py_IncRef(ptr %own)
  ret ptr %own
size:
  %depth.at = getelementptr %table, ptr %table, i64 0, i32 15
  %depth = load i64, ptr %depth.at
  %stack = alloca i64, i64 %depth, align 8
  %number = call i64 @size(ptr %table, i64 %which, ptr %symbols, ptr %stack)
  %integer = call ptr @PyLong_FromLong(i64 %number)
  ret ptr %integer
view: ; a function's object, of a result and of objects behind it
  %source = inttoptr i64 %which to ptr
  %viewed = call ptr @answer(
    ptr %table, ptr %source, ptr %list, ptr %made, ptr %symbols)
  %unmade = icmp eq ptr %viewed, null
  br i1 %unmade, label %fail, label %call
call:
  %function.at = getelementptr %view, ptr %source, i64 0, i32 1
  %function = load ptr, ptr %function.at
  %rest = getelementptr %view, ptr %source, i64 0, i32 2
  %others = load [3 x ptr], ptr %rest
  %operands = alloca [4 x ptr], align 8
  store ptr %viewed, ptr %operands
  %behind = getelementptr ptr, ptr %operands, i64 1
  store [3 x ptr] %others, ptr %behind
  %seen = call ptr @PyObject_Vectorcall(ptr %function, ptr %operands, i64 4, ptr null)
  call void @Py_DecRef(ptr %viewed)
  ret ptr %seen
output:
  %object.at = getelementptr [2 x ptr], ptr %made, i64 %which, i32 1
  %there = load ptr, ptr %object.at
  %new = icmp eq ptr %there, null
  br i1 %new, label %make, label %again
again:
  call void @Py_IncRef(ptr %there)
  ret ptr %there
make:
  %made.at = getelementptr [2 x ptr], ptr %made, i64 %which, i32 0
  %managed = load ptr, ptr %made.at
  store ptr null, ptr %made.at
  %exchange.at = getelementptr %table, ptr %table, i64 0, i32 20
  %exchange = load ptr, ptr %exchange.at
  %to.at = getelementptr %exchange, ptr %exchange, i64 0, i32 2
  %to = load ptr, ptr %to.at
  %status = call i32 %to(ptr %managed, ptr %object.at)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %give, label %fail
give:
  %tensor = load ptr, ptr %object.at
  ret ptr %tensor
fail:
  ret ptr null
}
"""
