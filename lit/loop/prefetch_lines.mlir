// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch{kernel=k access="r:0" loop=i before=t}' | filecheck %s

// In front of the terms, each line of 16 elements once, of every row that they read a tile later.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %b = 0 to 8 {
// CHECK-NEXT: loop.for %[[P:.*]] = 0 to 32 step 16 {
// CHECK-NEXT: loop.for %[[R:.*]] = 0 to 4 {
// CHECK-NEXT: loop.prefetch %x[4 * %i + %[[R]] + 4, 32 * %b + %[[P]]] : !loop.buffer<[64, 256], f32>
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %t = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %r = 0 to 4 {
// CHECK-NEXT: loop.load %x[4 * %i + %r, 32 * %b + %t]
loop.kernel @k(%x: !loop.buffer<[64, 256], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 16 {
    loop.for %b = 0 to 8 {
      loop.for %t = 0 to 32 reduction(add) {
        loop.for %r = 0 to 4 {
          %v = loop.load %x[4 * %i + %r, 32 * %b + %t] : !loop.buffer<[64, 256], f32>
          %s = loop.load %y[4 * %i + %r] : !loop.buffer<[64], f32>
          %a = arith.addf %s, %v : f32
          loop.store %a, %y[4 * %i + %r] : !loop.buffer<[64], f32>
        }
      }
    }
  }
}

// -----

// Elements that lie apart have lines of their own.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %[[P:.*]] = 0 to 32 {
// CHECK-NEXT: loop.prefetch %x[%[[P]], %i + 1]
loop.kernel @k(%x: !loop.buffer<[32, 256], f32>, %y: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 256 {
    loop.for %t = 0 to 32 {
      loop.for %r = 0 to 1 {
        %v = loop.load %x[%t, %i] : !loop.buffer<[32, 256], f32>
        loop.store %v, %y[%t] : !loop.buffer<[32], f32>
      }
    }
  }
}

// -----

// A loop of one iteration moves the load as well, though no address depends on it.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %[[P:.*]] = 0 to 32 {
// CHECK-NEXT: loop.for %[[R:.*]] = 0 to 1 {{.*}}{
// CHECK-NEXT: loop.prefetch %x[%[[P]] + %[[R]], %i + 1]
loop.kernel @k(%x: !loop.buffer<[32, 256], f32>, %y: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 256 {
    loop.for %t = 0 to 32 {
      loop.for %r = 0 to 1 {
        %v = loop.load %x[%t + %r, %i] : !loop.buffer<[32, 256], f32>
        loop.store %v, %y[%t] : !loop.buffer<[32], f32>
      }
    }
  }
}

// -----

// CHECK: prefetch requires loops that do not depend on each other, got loop %r
loop.kernel @k(%x: !loop.buffer<[32, 256], f32>, %y: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    loop.for %t = 0 to 16 {
      loop.for %r = 0 to %t {
        %v = loop.load %x[%i, %r + %t] : !loop.buffer<[32, 256], f32>
        loop.store %v, %y[%i] : !loop.buffer<[32], f32>
      }
    }
  }
}

// -----

// CHECK: prefetch requires a loop between, got loop %t and loop.load of %x[%i, %r]
loop.kernel @k(%x: !loop.buffer<[32, 256], f32>, %y: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    loop.for %r = 0 to 16 {
      %v = loop.load %x[%i, %r] : !loop.buffer<[32, 256], f32>
      loop.store %v, %y[%i] : !loop.buffer<[32], f32>
    }
    loop.for %t = 0 to 16 {
      %v = loop.load %x[%i, %t] : !loop.buffer<[32, 256], f32>
      loop.store %v, %y[%i] : !loop.buffer<[32], f32>
    }
  }
}
