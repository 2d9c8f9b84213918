// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-block-reduction{kernel=k loop=i size=4}' | filecheck %s

// A sum of each block of 4, the rest, and the sum of the sums: blocks may run in parallel.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %y_parts = loop.alloc workspace : !loop.buffer<[2], f32>
// CHECK-NEXT: loop.for %io = 0 to 2 {
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: loop.store %[[ZERO]], %y_parts[%io]
// CHECK-NEXT: loop.for %ii = 0 to 4 reduction(add) {
// CHECK: loop.store %{{.*}}, %y_parts[%io]
// CHECK: loop.for %ir = 0 to 2 reduction(add) {
// CHECK: loop.store %{{.*}}, %y[0]
// CHECK: loop.for %[[L:.*]] = 0 to 2 reduction(add) {
// CHECK: loop.load %y_parts[%[[L]]]
// CHECK: loop.store %{{.*}}, %y[0]
loop.kernel @k(%x: !loop.buffer<[10], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 10 reduction(add) {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// Of a loop around another, each block has partial results of all that they update.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %[[P:.*]] = loop.alloc workspace : !loop.buffer<[2, 3], f32>
// CHECK-NEXT: loop.for %io = 0 to 2 {
// CHECK-NEXT: loop.for %[[J:.*]] = 0 to 3 {
// CHECK: loop.store %{{.*}}, %[[P]][%io, %[[J]]]
// CHECK: loop.for %ii = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %j = 0 to 3 {
// CHECK: loop.store %{{.*}}, %[[P]][%io, %j]
// CHECK: loop.for %[[L:.*]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[J:.*]] = 0 to 3 {
// CHECK: loop.load %[[P]][%[[L]], %[[J]]]
// CHECK: loop.store %{{.*}}, %y[%[[J]]]
// CHECK: loop.for %ir = 0 to 2 reduction(add) {
// CHECK: loop.store %{{.*}}, %y[%j
loop.kernel @k(%x: !loop.buffer<[10, 3], f32>, %y: !loop.buffer<[3], f32>) {
  loop.for %i = 0 to 10 reduction(add) {
    loop.for %j = 0 to 3 {
      %s = loop.load %y[%j] : !loop.buffer<[3], f32>
      %v = loop.load %x[%i, %j] : !loop.buffer<[10, 3], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%j] : !loop.buffer<[3], f32>
    }
  }
}

// -----

// The partial results lie in the workspace, which is allocated once a call.
// CHECK: block_reduction requires an outermost loop, got loop %i
loop.kernel @k(%x: !loop.buffer<[2, 10], f32>, %y: !loop.buffer<[2], f32>) {
  loop.for %j = 0 to 2 {
    loop.for %i = 0 to 10 reduction(add) {
      %s = loop.load %y[%j] : !loop.buffer<[2], f32>
      %v = loop.load %x[%j, %i] : !loop.buffer<[2, 10], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%j] : !loop.buffer<[2], f32>
    }
  }
}

// -----

// Without the mark, no permission.
// CHECK: block_reduction requires a loop marked as a reduction, with updates of its kind only (None)
loop.kernel @k(%x: !loop.buffer<[10], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 10 {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}
