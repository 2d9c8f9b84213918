"""What the entry for Python does with arrays, in LLVM IR: find those that are given by name, accept
one, work out sizes, make one.

i1 @sort_by_name(ptr table, ptr arguments, i64 given, ptr names, ptr sorted)
i1 @accept(ptr table, ptr tensor, ptr object, ptr symbols, i64 count)
i64 @size(ptr table, i64 code, ptr symbols, ptr stack)
i1 @fits(i64 size, i64 given, ptr symbols, i64 count)
i1 @agrees(ptr table, ptr tensor, ptr shape, ptr symbols, ptr stack)
i64 @shape_of(ptr table, ptr tensor, ptr symbols, ptr stack, ptr shape)
ptr @new_output(ptr table, ptr tensor, ptr symbols, ptr stack, ptr shape)
"""

ARRAYS_IR = """
; The arguments in the order of the inputs: those by position, and behind them those by name. False
; where an input has none or an argument is no input. The search for a name starts behind the last
; that was found: names in the order of the inputs are found at once.
define internal i1 @sort_by_name(ptr %table, ptr %arguments, i64 %given, ptr %names, ptr %sorted) {
entry:
  %inputs.at = getelementptr %table, ptr %table, i64 0, i32 3
  %inputs = load i64, ptr %inputs.at
  %spellings.at = getelementptr %table, ptr %table, i64 0, i32 19
  %spellings = load ptr, ptr %spellings.at
  %named = call i64 @PyTuple_Size(ptr %names)
  %total = add i64 %given, %named
  %complete = icmp eq i64 %total, %inputs
  br i1 %complete, label %input, label %no
input:
  %number = phi i64 [ 0, %entry ], [ %number.next, %put ]
  %start = phi i64 [ 0, %entry ], [ %start.next, %put ]
  %done = icmp eq i64 %number, %inputs
  br i1 %done, label %yes, label %which
which:
  %spelling.at = getelementptr ptr, ptr %spellings, i64 %number
  %spelling = load ptr, ptr %spelling.at
  %positional = icmp ult i64 %number, %given
  br i1 %positional, label %put, label %search
search:
  %tried = phi i64 [ 0, %which ], [ %tried.next, %compare ]
  %exhausted = icmp eq i64 %tried, %named
  br i1 %exhausted, label %no, label %compare
compare:
  %ahead = add i64 %start, %tried
  %candidate = urem i64 %ahead, %named
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %candidate)
  %order = call i32 @PyUnicode_Compare(ptr %name, ptr %spelling)
  %same = icmp eq i32 %order, 0
  %tried.next = add i64 %tried, 1
  br i1 %same, label %found, label %search
found:
  %behind = add i64 %given, %candidate
  %after = add i64 %candidate, 1
  br label %put
put:
  %source = phi i64 [ %number, %which ], [ %behind, %found ]
  %start.next = phi i64 [ %start, %which ], [ %after, %found ]
  %source.at = getelementptr ptr, ptr %arguments, i64 %source
  %argument = load ptr, ptr %source.at
  %sorted.at = getelementptr ptr, ptr %sorted, i64 %number
  store ptr %argument, ptr %sorted.at
  %number.next = add i64 %number, 1
  br label %input
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether a size of the table is one that was given. A symbol that is still -1 is bound to it.
define internal i1 @fits(i64 %size, i64 %given, ptr %symbols, i64 %count) alwaysinline {
  %equal = icmp eq i64 %given, %size
  br i1 %equal, label %yes, label %varies
varies:
  %constant = icmp sge i64 %size, 0
  br i1 %constant, label %no, label %which
which:
  %symbol = xor i64 %size, -1
  %free = icmp ult i64 %symbol, %count
  br i1 %free, label %bound, label %yes ; a derived size is checked when all symbols are known
bound:
  %value.at = getelementptr i64, ptr %symbols, i64 %symbol
  %value = load i64, ptr %value.at
  %new = icmp eq i64 %value, -1
  br i1 %new, label %bind, label %same
bind:
  store i64 %given, ptr %value.at
  br label %yes
same:
  %agrees = icmp eq i64 %value, %given
  br i1 %agrees, label %yes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether an argument is an array that can be passed on as it is. Symbols that are still -1 are
; bound to its sizes.
define internal i1 @accept(ptr %table, ptr %tensor, ptr %object, ptr %symbols, i64 %count) {
  %type.at = getelementptr i8, ptr %object, i64 $type
  %type = load ptr, ptr %type.at
  %array.type.at = getelementptr %table, ptr %table, i64 0, i32 12
  %array.type = load ptr, ptr %array.type.at
  %is.array = icmp eq ptr %type, %array.type
  br i1 %is.array, label %array, label %no
array:
  %dtype.at = getelementptr %array, ptr %object, i64 0, i32 6
  %dtype = load ptr, ptr %dtype.at
  %wanted = load ptr, ptr %tensor
  %dtypes = icmp eq ptr %dtype, %wanted
  %flags.at = getelementptr %array, ptr %object, i64 0, i32 7
  %flags = load i32, ptr %flags.at
  %needed.at = getelementptr %tensor, ptr %tensor, i64 0, i32 3
  %needed = load i32, ptr %needed.at
  %has = and i32 %flags, %needed
  %dense = icmp eq i32 %has, %needed
  %rank.at = getelementptr %array, ptr %object, i64 0, i32 2
  %rank32 = load i32, ptr %rank.at
  %rank = sext i32 %rank32 to i64
  %wanted.rank.at = getelementptr %tensor, ptr %tensor, i64 0, i32 1
  %wanted.rank = load i64, ptr %wanted.rank.at
  %ranks = icmp eq i64 %rank, %wanted.rank
  %both = and i1 %dtypes, %dense
  %all = and i1 %both, %ranks
  br i1 %all, label %shape, label %no
shape:
  %shape.at = getelementptr %array, ptr %object, i64 0, i32 3
  %shape.of = load ptr, ptr %shape.at
  %sizes.at = getelementptr %tensor, ptr %tensor, i64 0, i32 2
  %sizes = load ptr, ptr %sizes.at
  br label %axis
axis:
  %number = phi i64 [ 0, %shape ], [ %next, %fits ]
  %done = icmp eq i64 %number, %rank
  br i1 %done, label %yes, label %compare
compare:
  %given.at = getelementptr i64, ptr %shape.of, i64 %number
  %given = load i64, ptr %given.at
  %size.at = getelementptr i64, ptr %sizes, i64 %number
  %size = load i64, ptr %size.at
  %agrees = call i1 @fits(i64 %size, i64 %given, ptr %symbols, i64 %count)
  br i1 %agrees, label %fits, label %no
fits:
  %next = add i64 %number, 1
  br label %axis
yes:
  ret i1 true
no:
  ret i1 false
}

; A size of the table: a number, a symbol or what a program of the table gives; -1 where it divides
; by 0. The program is pairs of an operation and an operand that work on a stack.
define internal i64 @size(ptr %table, i64 %code, ptr %symbols, ptr %stack) {
  %constant = icmp sge i64 %code, 0
  br i1 %constant, label %number, label %varies
number:
  ret i64 %code
varies:
  %symbol = xor i64 %code, -1
  %count.at = getelementptr %table, ptr %table, i64 0, i32 5
  %count = load i64, ptr %count.at
  %free = icmp ult i64 %symbol, %count
  br i1 %free, label %bound, label %derived
bound:
  %value.at = getelementptr i64, ptr %symbols, i64 %symbol
  %value = load i64, ptr %value.at
  ret i64 %value
derived:
  %programs.at = getelementptr %table, ptr %table, i64 0, i32 14
  %programs = load ptr, ptr %programs.at
  %start = sub i64 %symbol, %count
  %first = getelementptr i64, ptr %programs, i64 %start
  br label %step
step:
  %at = phi ptr [ %first, %derived ], [ %following, %pushed ], [ %following, %combined ]
  %top = phi ptr [ %stack, %derived ], [ %higher, %pushed ], [ %lower, %combined ]
  %operation = load i64, ptr %at
  %operand.at = getelementptr i64, ptr %at, i64 1
  %operand = load i64, ptr %operand.at
  %following = getelementptr i64, ptr %at, i64 2
  %higher = getelementptr i64, ptr %top, i64 1
  %lower = getelementptr i64, ptr %top, i64 -1
  %left.at = getelementptr i64, ptr %top, i64 -2
  switch i64 %operation, label %binary [
    i64 0, label %end
    i64 1, label %push
    i64 2, label %lookup ]
end:
  %result = load i64, ptr %lower
  ret i64 %result
push:
  store i64 %operand, ptr %top
  br label %pushed
lookup:
  %looked.at = getelementptr i64, ptr %symbols, i64 %operand
  %looked = load i64, ptr %looked.at
  store i64 %looked, ptr %top
  br label %pushed
pushed:
  br label %step
binary:
  %left = load i64, ptr %left.at
  %right = load i64, ptr %lower
  switch i64 %operation, label %quotient [
    i64 3, label %sum
    i64 4, label %difference
    i64 5, label %product
    i64 6, label %least
    i64 7, label %greatest ]
sum:
  %sum.of = add i64 %left, %right
  br label %combined
difference:
  %difference.of = sub i64 %left, %right
  br label %combined
product:
  %product.of = mul i64 %left, %right
  br label %combined
least:
  %least.of = call i64 @llvm.smin.i64(i64 %left, i64 %right)
  br label %combined
greatest:
  %greatest.of = call i64 @llvm.smax.i64(i64 %left, i64 %right)
  br label %combined
quotient:
  %by.zero = icmp eq i64 %right, 0
  br i1 %by.zero, label %undefined, label %divide
undefined:
  ret i64 -1
divide: ; towards minus infinity, as Python does
  %towards.zero = sdiv i64 %left, %right
  %over = srem i64 %left, %right
  %some = icmp ne i64 %over, 0
  %signs = xor i64 %over, %right
  %differ = icmp slt i64 %signs, 0
  %down = and i1 %some, %differ
  %less = sext i1 %down to i64
  %floor = add i64 %towards.zero, %less
  %correction = select i1 %down, i64 %right, i64 0
  %modulus = add i64 %over, %correction
  %is.mod = icmp eq i64 %operation, 9
  %divided = select i1 %is.mod, i64 %modulus, i64 %floor
  br label %combined
combined:
  %answer = phi i64 [ %sum.of, %sum ], [ %difference.of, %difference ],
    [ %product.of, %product ], [ %least.of, %least ], [ %greatest.of, %greatest ],
    [ %divided, %divide ]
  store i64 %answer, ptr %left.at
  br label %step
}

; Whether the sizes in a shape are what the symbols make of the table's.
define internal i1 @agrees(ptr %table, ptr %tensor, ptr %shape, ptr %symbols, ptr %stack) {
  %rank.at = getelementptr %tensor, ptr %tensor, i64 0, i32 1
  %rank = load i64, ptr %rank.at
  %sizes.at = getelementptr %tensor, ptr %tensor, i64 0, i32 2
  %sizes = load ptr, ptr %sizes.at
  br label %axis
axis:
  %number = phi i64 [ 0, %0 ], [ %next, %compare ]
  %done = icmp eq i64 %number, %rank
  br i1 %done, label %yes, label %compare
compare:
  %code.at = getelementptr i64, ptr %sizes, i64 %number
  %code = load i64, ptr %code.at
  %size = call i64 @size(ptr %table, i64 %code, ptr %symbols, ptr %stack)
  %given.at = getelementptr i64, ptr %shape, i64 %number
  %given = load i64, ptr %given.at
  %equal = icmp eq i64 %size, %given
  %next = add i64 %number, 1
  br i1 %equal, label %axis, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Fills in the shape of an output; returns the number of its elements, -1 for a size below 0.
define internal i64 @shape_of(ptr %table, ptr %tensor, ptr %symbols, ptr %stack, ptr %shape) {
entry:
  %rank.at = getelementptr %tensor, ptr %tensor, i64 0, i32 1
  %rank = load i64, ptr %rank.at
  %sizes.at = getelementptr %tensor, ptr %tensor, i64 0, i32 2
  %sizes = load ptr, ptr %sizes.at
  br label %axis
axis:
  %number = phi i64 [ 0, %entry ], [ %next, %keep ]
  %elements = phi i64 [ 1, %entry ], [ %elements.next, %keep ]
  %done = icmp eq i64 %number, %rank
  br i1 %done, label %all, label %evaluate
evaluate:
  %code.at = getelementptr i64, ptr %sizes, i64 %number
  %code = load i64, ptr %code.at
  %size = call i64 @size(ptr %table, i64 %code, ptr %symbols, ptr %stack)
  %negative = icmp slt i64 %size, 0
  br i1 %negative, label %refuse, label %keep
keep:
  %place = getelementptr i64, ptr %shape, i64 %number
  store i64 %size, ptr %place
  %next = add i64 %number, 1
  %elements.next = mul i64 %elements, %size
  br label %axis
all:
  ret i64 %elements
refuse:
  ret i64 -1
}

; A new array for an output. NULL with an error set, or without one for a size below 0.
define internal ptr @new_output(ptr %table, ptr %tensor, ptr %symbols, ptr %stack, ptr %shape) {
  %dtype = load ptr, ptr %tensor
  %rank.at = getelementptr %tensor, ptr %tensor, i64 0, i32 1
  %rank = load i64, ptr %rank.at
  %elements = call i64 @shape_of(
    ptr %table, ptr %tensor, ptr %symbols, ptr %stack, ptr %shape)
  %negative = icmp slt i64 %elements, 0
  br i1 %negative, label %refuse, label %weigh
refuse:
  ret ptr null
weigh: ; to say where memory comes from takes longer than a small array
  %handler.at = getelementptr %table, ptr %table, i64 0, i32 18
  %handler = load ptr, ptr %handler.at
  %keeps = icmp ne ptr %handler, null
  %large = icmp uge i64 %elements, $many
  %lends = and i1 %keeps, %large
  br i1 %lends, label %lend, label %make
lend:
  %lent = call ptr @lend_memory(ptr %table, ptr %handler)
  br label %make
make:
  %before = phi ptr [ null, %weigh ], [ %lent, %lend ]
  %type.at = getelementptr %table, ptr %table, i64 0, i32 12
  %type = load ptr, ptr %type.at
  %new.at = getelementptr %table, ptr %table, i64 0, i32 11
  %new = load ptr, ptr %new.at
  call void @Py_IncRef(ptr %dtype) ; NumPy keeps this reference
  %rank32 = trunc i64 %rank to i32
  %made = call ptr %new(
    ptr %type, ptr %dtype, i32 %rank32, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  call void @return_memory(ptr %table, ptr %before)
  ret ptr %made
}
"""
