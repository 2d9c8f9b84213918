// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-split-reduction{kernel=k loop=i parts=4}' | filecheck %s

// Partial sums, whole tiles, the rest, and the sums of the upper and the lower half of the sums.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %y_parts = loop.alloc registers : !loop.buffer<[4], f32>
// CHECK-NEXT: loop.for %l = 0 to 4 {
// CHECK: loop.for %io = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %ii = 0 to 4 {
// CHECK: loop.store %{{.*}}, %y_parts[%ii]
// CHECK: loop.for %ir = 0 to 2 {
// CHECK: loop.store %{{.*}}, %y_parts[%ir]
// CHECK: loop.for %[[L:.*]] = 0 to 2 {
// CHECK-NEXT: loop.load %y_parts[%[[L]]]
// CHECK-NEXT: loop.load %y_parts[%[[L]] + 2]
// CHECK: loop.for %[[L:.*]] = 0 to 1 {
// CHECK-NEXT: loop.load %y_parts[%[[L]]]
// CHECK-NEXT: loop.load %y_parts[%[[L]] + 1]
// CHECK: loop.load %y[0]
// CHECK-NEXT: loop.load %y_parts[0]
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %y[0]
loop.kernel @k(%x: !loop.buffer<[10], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 10 reduction(add) {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// Without the mark, no permission.
// CHECK: split_reduction requires a loop marked as a reduction, with updates of its kind only (None)
loop.kernel @k(%x: !loop.buffer<[10], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 10 {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}
