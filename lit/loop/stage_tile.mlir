// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-stage-tile{kernel=k source=y at=i}' | filecheck %s

// A row of sums in registers: overwritten first, so not loaded; an argument, so written back.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: %y_r = loop.alloc registers : !loop.buffer<[1, 8], f32>
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK: loop.store %{{.*}}, %y_r[0, %j]
// CHECK: loop.for %k = 0 to 16 reduction(add) {
// CHECK-NOT: %y[
// CHECK: loop.store %{{.*}}, %y_r[0, %m]
// CHECK: loop.for %st1 = 0 to 8 {
// CHECK-NEXT: %[[V:.*]] = loop.load %y_r[0, %st1]
// CHECK-NEXT: loop.store %[[V]], %y[%i, %st1]
loop.kernel @k(%x: !loop.buffer<[4, 8, 16], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
    loop.for %k = 0 to 16 reduction(add) {
      loop.for %m = 0 to 8 {
        %s = loop.load %y[%i, %m] : !loop.buffer<[4, 8], f32>
        %v = loop.load %x[%i, %m, %k] : !loop.buffer<[4, 8, 16], f32>
        %t = arith.addf %s, %v : f32
        loop.store %t, %y[%i, %m] : !loop.buffer<[4, 8], f32>
      }
    }
  }
}

// -----

// Writing the whole row back would write what nobody stored.
// CHECK: stage_tile requires a store to the whole tile of %y, got loop.store of
loop.kernel @k(%y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, 2 * %j] : !loop.buffer<[4, 8], f32>
    }
  }
}

// -----

// What is brought near of the buffer itself stays so, next to the copy of a tile.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.prefetch %y[%i + 1, 0] : !loop.buffer<[4, 8], f32>
// CHECK: loop.store %zero, %y_r[0, %j]
// CHECK: loop.store %{{.*}}, %y[%i, %{{.*}}]
loop.kernel @k(%y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.prefetch %y[%i + 1, 0] : !loop.buffer<[4, 8], f32>
    loop.for %j = 0 to 8 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
}

// -----

// A local buffer may go with its copy in its place: nothing else refers to it.
// CHECK: stage_tile requires that %y is only loaded and stored, got loop.prefetch
loop.kernel @k(%x: !loop.buffer<[4, 8], f32>, %z: !loop.buffer<[4, 8], f32>) {
  %y = loop.alloc scratch : !loop.buffer<[4, 8], f32>
  loop.for %i = 0 to 4 {
    loop.prefetch %y[%i, 0] : !loop.buffer<[4, 8], f32>
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
    loop.for %m = 0 to 8 {
      %w = loop.load %y[%i, %m] : !loop.buffer<[4, 8], f32>
      loop.store %w, %z[%i, %m] : !loop.buffer<[4, 8], f32>
    }
  }
}

// -----

// A remainder goes up and down: its box is all that it can be.
// CHECK-LABEL: loop.kernel @k
// CHECK: %y_r = loop.alloc registers : !loop.buffer<[1, 4], f32>
// CHECK: loop.for %[[L:.*]] = 0 to 4 {
// CHECK-NEXT: %[[V:.*]] = loop.load %y[%i, %[[L]]]
// CHECK-NEXT: loop.store %[[V]], %y_r[0, %[[L]]]
// CHECK: loop.load %y_r[0, (%j mod 4)]
loop.kernel @k(%y: !loop.buffer<[4, 4], f32>, %z: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %y[%i, %j mod 4] : !loop.buffer<[4, 4], f32>
      loop.store %v, %z[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
}

// -----

// Not where it could be behind the end of the dim, as far as its divisor tells.
// CHECK: stage_tile requires subscripts that are known to lie in a box, got loop.load of
loop.kernel @k(%y: !loop.buffer<[4, 7], f32>, %z: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %y[%i, (3 * %j + 2 * (%j floordiv 4)) mod 8] : !loop.buffer<[4, 7], f32>
      loop.store %v, %z[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
}
