// RUN: weft-opt %s -p weft-set-target{cpu=x86-64-v3} -t weft-asm | filecheck %s

// A product and a sum are one instruction on 8 lanes, and nothing is called.
// CHECK-LABEL: weft.multiply_add:
// CHECK:       vfmadd
// CHECK-SAME:  %ymm
// CHECK-NOT:   call
// CHECK:       retq
loop.kernel @multiply_add(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 vector(8) {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    %u = loop.load %y[%i] : !loop.buffer<[8], f32>
    %p = arith.mulf %v, %v : f32
    %w = arith.addf %p, %u : f32
    loop.store %w, %y[%i] : !loop.buffer<[8], f32>
  }
}
