// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// The loop over channels is cut at the blocks in which they lie, and what is within a block is the vector, however many
// numbers there are of each channel.
// CHECK-LABEL: loop.kernel @scale
// CHECK: loop.for %[[CO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[P:[a-z_0-9]+]] = 0 to 36 {
// CHECK-NEXT: loop.for %[[CI:[a-z_0-9]+]] = 0 to 8 vector(8) {
// CHECK-NEXT: loop.load %x[0, 8 * %[[CO]] + %[[CI]], (%[[P]] floordiv 6), (%[[P]] mod 6)]
// CHECK-NEXT: loop.load %s[8 * %[[CO]] + %[[CI]]]
// CHECK: loop.load %b[8 * %[[CO]] + %[[CI]]]
loop.kernel @scale(%x: !loop.buffer<[1, 16, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 6, 6, 8]>, %s: !loop.buffer<[16], f32>, %b: !loop.buffer<[16], f32>, %m: !loop.buffer<[16], f32>, %y: !loop.buffer<[1, 16, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 6, 6, 8]>) {
  loop.for %c = 0 to 16 {
    loop.for %h = 0 to 6 {
      loop.for %p = 0 to 6 {
        %v = loop.load %x[0, %c, %h, %p] : !loop.buffer<[1, 16, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 6, 6, 8]>
        %f = loop.load %s[%c] : !loop.buffer<[16], f32>
        %q = arith.mulf %v, %f : f32
        %g = loop.load %b[%c] : !loop.buffer<[16], f32>
        %u = arith.addf %q, %g : f32
        %l = loop.load %m[%c] : !loop.buffer<[16], f32>
        %r = arith.maximumf %u, %l : f32
        loop.store %r, %y[0, %c, %h, %p] : !loop.buffer<[1, 16, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 6, 6, 8]>
      }
    }
  }
}

// -----

// A single block of channels is one all the same.
// CHECK-LABEL: loop.kernel @one_block
// CHECK: loop.for %{{.*}} = 0 to 18 parallel {
// CHECK-NEXT: loop.for %[[CI:[a-z_0-9]+]] = 0 to 8 vector(8) {
// CHECK-NEXT: loop.load %x[0, %[[CI]], {{.*}}]
loop.kernel @one_block(%x: !loop.buffer<[1, 8, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 1, 6, 6, 8]>, %y: !loop.buffer<[1, 8, 6, 3], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 1, 6, 3, 8]>) {
  loop.for %c = 0 to 8 {
    loop.for %h = 0 to 6 {
      loop.for %p = 0 to 3 {
        %v = loop.load %x[0, %c, %h, 2 * %p] : !loop.buffer<[1, 8, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 1, 6, 6, 8]>
        %u = loop.load %x[0, %c, %h, 2 * %p + 1] : !loop.buffer<[1, 8, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 1, 6, 6, 8]>
        %r = arith.addf %v, %u : f32
        loop.store %r, %y[0, %c, %h, %p] : !loop.buffer<[1, 8, 6, 3], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 1, 6, 3, 8]>
      }
    }
  }
}

// -----

