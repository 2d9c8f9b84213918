// RUN: weft-opt %s -p 'weft-hoist{kernel=k op="j:0"}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: %v = loop.load %x[%i]
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK-NEXT: loop.store %v, %y[%i, %j]
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i] : !loop.buffer<[4], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
}
