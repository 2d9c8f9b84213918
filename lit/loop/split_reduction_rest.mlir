// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-split-reduction{kernel=k loop=i parts=8 rest=4}' | filecheck %s

// What is left joins the partial sums when there are four of them, whole vectors first.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %y_parts = loop.alloc registers : !loop.buffer<[8], f32>
// CHECK-NEXT: loop.for %l = 0 to 8 {
// CHECK: loop.for %io = 0 to (n floordiv 8) reduction(add) {
// CHECK-NEXT: loop.for %ii = 0 to 8 {
// CHECK: loop.store %{{.*}}, %y_parts[%ii]
// CHECK: loop.for %[[L:.*]] = 0 to 4 {
// CHECK-NEXT: loop.load %y_parts[%[[L]]]
// CHECK-NEXT: loop.load %y_parts[%[[L]] + 4]
// CHECK: loop.for %iro = 0 to ((n mod 8) floordiv 4) reduction(add) {
// CHECK-NEXT: loop.for %iri = 0 to 4 {
// CHECK: loop.store %{{.*}}, %y_parts[%iri]
// CHECK: loop.for %irr = 0 to ((n mod 8) mod 4) {
// CHECK: loop.store %{{.*}}, %y_parts[%irr]
// CHECK: loop.for %[[L:.*]] = 0 to 2 {
// CHECK: loop.for %[[L:.*]] = 0 to 1 {
// CHECK: loop.load %y[0]
// CHECK-NEXT: loop.load %y_parts[0]
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to n reduction(add) {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// Without a remainder nothing is left to join.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %io = 0 to 2 reduction(add) {
// CHECK-NOT: loop.for %ir
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 16 reduction(add) {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[16], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}
