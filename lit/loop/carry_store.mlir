// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-carry-store{kernel=k load="j:0"}' | filecheck %s

// The next element is computed from a register; memory is only written.
// CHECK-LABEL: loop.kernel @k
// CHECK: %[[S:.+]] = loop.alloc scratch : !loop.buffer<[], f32>
// CHECK-NEXT: %[[A:.+]] = loop.load %y[0]
// CHECK-NEXT: loop.store %[[A]], %[[S]][]
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK-NEXT: %[[B:.+]] = loop.load %[[S]][]
// CHECK-NEXT: %[[C:.+]] = arith.addf %[[B]], %[[B]]
// CHECK-NEXT: loop.store %[[C]], %y[%j + 1]
// CHECK-NEXT: loop.store %[[C]], %[[S]][]
loop.kernel @k(%y: !loop.buffer<[9], f32>) {
  loop.for %j = 0 to 8 {
    %a = loop.load %y[%j] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j + 1] : !loop.buffer<[9], f32>
  }
}

// -----

// CHECK: carry_store requires a store to where the next iteration loads, got loop.store of %y[%j]
loop.kernel @k(%y: !loop.buffer<[9], f32>) {
  loop.for %j = 0 to 8 {
    %a = loop.load %y[%j] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j] : !loop.buffer<[9], f32>
  }
}

// -----

// The element may be stored in no iteration, or in each.
// CHECK: carry_store requires the store behind the load in every iteration, got loop.store of %y[%j + 1]
loop.kernel @k(%y: !loop.buffer<[9], f32>) {
  loop.for %j = 0 to 8 {
    %a = loop.load %y[%j] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    %c = arith.cmpf olt, %a, %b : f32
    loop.if %c {
      loop.store %b, %y[%j + 1] : !loop.buffer<[9], f32>
    }
  }
}

// -----

// CHECK: carry_store requires one store to the buffer in the loop, got loop.load of %y[%j]
loop.kernel @k(%y: !loop.buffer<[9], f32>) {
  loop.for %j = 0 to 8 {
    %a = loop.load %y[%j] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j + 1] : !loop.buffer<[9], f32>
    loop.store %b, %y[0] : !loop.buffer<[9], f32>
  }
}

// -----

// Of no iterations none reads the first element.
// CHECK: carry_store requires a loop that runs at least once, got loop %j
loop.kernel @k[n](%y: !loop.buffer<[9], f32>) {
  loop.for %j = 0 to n {
    %a = loop.load %y[%j] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j + 1] : !loop.buffer<[9], f32>
  }
}

// -----

// CHECK: carry_store requires a loop without marks around the load, got loop.load of %y[%j]
loop.kernel @k(%y: !loop.buffer<[9], f32>) {
  loop.for %j = 0 to 8 unroll {
    %a = loop.load %y[%j] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%j + 1] : !loop.buffer<[9], f32>
  }
}

// -----

// CHECK: carry_store requires an element that indices of loops alone decide, got loop.load of %y[%d]
loop.kernel @k(%y: !loop.buffer<[9], f32>, %x: !loop.buffer<[8], i64>) {
  %c = loop.load %x[0] : !loop.buffer<[8], i64>
  %d = arith.index_cast %c : i64 to index
  loop.for %j = 0 to 8 {
    %a = loop.load %y[%d] : !loop.buffer<[9], f32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %y[%d] : !loop.buffer<[9], f32>
  }
}
