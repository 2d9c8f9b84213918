// RUN: weft-opt %s -p weft-set-target{cpu=x86-64-v3} -t weft-llvm | filecheck %s

// Rows of registers have whole vectors, which are written whole: what the lanes behind the last column compute is in
// nobody's way.
// CHECK-LABEL: "weft.padded"
// CHECK-NOT:   select
// CHECK:       masked.store
loop.kernel @padded(%x: !loop.buffer<[64, 12], f32>, %y: !loop.buffer<[2, 12], f32>) {
  %r = loop.alloc registers : !loop.buffer<[2, 12], f32>
  loop.for %i = 0 to 2 unroll {
    loop.for %j = 0 to 12 unroll vector(8) {
      %v = loop.load %x[%i, %j] : !loop.buffer<[64, 12], f32>
      loop.store %v, %r[%i, %j] : !loop.buffer<[2, 12], f32>
    }
  }
  loop.for %i = 0 to 2 unroll {
    loop.for %j = 0 to 12 unroll vector(8) {
      %v = loop.load %r[%i, %j] : !loop.buffer<[2, 12], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[2, 12], f32>
    }
  }
}

// Where the next row begins there, as in other buffers, its elements stay as they are.
// CHECK-LABEL: "weft.crowded"
// CHECK:       select
// CHECK:       masked.store
loop.kernel @crowded(%x: !loop.buffer<[64, 12], f32>, %y: !loop.buffer<[2, 12], f32>) {
  %r = loop.alloc scratch : !loop.buffer<[2, 12], f32>
  loop.for %i = 0 to 2 unroll {
    loop.for %j = 0 to 12 unroll vector(8) {
      %v = loop.load %x[%i, %j] : !loop.buffer<[64, 12], f32>
      loop.store %v, %r[%i, %j] : !loop.buffer<[2, 12], f32>
    }
  }
  loop.for %i = 0 to 2 unroll {
    loop.for %j = 0 to 12 unroll vector(8) {
      %v = loop.load %r[%i, %j] : !loop.buffer<[2, 12], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[2, 12], f32>
    }
  }
}
