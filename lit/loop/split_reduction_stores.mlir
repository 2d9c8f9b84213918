// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-split-reduction{kernel=k loop=i parts=4}' | filecheck %s

// What else an iteration stores at an element of its own is stored as before, in the same order.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %io = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %ii = 0 to 4 {
// CHECK-NEXT: loop.load %x[4 * %io + %ii]
// CHECK: loop.store %{{.*}}, %z[4 * %io + %ii]
// CHECK: loop.store %{{.*}}, %y_parts[%ii]
// CHECK: loop.for %ir = 0 to 2 {
// CHECK: loop.store %{{.*}}, %z[%ir + 8]
loop.kernel @k(%x: !loop.buffer<[10], f32>, %z: !loop.buffer<[10], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 10 reduction(add) {
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    loop.store %v, %z[%i] : !loop.buffer<[10], f32>
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// A loop that updates nothing has no partial results.
// CHECK: split_reduction requires a loop marked as a reduction, with updates of its kind only (add), got loop.store of %z[%i]
loop.kernel @k(%x: !loop.buffer<[10], f32>, %z: !loop.buffer<[10], f32>) {
  loop.for %i = 0 to 10 reduction(add) {
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    loop.store %v, %z[%i] : !loop.buffer<[10], f32>
  }
}
