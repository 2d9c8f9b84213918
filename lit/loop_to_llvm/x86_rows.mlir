// RUN: weft-opt %s -p weft-set-target{cpu=x86-64-v3} -t weft-asm | filecheck %s

// The greatest number of a row is never NaN, so that one comparison tells whether another one is greater; the next row is read ahead.
// CHECK-LABEL: weft.greatest:
// CHECK:       prefetcht0
// CHECK-NOT:   vcmpunord
// CHECK:       vmaxps
// CHECK-NOT:   vcmpunord
// CHECK:       retq
loop.kernel @greatest(%x: !loop.buffer<[4, 64], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    %m = loop.alloc registers : !loop.buffer<[8], f32>
    loop.for %l = 0 to 8 unroll vector(8) {
      %least = arith.constant 0xff800000 : f32
      loop.store %least, %m[%l] : !loop.buffer<[8], f32>
    }
    loop.for %k = 0 to 8 {
      loop.for %l = 0 to 8 unroll vector(8) {
        loop.prefetch %x[%i + 1, 8 * %k + %l] : !loop.buffer<[4, 64], f32>
        %v = loop.load %x[%i, 8 * %k + %l] : !loop.buffer<[4, 64], f32>
        %g = loop.load %m[%l] : !loop.buffer<[8], f32>
        %n = arith.maxnumf %g, %v : f32
        loop.store %n, %m[%l] : !loop.buffer<[8], f32>
      }
    }
    loop.for %l = 0 to 8 unroll vector(8) {
      %g = loop.load %m[%l] : !loop.buffer<[8], f32>
      loop.store %g, %y[%i, %l] : !loop.buffer<[4, 8], f32>
    }
  }
}

// Of two that may be NaN the one that is a number is taken.
// CHECK-LABEL: weft.greater:
// CHECK:       vcmpunordps
// CHECK:       retq
loop.kernel @greater(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %l = 0 to 8 unroll vector(8) {
    %v = loop.load %x[%l] : !loop.buffer<[8], f32>
    %g = loop.load %y[%l] : !loop.buffer<[8], f32>
    %n = arith.maxnumf %g, %v : f32
    loop.store %n, %y[%l] : !loop.buffer<[8], f32>
  }
}
