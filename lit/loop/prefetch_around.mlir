// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch{kernel=k access="j:0" loop=k before=j around=i}' | filecheck %s

// The next block of a row; behind the last one, the first of the next row.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %k = 0 to 4 {
// CHECK-NEXT: loop.for %[[P:.*]] = 0 to 16 step 16 {
// CHECK-NEXT: loop.prefetch %x[%i + ((%k + 1) floordiv 4), %[[P]] + 16 * ((%k + 1) mod 4)] : !loop.buffer<[8, 64], f32>
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %j = 0 to 16 {
loop.kernel @k(%x: !loop.buffer<[8, 64], f32>, %y: !loop.buffer<[8, 64], f32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 4 {
      loop.for %j = 0 to 16 {
        %v = loop.load %x[%i, 16 * %k + %j] : !loop.buffer<[8, 64], f32>
        loop.store %v, %y[%i, 16 * %k + %j] : !loop.buffer<[8, 64], f32>
      }
    }
  }
}

// -----

// CHECK: prefetch requires a loop of known length in another, got loop %k and loop %i
loop.kernel @k[n](%x: !loop.buffer<[8, n, 16], f32>, %y: !loop.buffer<[8, n, 16], f32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to n {
      loop.for %j = 0 to 16 {
        %v = loop.load %x[%i, %k, %j] : !loop.buffer<[8, n, 16], f32>
        loop.store %v, %y[%i, %k, %j] : !loop.buffer<[8, n, 16], f32>
      }
    }
  }
}

// -----

// CHECK: prefetch requires a loop of known length in another, got loop %k and loop %i
loop.kernel @k(%x: !loop.buffer<[8, 16], f32>, %y: !loop.buffer<[8, 16], f32>, %z: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %u = loop.load %x[%i, 0] : !loop.buffer<[8, 16], f32>
    loop.store %u, %z[%i] : !loop.buffer<[8], f32>
  }
  loop.for %k = 0 to 8 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%k, %j] : !loop.buffer<[8, 16], f32>
      loop.store %v, %y[%k, %j] : !loop.buffer<[8, 16], f32>
    }
  }
}
