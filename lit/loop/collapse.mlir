// RUN: weft-opt %s --split-input-file -p 'weft-collapse{kernel=k outer=i inner=j}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %ij = 0 to 8 * n {
// CHECK-NEXT: loop.load %x[(%ij floordiv 8), (%ij mod 8)]
// CHECK-NOT: loop.for
loop.kernel @k[n](%x: !loop.buffer<[n, 8], f32>, %y: !loop.buffer<[n, 8], f32>) {
  loop.for %i = 0 to n {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[n, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[n, 8], f32>
    }
  }
}

// -----

// Two loops that both run in parallel are one that does.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %ij = 0 to m * n parallel {
// CHECK-NOT: parallel
loop.kernel @k[m, n](%x: !loop.buffer<[n, m], f32>, %y: !loop.buffer<[n, m], f32>) {
  loop.for %i = 0 to n parallel {
    loop.for %j = 0 to m parallel {
      %v = loop.load %x[%i, %j] : !loop.buffer<[n, m], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[n, m], f32>
    }
  }
}
