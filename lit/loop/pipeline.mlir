// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-pipeline{kernel=k reduction=k epilogue=e}' | filecheck %s

// The sums of a tile are read among those of the next tile: the first one before all of that, and
// the last one behind it. Five rows among three terms are two, two and one.
// CHECK-LABEL: loop.kernel @k
// CHECK: %a = loop.alloc scratch : !loop.buffer<[2, 5], f32>
// CHECK: loop.for %jf = 0 to 1 {
// CHECK: loop.for %k = 0 to 3 reduction(add) {
// CHECK: loop.store %{{.*}}, %a[%jf, %i_1]
// CHECK-NOT: loop.store %{{.*}}, %y
// CHECK: loop.for %j = 0 to 3 {
// CHECK: loop.store %{{.*}}, %a[((%j + 1) mod 2), %i_2]
// CHECK: loop.for %k_1 = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %i_3 = 0 to 5 {
// CHECK-NEXT: loop.load %x[%j + 1, %i_3, %k_1]
// CHECK: loop.for %e = 2 * %k_1 to min(2 * %k_1 + 2, 5) {
// CHECK-NEXT: loop.load %a[(%j mod 2), %e]
// CHECK-NEXT: loop.store %{{.*}}, %y[%j, %e]
// CHECK: loop.for %jl = 0 to 1 {
// CHECK-NEXT: loop.for %e_1 = 0 to 5 {
// CHECK-NEXT: loop.load %a[%jl + 1, %e_1]
// CHECK-NEXT: loop.store %{{.*}}, %y[%jl + 3, %e_1]
loop.kernel @k(%x: !loop.buffer<[4, 5, 3], f32>, %y: !loop.buffer<[4, 5], f32>) {
  loop.for %j = 0 to 4 {
    %a = loop.alloc scratch : !loop.buffer<[5], f32>
    loop.for %i = 0 to 5 {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %a[%i] : !loop.buffer<[5], f32>
    }
    loop.for %k = 0 to 3 reduction(add) {
      loop.for %i = 0 to 5 {
        %1 = loop.load %x[%j, %i, %k] : !loop.buffer<[4, 5, 3], f32>
        %2 = loop.load %a[%i] : !loop.buffer<[5], f32>
        %3 = arith.addf %1, %2 : f32
        loop.store %3, %a[%i] : !loop.buffer<[5], f32>
      }
    }
    loop.for %e = 0 to 5 {
      %4 = loop.load %a[%e] : !loop.buffer<[5], f32>
      loop.store %4, %y[%j, %e] : !loop.buffer<[4, 5], f32>
    }
  }
}

// -----

// Each iteration adds to what the one before stored.
// CHECK: pipeline requires independent iterations of loop %j
loop.kernel @k(%x: !loop.buffer<[4, 5, 3], f32>, %y: !loop.buffer<[5], f32>) {
  loop.for %j = 0 to 4 {
    loop.for %k = 0 to 3 reduction(add) {
      loop.for %i = 0 to 5 {
        %1 = loop.load %x[%j, %i, %k] : !loop.buffer<[4, 5, 3], f32>
        %2 = loop.load %y[%i] : !loop.buffer<[5], f32>
        %3 = arith.addf %1, %2 : f32
        loop.store %3, %y[%i] : !loop.buffer<[5], f32>
      }
    }
    loop.for %e = 0 to 5 {
      %4 = loop.load %y[%e] : !loop.buffer<[5], f32>
      loop.store %4, %y[%e] : !loop.buffer<[5], f32>
    }
  }
}

// -----

// There is no next iteration.
// CHECK: pipeline requires a loop of at least 2 iterations from zero, got loop %j with 1
loop.kernel @k(%x: !loop.buffer<[3], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %j = 0 to 1 {
    loop.for %k = 0 to 3 reduction(add) {
      %1 = loop.load %x[%k] : !loop.buffer<[3], f32>
      %2 = loop.load %y[%j] : !loop.buffer<[1], f32>
      %3 = arith.addf %1, %2 : f32
      loop.store %3, %y[%j] : !loop.buffer<[1], f32>
    }
    loop.for %e = 0 to 1 {
      %4 = loop.load %y[%j] : !loop.buffer<[1], f32>
      loop.store %4, %y[%j] : !loop.buffer<[1], f32>
    }
  }
}

// -----

// What the iteration loads in front of its sum is another value in the next one.
// CHECK: pipeline requires an epilogue that uses buffers of the iteration alone
loop.kernel @k(%x: !loop.buffer<[4, 3], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %j = 0 to 4 {
    %0 = loop.load %x[%j, 0] : !loop.buffer<[4, 3], f32>
    loop.for %k = 0 to 3 reduction(add) {
      %1 = loop.load %x[%j, %k] : !loop.buffer<[4, 3], f32>
      %2 = loop.load %y[%j] : !loop.buffer<[4], f32>
      %3 = arith.addf %1, %2 : f32
      loop.store %3, %y[%j] : !loop.buffer<[4], f32>
    }
    loop.for %e = 0 to 1 {
      %4 = loop.load %y[%j] : !loop.buffer<[4], f32>
      %5 = arith.addf %0, %4 : f32
      loop.store %5, %y[%j] : !loop.buffer<[4], f32>
    }
  }
}

// -----

// What stands behind the epilogue would come before it.
// CHECK: pipeline requires two nests that end a loop, got loop %k and loop %e
loop.kernel @k(%x: !loop.buffer<[4, 3], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %j = 0 to 4 {
    loop.for %k = 0 to 3 reduction(add) {
      %1 = loop.load %x[%j, %k] : !loop.buffer<[4, 3], f32>
      %2 = loop.load %y[%j] : !loop.buffer<[4], f32>
      %3 = arith.addf %1, %2 : f32
      loop.store %3, %y[%j] : !loop.buffer<[4], f32>
    }
    loop.for %e = 0 to 1 {
      %4 = loop.load %y[%j] : !loop.buffer<[4], f32>
      loop.store %4, %y[%j] : !loop.buffer<[4], f32>
    }
    %5 = arith.constant 0.0 : f32
    loop.store %5, %x[%j, 0] : !loop.buffer<[4, 3], f32>
  }
}
