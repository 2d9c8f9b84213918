// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Contractions whose nests no operator is lowered to alone: without permission to reassociate, and in blocked layouts.

// Without permission to reassociate nothing is a reduction, and no vector runs over it.
// CHECK-LABEL: loop.kernel @ordered
// CHECK-NOT: registers
// CHECK: loop.for %k = 0 to 64 {
loop.kernel @ordered(%x: !loop.buffer<[64], f32>, %w: !loop.buffer<[64], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %k = 0 to 64 {
    %a = loop.load %x[%k] : !loop.buffer<[64], f32>
    %b = loop.load %w[%k] : !loop.buffer<[64], f32>
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// Channels in blocks: rows and columns of the image are one loop all the same, of 4 tiles of 6 and 5 of 5 pixels; the
// terms written out are those of a block.
// CHECK-LABEL: loop.kernel @pixels_in_blocks
// CHECK: loop.for %[[P:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK: loop.alloc registers : !loop.buffer<[1, 16, 6], f32
// CHECK: loop.for %[[CO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[CI:[a-z_0-9]+]] = 0 to 8 unroll reduction(add) {
// CHECK: loop.load %x[0, 8 * %[[CO]] + %[[CI]], ((6 * %[[P]] + %{{.*}}) floordiv 7)
// CHECK: loop.store %{{.*}}, %y[0, {{.*}}, ((6 * %[[P]] + %{{.*}}) floordiv 7)
// CHECK: loop.for %{{.*}} = 0 to 5 parallel {
// CHECK: loop.alloc registers : !loop.buffer<[1, 16, 5], f32
loop.kernel @pixels_in_blocks(%x: !loop.buffer<[1, 16, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 7, 7, 8]>, %w: !loop.buffer<[32, 16], f32>, %y: !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>) attributes {weights = [#builtin.int<1>]} {
  %sums = loop.alloc workspace : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
  loop.for %o = 0 to 32 {
    loop.for %h = 0 to 7 {
      loop.for %v = 0 to 7 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
      }
    }
  }
  loop.for %o = 0 to 32 {
    loop.for %h = 0 to 7 {
      loop.for %v = 0 to 7 {
        loop.for %c = 0 to 16 reduction(add) {
          %a = loop.load %x[0, %c, %h, %v] : !loop.buffer<[1, 16, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 7, 7, 8]>
          %b = loop.load %w[%o, %c] : !loop.buffer<[32, 16], f32>
          %s = loop.load %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
        }
      }
    }
  }
  loop.for %o = 0 to 32 {
    loop.for %h = 0 to 7 {
      loop.for %v = 0 to 7 {
        %s = loop.load %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
        %n = arith.negf %s : f32
        loop.store %n, %y[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
      }
    }
  }
}

// -----

// A short reduction is unrolled, but in a brief kernel, whose code takes longer to compile than it ever runs.
// CHECK-LABEL: loop.kernel @short
// CHECK: loop.for %{{.*}} = 0 to 8 unroll reduction(add) {
// CHECK-LABEL: loop.kernel @brief
// CHECK: loop.for %{{.*}} = 0 to 8 reduction(add) {
builtin.module attributes {weft.target = "x86-64-v4"} {
loop.kernel @short(%x: !loop.buffer<[32, 8], f32>, %w: !loop.buffer<[8, 8], f32>, %y: !loop.buffer<[32, 8], f32>) {
  loop.for %i = 0 to 32 {
    loop.for %j = 0 to 8 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[32, 8], f32>
    }
  }
  loop.for %i = 0 to 32 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 8 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[32, 8], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[8, 8], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[32, 8], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[32, 8], f32>
      }
    }
  }
}
loop.kernel @brief(%x: !loop.buffer<[32, 8], f32>, %w: !loop.buffer<[8, 8], f32>, %y: !loop.buffer<[32, 8], f32>) attributes {brief} {
  loop.for %i = 0 to 32 {
    loop.for %j = 0 to 8 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[32, 8], f32>
    }
  }
  loop.for %i = 0 to 32 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 8 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[32, 8], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[8, 8], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[32, 8], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[32, 8], f32>
      }
    }
  }
}
}
