// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-reorder{kernel=k order=j,i}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: loop.load %x[%i, %j]
loop.kernel @k(%x: !loop.buffer<[4, 8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
}

// -----

// Each element comes from the next column of the row before: columns first would read it too late.
// CHECK: reorder requires an order that keeps every dependence, got loop.load of %x[%i, %j + 1] and loop.store of %x[%i + 1, %j]
loop.kernel @k(%x: !loop.buffer<[5, 9], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j + 1] : !loop.buffer<[5, 9], f32>
      loop.store %v, %x[%i + 1, %j] : !loop.buffer<[5, 9], f32>
    }
  }
}
