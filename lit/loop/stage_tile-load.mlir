// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-stage-tile{kernel=k source=x at=i scope=scratch load="j:0"}' | filecheck %s

// The copy serves the column that one load reads; the row stays where it is.
// CHECK-LABEL: loop.kernel @k
// CHECK: %x_s = loop.alloc scratch : !loop.buffer<[4, 1], f32>
// CHECK: loop.store %{{.*}}, %x_s[%ld0, 0]
// CHECK: loop.for %j = 0 to 4 {
// CHECK-NEXT: loop.load %x_s[%j, 0]
// CHECK-NEXT: loop.load %x[%i, %j]
loop.kernel @k(%x: !loop.buffer<[4, 4], f32>, %y: !loop.buffer<[4, 4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %a = loop.load %x[%j, %i] : !loop.buffer<[4, 4], f32>
      %b = loop.load %x[%i, %j] : !loop.buffer<[4, 4], f32>
      %s = arith.addf %a, %b : f32
      loop.store %s, %y[%i, %j] : !loop.buffer<[4, 4], f32>
    }
  }
}

// -----

// What is stored to has one copy for all that reads it.
// CHECK: stage_tile requires a load of a buffer that is not stored to there, got
loop.kernel @k(%x: !loop.buffer<[4, 4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %a = loop.load %x[%j, %i] : !loop.buffer<[4, 4], f32>
      loop.store %a, %x[%i, %j] : !loop.buffer<[4, 4], f32>
    }
  }
}
