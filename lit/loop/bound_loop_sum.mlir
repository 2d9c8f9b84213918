// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-bound-loop{kernel=k loop=j by="j:2" before=i size=8}' | filecheck %s

// Of a sum, terms that are zero in all rows do not count. Loads go along the rows.
// CHECK-LABEL: loop.kernel @k
// CHECK: %found = loop.alloc registers : !loop.buffer<[4], i32>
// CHECK: loop.for %j = 0 to 16 {
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: %[[P:.*]] = loop.load %p[%j, %i]
// CHECK: arith.cmpf une, %[[P]]
// CHECK: loop.store %{{.*}}, %found[%i]
// CHECK: loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 * min(2, max(0, %{{.*}})) reduction(add) {
loop.kernel @k(%p: !loop.buffer<[16, 4], f32>, %x: !loop.buffer<[16], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 reduction(add) {
      %l = loop.load %y[%i] : !loop.buffer<[4], f32>
      %v = loop.load %x[%j] : !loop.buffer<[16], f32>
      %c = loop.load %p[%j, %i] : !loop.buffer<[16, 4], f32>
      %w = arith.mulf %c, %v : f32
      %s = arith.addf %l, %w : f32
      loop.store %s, %y[%i] : !loop.buffer<[4], f32>
    }
  }
}

// -----

// A sum that keeps its order keeps zeros as well: times infinity they are no zeros.
// CHECK: bound_loop requires a sum of products of the factor, of floats, got loop.load of %p
loop.kernel @k(%p: !loop.buffer<[16, 4], f32>, %x: !loop.buffer<[16], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %l = loop.load %y[%i] : !loop.buffer<[4], f32>
      %v = loop.load %x[%j] : !loop.buffer<[16], f32>
      %c = loop.load %p[%j, %i] : !loop.buffer<[16, 4], f32>
      %w = arith.mulf %c, %v : f32
      %s = arith.addf %l, %w : f32
      loop.store %s, %y[%i] : !loop.buffer<[4], f32>
    }
  }
}
