// RUN: weft-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: loop.kernel @dot
// CHECK: %t = loop.dot_bytes %x, %x, %x : i32
loop.kernel @dot(%a: !loop.buffer<[1], i32>) {
  %x = loop.load %a[0] : !loop.buffer<[1], i32>
  %t = loop.dot_bytes %x, %x, %x : i32
  loop.store %t, %a[0] : !loop.buffer<[1], i32>
}

// -----

// CHECK-LABEL: loop.kernel @field
// CHECK: %f = loop.field %x {low = #builtin.int<28>, bits = #builtin.int<4>, centred = false} : f32
loop.kernel @field(%a: !loop.buffer<[1], i32>, %b: !loop.buffer<[1], f32>) {
  %x = loop.load %a[0] : !loop.buffer<[1], i32>
  %f = loop.field %x {low = #builtin.int<28>, bits = #builtin.int<4>, centred = false} : f32
  loop.store %f, %b[0] : !loop.buffer<[1], f32>
}

// -----

// CHECK-LABEL: loop.kernel @random
// CHECK: %r = loop.threefry %x, %y : i64
loop.kernel @random(%a: !loop.buffer<[2], ui64>) {
  %x = loop.load %a[0] : !loop.buffer<[2], ui64>
  %y = loop.load %a[1] : !loop.buffer<[2], ui64>
  %r = loop.threefry %x, %y : i64
  loop.store %r, %a[1] : !loop.buffer<[2], ui64>
}

// -----

// CHECK: loop.field requires bits of a word of 32, got 30 to 34
loop.kernel @field(%a: !loop.buffer<[1], i32>, %b: !loop.buffer<[1], f32>) {
  %x = loop.load %a[0] : !loop.buffer<[1], i32>
  %f = loop.field %x {low = #builtin.int<30>, bits = #builtin.int<4>, centred = false} : f32
  loop.store %f, %b[0] : !loop.buffer<[1], f32>
}
