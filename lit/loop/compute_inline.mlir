// RUN: weft-opt %s -p 'weft-compute-inline{kernel=k store="j:2"}' | filecheck %s

// The reader is transposed: the producer's subscripts follow.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %m = 0 to 8 {
// CHECK-NEXT: loop.for %n = 0 to 4 {
// CHECK-NEXT: %[[V:.*]] = loop.load %x[%n, %m]
// CHECK-NEXT: %[[W:.*]] = arith.addf %[[V]], %[[V]]
// CHECK-NEXT: loop.store %[[W]], %y[%m, %n]
loop.kernel @k(%x: !loop.buffer<[4, 8], f32>, %y: !loop.buffer<[8, 4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 8], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %t[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %u = loop.load %t[%n, %m] : !loop.buffer<[4, 8], f32>
      loop.store %u, %y[%m, %n] : !loop.buffer<[8, 4], f32>
    }
  }
}
