// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-distribute{kernel=k loop=i before="i:2"}' | filecheck %s

// The constant is needed twice.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.0
// CHECK-NEXT: loop.store %[[ONE]], %x[%i]
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %[[I:.*]] = 0 to 4 {
// CHECK-NEXT: %[[AGAIN:.*]] = arith.constant 1.0
// CHECK-NEXT: loop.store %[[AGAIN]], %y[%[[I]]]
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%i] : !loop.buffer<[4], f32>
    loop.store %one, %y[%i] : !loop.buffer<[4], f32>
  }
}

// -----

// CHECK: distribute requires that the parts share only constants and index arithmetic, got loop.load of %x[%i]
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}
