// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch{kernel=k access="j:0" loop=i distance=2}' | filecheck %s

// The line that the load reads two rows later; rows behind the last are never read.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %j = 0 to 16 {
// CHECK-NEXT: loop.prefetch %x[%i + 2, %j] : !loop.buffer<[n, 16], f32>
// CHECK-NEXT: %v = loop.load %x[%i, %j]
loop.kernel @k[n](%x: !loop.buffer<[n, 16], f32>, %y: !loop.buffer<[n, 16], f32>) {
  loop.for %i = 0 to n {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[n, 16], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[n, 16], f32>
    }
  }
}

// -----

// A loop of another step reads two of its steps ahead.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.prefetch %x[%i + 8, %j]
loop.kernel @k(%x: !loop.buffer<[64, 16], f32>, %y: !loop.buffer<[64, 16], f32>) {
  loop.for %i = 0 to 64 step 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[64, 16], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[64, 16], f32>
    }
  }
}

// -----

// CHECK: prefetch requires an access that the loop moves forward, got loop.load of %x[%j] and loop %i
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[4, 16], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%j] : !loop.buffer<[16], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
}

// -----

// CHECK: prefetch requires a buffer that is handed to the kernel, got loop.load of %t[%i, %j]
loop.kernel @k(%y: !loop.buffer<[4, 16], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[4, 16], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %t[%i, %j] : !loop.buffer<[4, 16], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
}

// -----

// CHECK: prefetch requires an access that the loop moves forward, got loop.load of %x[%i, %q] and loop %i
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %p: !loop.buffer<[4], i64>, %y: !loop.buffer<[4, 16], f32>) {
  loop.for %i = 0 to 4 {
    %n = loop.load %p[%i] : !loop.buffer<[4], i64>
    %q = arith.index_cast %n : i64 to index
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %q] : !loop.buffer<[4, 16], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
}
