// RUN: weft-opt -p weft-assign-layouts --split-input-file %s | filecheck %s

// What loops of 16 turns only read is brought into the layout of their kernel once, in front of them; what they write, in front of each call.
// CHECK-LABEL: loop.program @main
// CHECK: %[[W:.*]] = loop.alloc workspace : !loop.buffer<[8, 8], f32, [d1, d0] in [8, 8]>
// CHECK-NEXT: loop.call @copy_{{.*}}(%w, %[[W]])
// CHECK-NEXT: loop.for
// CHECK-NEXT: loop.call @read(%[[W]], %t)
// CHECK-NEXT: loop.call @write(%u)
// CHECK-NEXT: %[[U:.*]] = loop.alloc workspace : !loop.buffer<[8, 8], f32, [d1, d0] in [8, 8]>
// CHECK-NEXT: loop.call @copy_{{.*}}(%u, %[[U]])
// CHECK-NEXT: loop.call @read(%[[U]], %t)
// CHECK-NEXT: }
loop.kernel @read(%w: !loop.buffer<[8, 8], f32, [d1, d0] in [8, 8]>, %y: !loop.buffer<[8], f32>) {
  loop.for %n = 0 to 8 {
    %a = loop.load %w[0, %n] : !loop.buffer<[8, 8], f32, [d1, d0] in [8, 8]>
    loop.store %a, %y[%n] : !loop.buffer<[8], f32>
  }
}
loop.kernel @write(%w: !loop.buffer<[8, 8], f32>) {
  loop.for %n = 0 to 8 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %w[0, %n] : !loop.buffer<[8, 8], f32>
  }
}
loop.program @main(%w: !loop.buffer<[8, 8], f32>, %u: !loop.buffer<[8, 8], f32>, %t: !loop.buffer<[8], f32>) inputs 2 {
  loop.for %i = 0 to 16 {
    loop.call @read(%w, %t) : !loop.buffer<[8, 8], f32>, !loop.buffer<[8], f32>
    loop.call @write(%u) : !loop.buffer<[8, 8], f32>
    loop.call @read(%u, %t) : !loop.buffer<[8, 8], f32>, !loop.buffer<[8], f32>
  }
}
