// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-validate-plan | filecheck %s

// Buffers that follow each other in one place: calls are numbered, nothing else changes.
// CHECK-LABEL: loop.program @chain
// CHECK: loop.call @k(%x, %a) {origin = #builtin.int<0>}
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @chain(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  %b = loop.alloc workspace at 64 : !loop.buffer<[16], f32>
  loop.call @k(%a, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  %c = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%b, %c) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @k(%c, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// A buffer in whose memory another one is written before it is read for the last time.
// CHECK: call of @k requires operands that hold what was computed for them, got memory that something else has overwritten as argument 0
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @overwritten(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  %b = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%x, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @k(%a, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// A kernel that does not load an element before it stores it cannot work in place.
// CHECK: call of @fill requires results that lie apart from other arguments, got arguments 0 and 1 in memory that they share
loop.kernel @fill(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %i = 0 to 16 { loop.store %zero, %y[%i] : !loop.buffer<[16], f32> }
  loop.for %j = 0 to 16 {
    %v = loop.load %x[%j] : !loop.buffer<[16], f32>
    loop.store %v, %y[%j] : !loop.buffer<[16], f32>
  }
}
loop.program @in_place(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  %b = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @fill(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @fill(%a, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @fill(%b, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// A claim that such a kernel may.
// CHECK: kernel @reverse requires every element of argument 0 to be loaded before argument 1 overwrites it, got loop.load of [-%i + 15] and loop.store of [%i]
loop.kernel @reverse(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {in_place = array<i64: 0, 1>} {
  loop.for %i = 0 to 16 {
    %v = loop.load %x[15 - %i] : !loop.buffer<[16], f32>
    loop.store %v, %y[%i] : !loop.buffer<[16], f32>
  }
}

// -----

// What one iteration of a loop leaves behind has to be there in the next: the back edge counts.
// CHECK: call of @k requires operands that hold what was computed for them, got memory that something else has overwritten as argument 0
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @back_edge[n](%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[n], f32>) inputs 1 {
  %s = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%x, %s) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.for %i = 0 to n {
    %t = loop.alloc workspace at 64 : !loop.buffer<[16], f32>
    loop.call @k(%s, %t) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
    %u = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
    loop.call @k(%t, %u) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  }
}

// -----

// Sizes that vary: slots lie behind each other, whatever is greater.
// CHECK-LABEL: loop.program @symbolic
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @symbolic[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 1 attributes {workspace_bytes = #loop.exprs<[128 * ((4 * n + 63) floordiv 64)]>} {
  %a = loop.alloc workspace at 0 : !loop.buffer<[n], f32>
  loop.call @k[n](%x, %a) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
  %b = loop.alloc workspace at 64 * ((4 * n + 63) floordiv 64) : !loop.buffer<[n], f32>
  loop.call @k[n](%a, %b) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
  loop.call @k[n](%b, %y) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
}

// -----

// A buffer that does not fit into the workspace.
// CHECK: memory plan requires buffers within the workspace of 64 bytes, got 64 to 128 for %b
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @outside(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 attributes {workspace_bytes = #loop.exprs<[64]>} {
  %b = loop.alloc workspace at 64 : !loop.buffer<[16], f32>
  loop.call @k(%x, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @k(%b, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// Branches at the same time that share memory.
// CHECK: loop.concurrent requires branches that lie apart, got @k and @k on memory that they share
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @concurrent(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>, %z: !loop.buffer<[16], f32>) inputs 1 {
  loop.concurrent 2 to 4 {
    %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
    loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
    loop.call @k(%a, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  } and {
    %b = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
    loop.call @k(%x, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
    loop.call @k(%b, %z) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  }
}

// -----

// A sum over ranks in the place of its operand.
// CHECK-LABEL: loop.program @summed
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @summed(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  %b = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.start %a, %b {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.wait %a, %b {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @k(%b, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// What is summed is read behind the sum that took its place.
// CHECK: call of @k requires operands that hold what was computed for them, got memory that something else has overwritten as argument 0
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @read_again(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  %b = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.start %a, %b {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.wait %a, %b {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @k(%a, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// Parts that are gathered lie apart from the whole, and so does a sum that is not just where its operand is.
// CHECK: loop.start requires buffers that lie apart, got two that share bytes
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.kernel @l(%x: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) attributes {writes = [#builtin.int<1>]} { }
loop.program @gathered(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[32], f32>) inputs 1 {
  %a = loop.alloc workspace at 0 : !loop.buffer<[16], f32>
  %b = loop.alloc workspace at 0 : !loop.buffer<[32], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.start %a, %b {number = 0 : i64, operation = "all_gather", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[16], f32>, !loop.buffer<[32], f32>
  loop.wait %a, %b {number = 0 : i64, operation = "all_gather", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 1>} : !loop.buffer<[16], f32>, !loop.buffer<[32], f32>
  loop.call @l(%b, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}
