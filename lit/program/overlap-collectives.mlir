// RUN: weft-opt -p weft-overlap-collectives --split-input-file %s | filecheck %s

// Sums start behind what computes their operands, and are waited for in front of what reads them; what lies between
// runs meanwhile. Waits stay in their order.
// CHECK-LABEL: loop.program @main
// CHECK:      loop.call @double(%x, %g)
// CHECK-NEXT: loop.start %g, %s {number = 0
// CHECK-NEXT: loop.call @double(%x, %h)
// CHECK-NEXT: loop.start %h, %t {number = 1
// CHECK-NEXT: loop.call @double(%x, %y)
// CHECK-NEXT: loop.wait %g, %s {number = 0
// CHECK-NEXT: loop.call @double(%s, %z)
// CHECK-NEXT: loop.wait %h, %t {number = 1
// CHECK-NEXT: loop.call @double(%t, %w)
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%x: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>, %z: !loop.buffer<[32], f32>, %w: !loop.buffer<[32], f32>) inputs 1 {
  %g = loop.alloc workspace : !loop.buffer<[32], f32>
  %s = loop.alloc workspace : !loop.buffer<[32], f32>
  %h = loop.alloc workspace : !loop.buffer<[32], f32>
  %t = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.call @double(%x, %g) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%x, %h) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.start %g, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %g, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.start %h, %t {number = 1 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %h, %t {number = 1 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%x, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%s, %z) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%t, %w) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// What reads a result through a view, or in a loop, waits for it; another call may not overwrite what is being read.
// CHECK-LABEL: loop.program @main
// CHECK:      loop.start %x, %s
// CHECK-NEXT: loop.view %s
// CHECK-NEXT: loop.wait %x, %s
// CHECK-NEXT: loop.for
// CHECK:      loop.start %s, %x
// CHECK-NEXT: loop.wait %s, %x
// CHECK-NEXT: loop.call @double(%y, %s)
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%x: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) inputs 1 {
  %s = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.start %x, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %x, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  %v = loop.view %s : !loop.buffer<[32], f32> to !loop.buffer<[32], f32>
  loop.for %i = 0 to 2 {
    loop.call @double(%v, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  }
  loop.start %s, %x {number = 1 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %s, %x {number = 1 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%y, %s) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// Starts are in the order in which their operands are computed, the waits in that of what reads them: the gradient of
// the last layer is there first, and updated last. What defines their buffers moves with them.
// CHECK-LABEL: loop.program @main
// CHECK:      loop.call @double(%x, %v)
// CHECK-NEXT: loop.start %w, %t {number = 1
// CHECK-NEXT: loop.call @double(%x, %g)
// CHECK-NEXT: loop.start %g, %s {number = 0
// CHECK-NEXT: loop.wait %g, %s {number = 0
// CHECK-NEXT: loop.call @double(%s, %y)
// CHECK-NEXT: loop.wait %w, %t {number = 1
// CHECK-NEXT: loop.call @double(%t, %z)
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%x: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>, %z: !loop.buffer<[32], f32>) inputs 1 {
  %g = loop.alloc workspace : !loop.buffer<[32], f32>
  %h = loop.alloc workspace : !loop.buffer<[4, 8], f32>
  %v = loop.view %h : !loop.buffer<[4, 8], f32> to !loop.buffer<[32], f32>
  loop.call @double(%x, %v) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%x, %g) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  %s = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.start %g, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %g, %s {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%s, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  %w = loop.view %h : !loop.buffer<[4, 8], f32> to !loop.buffer<[32], f32>
  %t = loop.alloc workspace : !loop.buffer<[32], f32>
  loop.start %w, %t {number = 1 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.wait %w, %t {number = 1 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%t, %z) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}
