// RUN: weft-opt -p weft-split-versions,weft-name-variants --split-input-file %s | filecheck %s

// Panels of what a call gives are packed for many rows, and read where they are for few: two versions behind a branch.
// CHECK-LABEL: builtin.module
// CHECK: loop.kernel @product_[[FEW:[0-9a-f]+]][n0]
// CHECK-SAME: attributes {rows = "few"}
// CHECK: loop.kernel @product_[[MANY:[0-9a-f]+]][n0]
// CHECK-SAME: attributes {rows = "many"}
// CHECK: loop.program @main
// CHECK-NEXT: %[[ROWS:.*]] = loop.index batch
// CHECK-NEXT: %[[NUMBER:.*]] = arith.index_cast %[[ROWS]] : index to i64
// CHECK-NEXT: %[[LIMIT:.*]] = arith.constant 8 : i64
// CHECK-NEXT: %[[HOLDS:.*]] = arith.cmpi slt, %[[NUMBER]], %[[LIMIT]] : i64
// CHECK-NEXT: loop.if %[[HOLDS]] {
// CHECK-NEXT: loop.call @product_[[FEW]][batch](%x, %w, %y)
// CHECK-NEXT: } else {
// CHECK-NEXT: loop.call @product_[[MANY]][batch](%x, %w, %y)
builtin.module attributes {weft.target = "x86-64-v4"} {
  loop.kernel @product[n](%x: !loop.buffer<[n, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[n, 768], f32>) {
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %j] : !loop.buffer<[n, 768], f32>
      }
    }
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        loop.for %k = 0 to 768 reduction(add) {
          %a = loop.load %x[%i, %k] : !loop.buffer<[n, 768], f32>
          %b = loop.load %w[%k, %j] : !loop.buffer<[768, 768], f32>
          %c = loop.load %y[%i, %j] : !loop.buffer<[n, 768], f32>
          %ab = arith.mulf %a, %b : f32
          %sum = arith.addf %c, %ab : f32
          loop.store %sum, %y[%i, %j] : !loop.buffer<[n, 768], f32>
        }
      }
    }
  }
  loop.program @main[batch](%x: !loop.buffer<[batch, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[batch, 768], f32>) inputs 2 {
    loop.call @product[batch](%x, %w, %y) : !loop.buffer<[batch, 768], f32>, !loop.buffer<[768, 768], f32>, !loop.buffer<[batch, 768], f32>
  }
}

// -----

