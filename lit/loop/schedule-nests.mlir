// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Nests that no operator is lowered to.

// Permission to reassociate is needed for a sum along a row to run in vectors; without, the row's other loop has them.
// CHECK-LABEL: loop.kernel @ordered
// CHECK: loop.for %i = 0 to 4 parallel {
// CHECK: loop.for %k = 0 to 64 {
// CHECK: loop.for %j = 0 to 64 vector(8) {
loop.kernel @ordered(%x: !loop.buffer<[4, 64], f32>, %y: !loop.buffer<[4, 64], f32>) {
  %sum = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.for %i = 0 to 4 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %sum[%i] : !loop.buffer<[4], f32>
  }
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 64 {
      %v = loop.load %x[%i, %k] : !loop.buffer<[4, 64], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[4], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %sum[%i] : !loop.buffer<[4], f32>
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 64], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[4], f32>
      %w = arith.subf %v, %s : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[4, 64], f32>
    }
  }
}

// -----

// Three elements are added up one by one.
// CHECK-LABEL: loop.kernel @few
// CHECK: loop.for %{{.*}} = 0 to 3 reduction(add) {
// CHECK-NOT: vector
loop.kernel @few(%x: !loop.buffer<[64, 3], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 64 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[64], f32>
    loop.for %k = 0 to 3 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[64, 3], f32>
      %s = loop.load %y[%i] : !loop.buffer<[64], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%i] : !loop.buffer<[64], f32>
    }
  }
}

// -----

// Each element needs the one before, which is kept in a register: the loop stays as it is.
// CHECK-LABEL: loop.kernel @carried
// CHECK-NEXT: %[[S:.+]] = loop.alloc scratch
// CHECK: loop.for %i = 0 to 64 {
// CHECK-NEXT: loop.load %[[S]][]
loop.kernel @carried(%y: !loop.buffer<[65], f32>) {
  loop.for %i = 0 to 64 {
    %v = loop.load %y[%i] : !loop.buffer<[65], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i + 1] : !loop.buffer<[65], f32>
  }
}
