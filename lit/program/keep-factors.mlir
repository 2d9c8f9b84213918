// RUN: weft-opt -p weft-keep-factors,weft-name-variants --split-input-file %s | filecheck %s

// The factor that a loop of 16 turns only reads is a weight of the kernel there, and so is that of two loops of 4 turns each; the kernel behind the loops is as it was.
// CHECK-LABEL: loop.kernel @product(
// CHECK: loop.kernel @product_
// CHECK-SAME: attributes {weights = [#builtin.int<1>]}
// CHECK-LABEL: loop.program @main
// CHECK: loop.for
// CHECK-NEXT: loop.call @product_[[NAME:[0-9a-f]+]](%s, %w, %t)
// CHECK: loop.for
// CHECK-NEXT: loop.for
// CHECK-NEXT: loop.call @product_[[NAME]](%s, %w, %t)
// CHECK: loop.call @product(%s, %w, %t)
loop.kernel @product(%x: !loop.buffer<[4, 8], f32>, %w: !loop.buffer<[8, 8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %m = 0 to 4 {
    loop.for %n = 0 to 8 {
      loop.for %k = 0 to 8 reduction(add) {
        %a = loop.load %x[%m, %k] : !loop.buffer<[4, 8], f32>
        %b = loop.load %w[%k, %n] : !loop.buffer<[8, 8], f32>
        %c = loop.load %y[%m, %n] : !loop.buffer<[4, 8], f32>
        %ab = arith.mulf %a, %b : f32
        %sum = arith.addf %c, %ab : f32
        loop.store %sum, %y[%m, %n] : !loop.buffer<[4, 8], f32>
      }
    }
  }
}
loop.program @main(%s: !loop.buffer<[4, 8], f32>, %w: !loop.buffer<[8, 8], f32>, %t: !loop.buffer<[4, 8], f32>) inputs 2 {
  loop.for %i = 0 to 16 {
    loop.call @product(%s, %w, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
    loop.copy %t, %s : !loop.buffer<[4, 8], f32>
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      loop.call @product(%s, %w, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
      loop.copy %t, %s : !loop.buffer<[4, 8], f32>
    }
  }
  loop.call @product(%s, %w, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
}

// -----

// None of these is: 15 turns, and n of them; a factor that the loop makes, or writes; one that is viewed; what is added once to each element.
// CHECK-NOT: weights
loop.kernel @product(%x: !loop.buffer<[4, 8], f32>, %w: !loop.buffer<[8, 8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %m = 0 to 4 {
    loop.for %n = 0 to 8 {
      loop.for %k = 0 to 8 reduction(add) {
        %a = loop.load %x[%m, %k] : !loop.buffer<[4, 8], f32>
        %b = loop.load %w[%k, %n] : !loop.buffer<[8, 8], f32>
        %c = loop.load %y[%m, %n] : !loop.buffer<[4, 8], f32>
        %ab = arith.mulf %a, %b : f32
        %sum = arith.addf %c, %ab : f32
        loop.store %sum, %y[%m, %n] : !loop.buffer<[4, 8], f32>
      }
    }
  }
}
loop.kernel @zero(%w: !loop.buffer<[8, 8], f32>) {
  loop.for %k = 0 to 8 {
    loop.for %n = 0 to 8 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %w[%k, %n] : !loop.buffer<[8, 8], f32>
    }
  }
}
loop.kernel @add(%w: !loop.buffer<[8, 8], f32>, %y: !loop.buffer<[8, 8], f32>) {
  loop.for %k = 0 to 8 {
    loop.for %n = 0 to 8 {
      %a = loop.load %w[%k, %n] : !loop.buffer<[8, 8], f32>
      %b = loop.load %y[%k, %n] : !loop.buffer<[8, 8], f32>
      %sum = arith.addf %a, %b : f32
      loop.store %sum, %y[%k, %n] : !loop.buffer<[8, 8], f32>
    }
  }
}
loop.program @main[n](%s: !loop.buffer<[4, 8], f32>, %w: !loop.buffer<[8, 8], f32>, %v: !loop.buffer<[8, 8], f32>, %u: !loop.buffer<[8, 8], f32>, %t: !loop.buffer<[4, 8], f32>) inputs 4 {
  %flat = loop.view %v : !loop.buffer<[8, 8], f32> to !loop.buffer<[64], f32>
  loop.for %i = 0 to 15 {
    loop.call @product(%s, %w, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
    loop.copy %t, %s : !loop.buffer<[4, 8], f32>
  }
  loop.for %i = 0 to n {
    loop.call @product(%s, %w, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
    loop.copy %t, %s : !loop.buffer<[4, 8], f32>
  }
  loop.for %i = 0 to 16 {
    %own = loop.alloc workspace : !loop.buffer<[8, 8], f32>
    loop.call @zero(%own) : !loop.buffer<[8, 8], f32>
    loop.call @product(%s, %own, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
    loop.call @product(%s, %v, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
    loop.call @product(%s, %u, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8, 8], f32>, !loop.buffer<[4, 8], f32>
    loop.call @add(%w, %u) : !loop.buffer<[8, 8], f32>, !loop.buffer<[8, 8], f32>
  }
}