// The bounds of a program's sizes decide, or what a call makes of them: only the version for many rows is left.
// CHECK-LABEL: builtin.module
// CHECK-NOT: rows = "few"
// CHECK: rows = "many"
// CHECK-NOT: loop.if
builtin.module attributes {weft.target = "x86-64-v4"} {
  loop.kernel @product[n](%x: !loop.buffer<[n, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[n, 768], f32>) {
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %j] : !loop.buffer<[n, 768], f32>
      }
    }
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        loop.for %k = 0 to 768 reduction(add) {
          %a = loop.load %x[%i, %k] : !loop.buffer<[n, 768], f32>
          %b = loop.load %w[%k, %j] : !loop.buffer<[768, 768], f32>
          %c = loop.load %y[%i, %j] : !loop.buffer<[n, 768], f32>
          %ab = arith.mulf %a, %b : f32
          %sum = arith.addf %c, %ab : f32
          loop.store %sum, %y[%i, %j] : !loop.buffer<[n, 768], f32>
        }
      }
    }
  }
  loop.program @main[batch](%x: !loop.buffer<[batch, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[batch, 768], f32>) inputs 2 attributes {bounds = {batch = #loop.exprs<[8, 4096]>}} {
    loop.call @product[batch](%x, %w, %y) : !loop.buffer<[batch, 768], f32>, !loop.buffer<[768, 768], f32>, !loop.buffer<[batch, 768], f32>
  }
}

// -----

// CHECK-LABEL: builtin.module
// CHECK-NOT: rows = "many"
// CHECK: rows = "few"
// CHECK-NOT: loop.if
builtin.module attributes {weft.target = "x86-64-v4"} {
  loop.kernel @product[n](%x: !loop.buffer<[n, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[n, 768], f32>) {
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %j] : !loop.buffer<[n, 768], f32>
      }
    }
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        loop.for %k = 0 to 768 reduction(add) {
          %a = loop.load %x[%i, %k] : !loop.buffer<[n, 768], f32>
          %b = loop.load %w[%k, %j] : !loop.buffer<[768, 768], f32>
          %c = loop.load %y[%i, %j] : !loop.buffer<[n, 768], f32>
          %ab = arith.mulf %a, %b : f32
          %sum = arith.addf %c, %ab : f32
          loop.store %sum, %y[%i, %j] : !loop.buffer<[n, 768], f32>
        }
      }
    }
  }
  loop.program @main[batch](%x: !loop.buffer<[batch, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[batch, 768], f32>) inputs 2 attributes {bounds = {batch = #loop.exprs<[1, 4]>}} {
    loop.call @product[batch](%x, %w, %y) : !loop.buffer<[batch, 768], f32>, !loop.buffer<[768, 768], f32>, !loop.buffer<[batch, 768], f32>
  }
}

// -----

// A weight is stored in panels that both versions would have to share.
// CHECK-LABEL: builtin.module
// CHECK-NOT: rows =
// CHECK-NOT: loop.if
builtin.module attributes {weft.target = "x86-64-v4"} {
  loop.kernel @product[n](%x: !loop.buffer<[n, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[n, 768], f32>) attributes {weights = [#builtin.int<1>]} {
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %j] : !loop.buffer<[n, 768], f32>
      }
    }
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        loop.for %k = 0 to 768 reduction(add) {
          %a = loop.load %x[%i, %k] : !loop.buffer<[n, 768], f32>
          %b = loop.load %w[%k, %j] : !loop.buffer<[768, 768], f32>
          %c = loop.load %y[%i, %j] : !loop.buffer<[n, 768], f32>
          %ab = arith.mulf %a, %b : f32
          %sum = arith.addf %c, %ab : f32
          loop.store %sum, %y[%i, %j] : !loop.buffer<[n, 768], f32>
        }
      }
    }
  }
  loop.program @main[batch](%x: !loop.buffer<[batch, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[batch, 768], f32>) inputs 2 {
    loop.call @product[batch](%x, %w, %y) : !loop.buffer<[batch, 768], f32>, !loop.buffer<[768, 768], f32>, !loop.buffer<[batch, 768], f32>
  }
}

// -----

// What a loop repeats may have a factor that is packed in front of it.
// CHECK-LABEL: builtin.module
// CHECK-NOT: rows =
// CHECK-NOT: loop.if
builtin.module attributes {weft.target = "x86-64-v4"} {
  loop.kernel @product[n](%x: !loop.buffer<[n, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[n, 768], f32>) {
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %j] : !loop.buffer<[n, 768], f32>
      }
    }
    loop.for %i = 0 to n {
      loop.for %j = 0 to 768 {
        loop.for %k = 0 to 768 reduction(add) {
          %a = loop.load %x[%i, %k] : !loop.buffer<[n, 768], f32>
          %b = loop.load %w[%k, %j] : !loop.buffer<[768, 768], f32>
          %c = loop.load %y[%i, %j] : !loop.buffer<[n, 768], f32>
          %ab = arith.mulf %a, %b : f32
          %sum = arith.addf %c, %ab : f32
          loop.store %sum, %y[%i, %j] : !loop.buffer<[n, 768], f32>
        }
      }
    }
  }
  loop.program @main[batch](%x: !loop.buffer<[batch, 768], f32>, %w: !loop.buffer<[768, 768], f32>, %y: !loop.buffer<[batch, 768], f32>) inputs 2 {
    loop.for %i = 0 to 16 {
      loop.call @product[batch](%x, %w, %y) : !loop.buffer<[batch, 768], f32>, !loop.buffer<[768, 768], f32>, !loop.buffer<[batch, 768], f32>
    }
  }
}
