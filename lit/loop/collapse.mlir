// RUN: weft-opt %s -p 'weft-collapse{kernel=k outer=i inner=j}' | filecheck %s

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