// Windows run along channels, several positions at a time.
// CHECK-LABEL: loop.kernel @pool
// CHECK: %y_r = loop.alloc registers : !loop.buffer<[1, 8, 1, 5], f32, [d0, d2, d3, d1] in [1, 1, 5, 8]>
// CHECK: loop.for %{{.*}} = 0 to 5 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
loop.kernel @pool(%x: !loop.buffer<[1, 16, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 7, 7, 8]>, %y: !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>) {
  loop.for %c = 0 to 16 {
    loop.for %h = 0 to 5 {
      loop.for %p = 0 to 5 {
        %low = arith.constant 0xFF800000 : f32
        loop.store %low, %y[0, %c, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
      }
    }
  }
  loop.for %c = 0 to 16 {
    loop.for %h = 0 to 5 {
      loop.for %p = 0 to 5 {
        loop.for %r = 0 to 3 reduction(max) {
          loop.for %s = 0 to 3 reduction(max) {
            %m = loop.load %y[0, %c, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
            %v = loop.load %x[0, %c, %h + %r, %p + %s] : !loop.buffer<[1, 16, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 7, 7, 8]>
            %n = arith.maximumf %m, %v : f32
            loop.store %n, %y[0, %c, %h, %p] : !loop.buffer<[1, 16, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 5, 5, 8]>
          }
        }
      }
    }
  }
}

// -----

// Where all buffers are blocked alike the loops merge to one that walks through memory: of its digits the elements'
// addresses are put together again, so that its iterations are known to be independent.
// CHECK-LABEL: loop.kernel @positive
// CHECK-NEXT: loop.for %{{.*}} = 0 to 25 parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(8) {
loop.kernel @positive(%x: !loop.buffer<[1, 32, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 5, 5, 8]>, %y: !loop.buffer<[1, 32, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 5, 5, 8]>) {
  loop.for %c = 0 to 32 {
    loop.for %h = 0 to 5 {
      loop.for %p = 0 to 5 {
        %v = loop.load %x[0, %c, %h, %p] : !loop.buffer<[1, 32, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 5, 5, 8]>
        %r = math.absf %v : f32
        loop.store %r, %y[0, %c, %h, %p] : !loop.buffer<[1, 32, 5, 5], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 5, 5, 8]>
      }
    }
  }
}

// -----

// What is computed in front of a reduction over rows of blocks has vectors as that has: both would share the loop over
// blocks, in which no schedule looks for loops without.
// CHECK-LABEL: loop.kernel @sum_of_powers
// CHECK-NOT: 0 to 1 {
// CHECK: loop.for %{{.*}} vector(
// CHECK-NEXT: loop.load %x
// CHECK-NEXT: math.exp
// CHECK: loop.for %{{.*}} = 0 to 1 {
// CHECK: loop.for %{{.*}} reduction(add)
loop.kernel @sum_of_powers[n](%x: !loop.buffer<[8, n], f32, [(d0 floordiv 8), d1, (d0 mod 8)] in [1, n, 8]>, %p: !loop.buffer<[8, n], f32, [(d0 floordiv 8), d1, (d0 mod 8)] in [1, n, 8]>, %t: !loop.buffer<[8], f32>) {
  loop.for %c = 0 to 8 {
    loop.for %k = 0 to n {
      %a = loop.load %x[%c, %k] : !loop.buffer<[8, n], f32, [(d0 floordiv 8), d1, (d0 mod 8)] in [1, n, 8]>
      %d = math.exp %a : f32
      loop.store %d, %p[%c, %k] : !loop.buffer<[8, n], f32, [(d0 floordiv 8), d1, (d0 mod 8)] in [1, n, 8]>
    }
  }
  loop.for %c = 0 to 8 {
    %0 = arith.constant 0.0 : f32
    loop.store %0, %t[%c] : !loop.buffer<[8], f32>
  }
  loop.for %c = 0 to 8 {
    loop.for %k = 0 to n reduction(add) {
      %a = loop.load %p[%c, %k] : !loop.buffer<[8, n], f32, [(d0 floordiv 8), d1, (d0 mod 8)] in [1, n, 8]>
      %b = loop.load %t[%c] : !loop.buffer<[8], f32>
      %s = arith.addf %b, %a : f32
      loop.store %s, %t[%c] : !loop.buffer<[8], f32>
    }
  }
}

// -----

// What combines all of a buffer goes through it as it is stored: vectors of neighbours, not of rows of pixels that are 16
// numbers apart.
// CHECK-LABEL: loop.kernel @greatest
// CHECK: loop.for %[[O:[a-z_0-9]+]] = 0 to 18 reduction(max) {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %x[0, (%[[I]] mod 8) + 8 *
loop.kernel @greatest(%x: !loop.buffer<[1, 16, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 6, 6, 8]>, %y: !loop.buffer<[1], f32>) {
  loop.for %c = 0 to 16 reduction(max) {
    loop.for %h = 0 to 6 reduction(max) {
      loop.for %p = 0 to 6 reduction(max) {
        %v = loop.load %x[0, %c, %h, %p] : !loop.buffer<[1, 16, 6, 6], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 6, 6, 8]>
        %m = loop.load %y[0] : !loop.buffer<[1], f32>
        %r = arith.maximumf %m, %v : f32
        loop.store %r, %y[0] : !loop.buffer<[1], f32>
      }
    }
  }
}
