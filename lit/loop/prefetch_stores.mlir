// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch{kernel=k access="j:1" loop=i before=j}' | filecheck %s

// The lines that the next row is written to, each once, in front of the stores to this one.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %i = 0 to 8 {
// CHECK-NEXT: loop.for %[[P:.*]] = 0 to 64 step 16 {
// CHECK-NEXT: loop.prefetch %y[%i + 1, %[[P]]] : !loop.buffer<[8, 64], f32>
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %j = 0 to 64 {
loop.kernel @k(%x: !loop.buffer<[8, 64], f32>, %y: !loop.buffer<[8, 64], f32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[8, 64], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[8, 64], f32>
    }
  }
}

// -----

// CHECK: prefetch requires an access that the loop moves forward, got loop.store of %y[%j] and loop %i
loop.kernel @k(%x: !loop.buffer<[8, 64], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[8, 64], f32>
      loop.store %v, %y[%j] : !loop.buffer<[64], f32>
    }
  }
}

// -----

// CHECK: prefetch requires a buffer that is handed to the kernel, got loop.store of %t[%i, %j]
loop.kernel @k(%x: !loop.buffer<[8, 64], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[8, 64], f32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[8, 64], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[8, 64], f32>
    }
  }
}

// -----

// CHECK: a schedule requires a load or store there, got j:1 (arith.addf)
loop.kernel @k(%x: !loop.buffer<[8, 64], f32>, %y: !loop.buffer<[8, 64], f32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[8, 64], f32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[8, 64], f32>
    }
  }
}
