// RUN: weft-opt %s -p 'weft-compute-at{kernel=k producer=i consumer=n},weft-forward-store{kernel=k load="j:3"}' | filecheck %s

// The producer moves into the innermost loop; its temporary becomes a value.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK-NEXT: %v = loop.load %x[%i, %j]
// CHECK-NEXT: %w = arith.addf %v, %v
// CHECK-NEXT: loop.store %w, %y[%i, %j]
loop.kernel @k(%x: !loop.buffer<[4, 8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 8], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %t[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
  loop.for %m = 0 to 4 {
    loop.for %n = 0 to 8 {
      %u = loop.load %t[%m, %n] : !loop.buffer<[4, 8], f32>
      loop.store %u, %y[%m, %n] : !loop.buffer<[4, 8], f32>
    }
  }
}
