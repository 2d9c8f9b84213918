// RUN: weft-opt -p weft-plan-memory --split-input-file %s | filecheck %s

// A result takes the place of an operand that is read for the last time where it is written.
// CHECK-LABEL: loop.program @main
// CHECK:      %x = loop.alloc workspace at 0 :
// CHECK-NEXT: %y = loop.alloc workspace at 0 :
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%in: !loop.buffer<[32], f32>, %out: !loop.buffer<[32], f32>) inputs 1 {
  %x = loop.alloc workspace : !loop.buffer<[32], f32>
  %y = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.call @double(%in, %x) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%x, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%y, %out) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// An operand that is read behind the store of the same element elsewhere keeps a place of its own.
// CHECK-LABEL: loop.program @main
// CHECK:      %x = loop.alloc workspace at 0 :
// CHECK-NEXT: %y = loop.alloc workspace at 128 :
loop.kernel @reverse(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[31 - %i] : !loop.buffer<[32], f32>
    loop.store %v, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%in: !loop.buffer<[32], f32>, %out: !loop.buffer<[32], f32>) inputs 1 {
  %x = loop.alloc workspace : !loop.buffer<[32], f32>
  %y = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.call @reverse(%in, %x) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @reverse(%x, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @reverse(%y, %out) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// Neither may a result that several iterations store take the place of what each of them reads.
// CHECK-LABEL: loop.program @main
// CHECK:      %x = loop.alloc workspace at 0 :
// CHECK-NEXT: %y = loop.alloc workspace at 128 :
loop.kernel @repeat(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %k = 0 to 4 {
    loop.for %i = 0 to 32 {
      %v = loop.load %a[%i] : !loop.buffer<[32], f32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %b[%i] : !loop.buffer<[32], f32>
    }
  }
}
loop.program @main(%in: !loop.buffer<[32], f32>, %out: !loop.buffer<[32], f32>) inputs 1 {
  %x = loop.alloc workspace : !loop.buffer<[32], f32>
  %y = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.call @repeat(%in, %x) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @repeat(%x, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @repeat(%y, %out) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// An operand that is another argument's storage too, here through a view, is read in two orders and keeps its place.
// CHECK-LABEL: loop.program @main
// CHECK:      %x = loop.alloc workspace at 0 :
// CHECK-NEXT: %y = loop.alloc workspace at 64 :
loop.kernel @add(%a: !loop.buffer<[4, 4], f32>, %b: !loop.buffer<[16], f32>, %c: !loop.buffer<[4, 4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %v = loop.load %a[%i, %j] : !loop.buffer<[4, 4], f32>
      %w = loop.load %b[%i + 4 * %j] : !loop.buffer<[16], f32>
      %s = arith.addf %v, %w : f32
      loop.store %s, %c[%i, %j] : !loop.buffer<[4, 4], f32>
    }
  }
}
loop.kernel @copy(%a: !loop.buffer<[4, 4], f32>, %b: !loop.buffer<[4, 4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %v = loop.load %a[%j, %i] : !loop.buffer<[4, 4], f32>
      loop.store %v, %b[%i, %j] : !loop.buffer<[4, 4], f32>
    }
  }
}
loop.program @main(%in: !loop.buffer<[4, 4], f32>, %out: !loop.buffer<[4, 4], f32>) inputs 1 {
  %x = loop.alloc workspace : !loop.buffer<[4, 4], f32>
  %y = loop.alloc workspace : !loop.buffer<[4, 4], f32>
  %v = loop.view %x : !loop.buffer<[4, 4], f32> to !loop.buffer<[16], f32>
  loop.call @copy(%in, %x) : !loop.buffer<[4, 4], f32>, !loop.buffer<[4, 4], f32>
  loop.call @add(%x, %v, %y) : !loop.buffer<[4, 4], f32>, !loop.buffer<[16], f32>, !loop.buffer<[4, 4], f32>
  loop.call @copy(%y, %out) : !loop.buffer<[4, 4], f32>, !loop.buffer<[4, 4], f32>
}

// -----

// A sum over ranks takes the place of what it is a sum of, at the start of the arena, which other ranks may reach; what is
// gathered has a place of its own, and so has a sum whose operand is gathered meanwhile.
// CHECK-LABEL: loop.program @ranks
// CHECK-SAME: collective_bytes = #builtin.int<640>
// CHECK:      %large = loop.alloc workspace at 640 :
// CHECK-NEXT: %g = loop.alloc workspace at [[SUMMED:[0-9]+]] :
// CHECK-NEXT: %s = loop.alloc workspace at [[SUMMED]] :
// CHECK-NOT:  loop.alloc workspace at [[SUMMED]] :
// CHECK:      loop.start
loop.kernel @fill(%a: !loop.buffer<[512], f32>, %b: !loop.buffer<[32], f32>, %c: !loop.buffer<[32], f32>) { }
loop.kernel @use(%a: !loop.buffer<[512], f32>, %b: !loop.buffer<[32], f32>, %c: !loop.buffer<[64], f32>, %d: !loop.buffer<[32], f32>) { }
loop.program @ranks(%out: !loop.buffer<[32], f32>) inputs 0 {
  %large = loop.alloc workspace : !loop.buffer<[512], f32>
  %g = loop.alloc workspace : !loop.buffer<[32], f32>
  %s = loop.alloc workspace : !loop.buffer<[32], f32>
  %p = loop.alloc workspace : !loop.buffer<[32], f32>
  %all = loop.alloc workspace : !loop.buffer<[64], f32>
  %kept = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.call @fill(%large, %g, %p) : !loop.buffer<[512], f32>, !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.start %g, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.start %p, %all {number = 1 : i64, operation = "all_gather", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[64], f32>
  loop.start %p, %kept {number = 2 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %g, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %p, %all {number = 1 : i64, operation = "all_gather", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[64], f32>
  loop.wait %p, %kept {number = 2 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @use(%large, %s, %all, %kept) : !loop.buffer<[512], f32>, !loop.buffer<[32], f32>, !loop.buffer<[64], f32>, !loop.buffer<[32], f32>
}
