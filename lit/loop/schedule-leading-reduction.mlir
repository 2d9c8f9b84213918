// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Sums of columns: a stretch of them at a time, to which eight rows are added between a load and a store.
// CHECK-LABEL: loop.kernel @columns
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK-NEXT: loop.for %[[RO:[a-z_0-9]+]] = 0 to 125 reduction(add) {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 256 vector(8) {
// CHECK-NEXT: loop.for %[[RI:[a-z_0-9]+]] = 0 to 8 unroll reduction(add) {
// CHECK-NEXT: loop.load %x[8 * %[[RO]] + %[[RI]], 256 * %[[JO]] + %[[JI]]]
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 256 vector(8) {
// CHECK-NEXT: loop.load %x[%[[R]] + 1000, 256 * %[[JO]] + %[[J]]]
// CHECK-NOT: loop.for
loop.kernel @columns(%x: !loop.buffer<[1003, 1024], f32>, %y: !loop.buffer<[1024], f32>) {
  loop.for %j = 0 to 1024 {
    loop.for %r = 0 to 1003 reduction(add) {
      %v = loop.load %x[%r, %j] : !loop.buffer<[1003, 1024], f32>
      %s = loop.load %y[%j] : !loop.buffer<[1024], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%j] : !loop.buffer<[1024], f32>
    }
  }
}

// -----

// What fits the caches is kept in registers, as a window is.
// CHECK-LABEL: loop.kernel @few
// CHECK: loop.alloc registers
loop.kernel @few(%x: !loop.buffer<[16, 1024], f32>, %y: !loop.buffer<[1024], f32>) {
  loop.for %j = 0 to 1024 {
    loop.for %r = 0 to 16 reduction(add) {
      %v = loop.load %x[%r, %j] : !loop.buffer<[16, 1024], f32>
      %s = loop.load %y[%j] : !loop.buffer<[1024], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%j] : !loop.buffer<[1024], f32>
    }
  }
}
