// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-compute-among{kernel=k nest=e reduction=k}' | filecheck %s

// A panel's copy is filled among the sums of the other one: five rows among three terms are two, two
// and one.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %c = 0 to 3 {
// CHECK-NEXT: loop.for %k = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.load %p[(%c mod 2), %k]
// CHECK: loop.for %e = 2 * %k to min(2 * %k + 2, 5) {
// CHECK-NEXT: loop.load %x[%c, %e]
// CHECK-NEXT: loop.store %{{.*}}, %p[((%c + 1) mod 2), %e]
loop.kernel @k(%x: !loop.buffer<[3, 5], f32>, %y: !loop.buffer<[1], f32>) {
  %p = loop.alloc scratch : !loop.buffer<[2, 5], f32>
  loop.for %c = 0 to 3 {
    loop.for %k = 0 to 3 reduction(add) {
      %1 = loop.load %p[%c mod 2, %k] : !loop.buffer<[2, 5], f32>
      %2 = loop.load %y[0] : !loop.buffer<[1], f32>
      %3 = arith.addf %1, %2 : f32
      loop.store %3, %y[0] : !loop.buffer<[1], f32>
    }
    loop.for %e = 0 to 5 {
      %4 = loop.load %x[%c, %e] : !loop.buffer<[3, 5], f32>
      loop.store %4, %p[(%c + 1) mod 2, %e] : !loop.buffer<[2, 5], f32>
    }
  }
}

// -----

// Of three copies the one after the next but one is that which is read.
// CHECK: compute_among requires that neighbours which change places are independent
loop.kernel @k(%x: !loop.buffer<[3, 5], f32>, %y: !loop.buffer<[1], f32>) {
  %p = loop.alloc scratch : !loop.buffer<[3, 5], f32>
  loop.for %c = 0 to 3 {
    loop.for %k = 0 to 3 reduction(add) {
      %1 = loop.load %p[%c mod 3, %k] : !loop.buffer<[3, 5], f32>
      %2 = loop.load %y[0] : !loop.buffer<[1], f32>
      %3 = arith.addf %1, %2 : f32
      loop.store %3, %y[0] : !loop.buffer<[1], f32>
    }
    loop.for %e = 0 to 5 {
      %4 = loop.load %x[%c, %e] : !loop.buffer<[3, 5], f32>
      loop.store %4, %p[(%c + 3) mod 3, %e] : !loop.buffer<[3, 5], f32>
    }
  }
}

// -----

// How long the nest is only a call knows.
// CHECK: compute_among requires a loop of at least 1 iterations from zero, got loop %e with n
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[1], f32>, %z: !loop.buffer<[n], f32>) {
  loop.for %k = 0 to 3 reduction(add) {
    %2 = loop.load %y[0] : !loop.buffer<[1], f32>
    %3 = arith.addf %2, %2 : f32
    loop.store %3, %y[0] : !loop.buffer<[1], f32>
  }
  loop.for %e = 0 to n {
    %4 = loop.load %x[%e] : !loop.buffer<[n], f32>
    loop.store %4, %z[%e] : !loop.buffer<[n], f32>
  }
}

// -----

// The nest is in front of the reduction.
// CHECK: compute_among requires a nest behind a reduction, got loop %e and loop %k
loop.kernel @k(%x: !loop.buffer<[5], f32>, %y: !loop.buffer<[1], f32>, %z: !loop.buffer<[5], f32>) {
  loop.for %e = 0 to 5 {
    %4 = loop.load %x[%e] : !loop.buffer<[5], f32>
    loop.store %4, %z[%e] : !loop.buffer<[5], f32>
  }
  loop.for %k = 0 to 3 reduction(add) {
    %2 = loop.load %y[0] : !loop.buffer<[1], f32>
    %3 = arith.addf %2, %2 : f32
    loop.store %3, %y[0] : !loop.buffer<[1], f32>
  }
}
