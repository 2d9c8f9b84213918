// RUN: weft-opt -p weft-choose-layouts,weft-name-variants --split-input-file %s | filecheck %s

// Between two convolutions channels lie in blocks of the 8 lanes of a vector; what the caller sees stays row-major.
// Subscripts are logical: the kernels' bodies stay as they are, and their temporaries follow.
// CHECK-LABEL: loop.kernel @conv_
// CHECK-SAME: %a0: !loop.buffer<[1, 16, 5, 5], f32>, %a1: !loop.buffer<[16, 16], f32>
// CHECK-SAME: %a2: !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
// CHECK: %total = loop.alloc workspace : !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
// CHECK: loop.kernel @conv_
// CHECK-SAME: %a0: !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
// CHECK-SAME: %a2: !loop.buffer<[1, 16, 5, 5], f32>)
// CHECK-LABEL: loop.program @main
// CHECK-SAME: %in: !loop.buffer<[1, 16, 5, 5], f32>, %out: !loop.buffer<[1, 16, 5, 5], f32>)
// CHECK-NEXT: loop.weight "w" : !loop.buffer<[16, 16], f32>
// CHECK-NEXT: %{{.*}} = loop.alloc workspace : !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
loop.kernel @conv_1(%x: !loop.buffer<[1, 16, 5, 5], f32>, %w: !loop.buffer<[16, 16], f32>, %y: !loop.buffer<[1, 16, 5, 5], f32>) attributes {weights = [#builtin.int<1>]} {
  %total = loop.alloc workspace : !loop.buffer<[1, 16, 5, 5], f32>
  loop.for %o = 0 to 16 {
    loop.for %h = 0 to 5 {
      loop.for %p = 0 to 5 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %total[0, %o, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32>
      }
    }
  }
  loop.for %o = 0 to 16 {
    loop.for %h = 0 to 5 {
      loop.for %p = 0 to 5 {
        loop.for %c = 0 to 16 reduction(add) {
          %t = loop.load %total[0, %o, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32>
          %a = loop.load %x[0, %c, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32>
          %b = loop.load %w[%o, %c] : !loop.buffer<[16, 16], f32>
          %m = arith.mulf %a, %b : f32
          %s = arith.addf %t, %m : f32
          loop.store %s, %total[0, %o, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32>
        }
      }
    }
  }
  loop.for %o = 0 to 16 {
    loop.for %h = 0 to 5 {
      loop.for %p = 0 to 5 {
        %t = loop.load %total[0, %o, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32>
        %r = math.absf %t : f32
        loop.store %r, %y[0, %o, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32>
      }
    }
  }
}
loop.program @main(%in: !loop.buffer<[1, 16, 5, 5], f32>, %out: !loop.buffer<[1, 16, 5, 5], f32>) inputs 1 {
  %w = loop.weight "w" : !loop.buffer<[16, 16], f32>
  %x = loop.alloc workspace : !loop.buffer<[1, 16, 5, 5], f32>
  loop.call @conv_1(%in, %w, %x) : !loop.buffer<[1, 16, 5, 5], f32>, !loop.buffer<[16, 16], f32>, !loop.buffer<[1, 16, 5, 5], f32>
  loop.call @conv_1(%x, %w, %out) : !loop.buffer<[1, 16, 5, 5], f32>, !loop.buffer<[16, 16], f32>, !loop.buffer<[1, 16, 5, 5], f32>
}

// -----

// A copy that moves whole rows has nothing to gain: the program stays as it is.
// CHECK-LABEL: loop.kernel @copy_1(%x: !loop.buffer<[1, 16, 6, 32], f32>, %y: !loop.buffer<[1, 16, 6, 32], f32>)
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %x = loop.alloc workspace : !loop.buffer<[1, 16, 6, 32], f32>
loop.kernel @copy_1(%x: !loop.buffer<[1, 16, 6, 32], f32>, %y: !loop.buffer<[1, 16, 6, 32], f32>) {
  loop.for %c = 0 to 16 {
    loop.for %h = 0 to 6 {
      loop.for %p = 0 to 32 {
        %v = loop.load %x[0, %c, %h, %p] : !loop.buffer<[1, 16, 6, 32], f32>
        loop.store %v, %y[0, %c, %h, %p] : !loop.buffer<[1, 16, 6, 32], f32>
      }
    }
  }
}
loop.program @main(%in: !loop.buffer<[1, 16, 6, 32], f32>, %out: !loop.buffer<[1, 16, 6, 32], f32>) inputs 1 {
  %x = loop.alloc workspace : !loop.buffer<[1, 16, 6, 32], f32>
  loop.call @copy_1(%in, %x) : !loop.buffer<[1, 16, 6, 32], f32>, !loop.buffer<[1, 16, 6, 32], f32>
  loop.call @copy_1(%x, %out) : !loop.buffer<[1, 16, 6, 32], f32>, !loop.buffer<[1, 16, 6, 32], f32>
}
