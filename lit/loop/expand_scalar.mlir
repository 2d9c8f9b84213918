// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-expand-scalar{kernel=k op="j:1"}' | filecheck %s

// What each iteration computes has an element, which everything behind it loads.
// CHECK-LABEL: loop.kernel @k
// CHECK: %[[T:.+]] = loop.alloc scratch : !loop.buffer<[8], f32>
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK-NEXT: %[[A:.+]] = loop.load %x[%j]
// CHECK-NEXT: %[[B:.+]] = arith.addf %[[A]], %[[A]]
// CHECK-NEXT: loop.store %[[B]], %[[T]][%j]
// CHECK-NEXT: %[[C:.+]] = loop.load %[[T]][%j]
// CHECK-NEXT: %[[D:.+]] = arith.mulf %[[C]], %[[A]]
// CHECK-NEXT: loop.store %[[D]], %y[%j]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %j = 0 to 8 {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    %b = arith.addf %a, %a : f32
    %c = arith.mulf %b, %a : f32
    loop.store %c, %y[%j] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: expand_scalar requires a loop without marks around the operation, got arith.addf
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %j = 0 to 8 unroll {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: expand_scalar requires a loop that counts from 0 by 1 to a constant, got loop %j
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %j = 0 to n {
    %a = loop.load %x[%j] : !loop.buffer<[n], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j] : !loop.buffer<[n], f32>
  }
}

// -----

// CHECK: expand_scalar requires an operation that computes one number, got loop.store
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %j = 0 to 8 {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %a, %y[%j] : !loop.buffer<[8], f32>
  }
}
