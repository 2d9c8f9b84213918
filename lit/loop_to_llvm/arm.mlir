// RUN: weft-opt %s -p weft-set-target{cpu=aarch64} -t weft-asm | filecheck %s

// Eight lanes are two NEON registers; a product and a sum are one instruction on each.
// CHECK-LABEL: weft.multiply_add:
// CHECK:       fmla v{{[0-9]+}}.4s
// CHECK-NEXT:  fmla v{{[0-9]+}}.4s
// CHECK:       ret
loop.kernel @multiply_add(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 vector(8) {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    %u = loop.load %y[%i] : !loop.buffer<[8], f32>
    %p = arith.mulf %v, %v : f32
    %w = arith.addf %p, %u : f32
    loop.store %w, %y[%i] : !loop.buffer<[8], f32>
  }
}
