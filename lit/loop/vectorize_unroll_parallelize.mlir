// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-parallelize{kernel=k loop=i},weft-vectorize{kernel=k loop=j lanes=8},weft-unroll{kernel=k loop=j}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to n parallel {
// CHECK-NEXT: loop.for %j = 0 to 16 unroll vector(8) {
loop.kernel @k[n](%x: !loop.buffer<[n, 16], f32>, %y: !loop.buffer<[n, 16], f32>) {
  loop.for %i = 0 to n {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[n, 16], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[n, 16], f32>
    }
  }
}

// -----

// CHECK: parallelize requires independent iterations of loop %i, got loop.load of %x[%i] and loop.store of %x[%i + 1]
loop.kernel @k(%x: !loop.buffer<[9], f32>) {
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i] : !loop.buffer<[9], f32>
    loop.store %v, %x[%i + 1] : !loop.buffer<[9], f32>
  }
}

// -----

// CHECK: vectorize requires independent iterations of loop %j, got loop.load of %x[%i, %j] and loop.store of %x[%i, %j + 7]
loop.kernel @k(%x: !loop.buffer<[4, 15], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 15], f32>
      loop.store %v, %x[%i, %j + 7] : !loop.buffer<[4, 15], f32>
    }
  }
}
