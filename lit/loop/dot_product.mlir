// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-vectorize{kernel=k loop=j lanes=16},weft-dot-product{kernel=k loop=q}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %j = 0 to 32 vector(16) {
// CHECK-NEXT: loop.for %q = 0 to 4 unroll dot reduction(add) {
loop.kernel @k(%x: !loop.buffer<[4, 8], ui8>, %w: !loop.buffer<[2, 32, 4], i8>, %y: !loop.buffer<[4, 32], i32>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 2 reduction(add) {
      loop.for %j = 0 to 32 {
        loop.for %q = 0 to 4 reduction(add) {
          %a = loop.load %x[%i, 4 * %k + %q] : !loop.buffer<[4, 8], ui8>
          %b = loop.load %w[%k, %j, %q] : !loop.buffer<[2, 32, 4], i8>
          %s = loop.load %y[%i, %j] : !loop.buffer<[4, 32], i32>
          %c = arith.extui %a : i8 to i32
          %d = arith.extsi %b : i8 to i32
          %p = arith.muli %c, %d : i32
          %t = arith.addi %s, %p : i32
          loop.store %t, %y[%i, %j] : !loop.buffer<[4, 32], i32>
        }
      }
    }
  }
}

// -----

// Bytes of one kind have no such instruction everywhere.
// CHECK: dot_product requires the sum of products of an unsigned and a signed byte, or of bf16, got loop %q
loop.kernel @k(%x: !loop.buffer<[4], i8>, %w: !loop.buffer<[32, 4], i8>, %y: !loop.buffer<[32], i32>) {
  loop.for %j = 0 to 32 {
    loop.for %q = 0 to 4 reduction(add) {
      %a = loop.load %x[%q] : !loop.buffer<[4], i8>
      %b = loop.load %w[%j, %q] : !loop.buffer<[32, 4], i8>
      %s = loop.load %y[%j] : !loop.buffer<[32], i32>
      %c = arith.extsi %a : i8 to i32
      %d = arith.extsi %b : i8 to i32
      %p = arith.muli %c, %d : i32
      %t = arith.addi %s, %p : i32
      loop.store %t, %y[%j] : !loop.buffer<[32], i32>
    }
  }
}

// -----

// CHECK: dot_product requires a loop over 4 terms, got loop %q
loop.kernel @k(%x: !loop.buffer<[8], ui8>, %w: !loop.buffer<[32, 8], i8>, %y: !loop.buffer<[32], i32>) {
  loop.for %j = 0 to 32 {
    loop.for %q = 0 to 8 reduction(add) {
      %a = loop.load %x[%q] : !loop.buffer<[8], ui8>
      %b = loop.load %w[%j, %q] : !loop.buffer<[32, 8], i8>
      %s = loop.load %y[%j] : !loop.buffer<[32], i32>
      %c = arith.extui %a : i8 to i32
      %d = arith.extsi %b : i8 to i32
      %p = arith.muli %c, %d : i32
      %t = arith.addi %s, %p : i32
      loop.store %t, %y[%j] : !loop.buffer<[32], i32>
    }
  }
}

// -----

// The bytes of a word are neighbours.
// CHECK: dot_product requires neighbouring elements in consecutive iterations, got loop.load of %w[%q, %j]
loop.kernel @k(%x: !loop.buffer<[4], ui8>, %w: !loop.buffer<[4, 32], i8>, %y: !loop.buffer<[32], i32>) {
  loop.for %j = 0 to 32 {
    loop.for %q = 0 to 4 reduction(add) {
      %a = loop.load %x[%q] : !loop.buffer<[4], ui8>
      %b = loop.load %w[%q, %j] : !loop.buffer<[4, 32], i8>
      %s = loop.load %y[%j] : !loop.buffer<[32], i32>
      %c = arith.extui %a : i8 to i32
      %d = arith.extsi %b : i8 to i32
      %p = arith.muli %c, %d : i32
      %t = arith.addi %s, %p : i32
      loop.store %t, %y[%j] : !loop.buffer<[32], i32>
    }
  }
}
