// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-matrix-product{kernel=k loop=k}' | filecheck %s

// Rows, columns, words and the bytes of a word are what one instruction goes through.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %k = 0 to 2 matrix reduction(add) {
// CHECK-NEXT: loop.for %i = 0 to 20 {
loop.kernel @k(%x: !loop.buffer<[20, 128], ui8>, %w: !loop.buffer<[32, 32, 4], i8>, %y: !loop.buffer<[20, 32], i32>) {
  loop.for %k = 0 to 2 reduction(add) {
    loop.for %i = 0 to 20 {
      loop.for %j = 0 to 32 {
        loop.for %o = 0 to 16 reduction(add) {
          loop.for %q = 0 to 4 reduction(add) {
            %a = loop.load %x[%i, 64 * %k + 4 * %o + %q] : !loop.buffer<[20, 128], ui8>
            %b = loop.load %w[16 * %k + %o, %j, %q] : !loop.buffer<[32, 32, 4], i8>
            %s = loop.load %y[%i, %j] : !loop.buffer<[20, 32], i32>
            %c = arith.extui %a : i8 to i32
            %d = arith.extsi %b : i8 to i32
            %p = arith.muli %c, %d : i32
            %t = arith.addi %s, %p : i32
            loop.store %t, %y[%i, %j] : !loop.buffer<[20, 32], i32>
          }
        }
      }
    }
  }
}

// -----

// Elements that are words need no loop over the halves.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %k = 0 to 2 matrix reduction(add) {
loop.kernel @k(%x: !loop.buffer<[2, 20, 16], i32>, %w: !loop.buffer<[32, 32], i32>, %y: !loop.buffer<[20, 32], f32>) {
  loop.for %k = 0 to 2 reduction(add) {
    loop.for %i = 0 to 20 {
      loop.for %j = 0 to 32 {
        loop.for %o = 0 to 16 reduction(add) {
          %a = loop.load %x[%k, %i, %o] : !loop.buffer<[2, 20, 16], i32>
          %b = loop.load %w[16 * %k + %o, %j] : !loop.buffer<[32, 32], i32>
          %s = loop.load %y[%i, %j] : !loop.buffer<[20, 32], f32>
          %p = loop.dot_bf16 %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%i, %j] : !loop.buffer<[20, 32], f32>
        }
      }
    }
  }
}

// -----

// Two registers of rows have 32.
// CHECK: matrix_product requires tiles of at most 32, got loop %i
loop.kernel @k(%x: !loop.buffer<[33, 64], ui8>, %w: !loop.buffer<[16, 32, 4], i8>, %y: !loop.buffer<[33, 32], i32>) {
  loop.for %k = 0 to 1 reduction(add) {
    loop.for %i = 0 to 33 {
      loop.for %j = 0 to 32 {
        loop.for %o = 0 to 16 reduction(add) {
          loop.for %q = 0 to 4 reduction(add) {
            %a = loop.load %x[%i, 64 * %k + 4 * %o + %q] : !loop.buffer<[33, 64], ui8>
            %b = loop.load %w[16 * %k + %o, %j, %q] : !loop.buffer<[16, 32, 4], i8>
            %s = loop.load %y[%i, %j] : !loop.buffer<[33, 32], i32>
            %c = arith.extui %a : i8 to i32
            %d = arith.extsi %b : i8 to i32
            %p = arith.muli %c, %d : i32
            %t = arith.addi %s, %p : i32
            loop.store %t, %y[%i, %j] : !loop.buffer<[33, 32], i32>
          }
        }
      }
    }
  }
}

// -----

// A row of a register is 64 neighbouring bytes.
// CHECK: matrix_product requires evenly spaced rows of neighbouring words, got loop.load of %w
loop.kernel @k(%x: !loop.buffer<[20, 64], ui8>, %w: !loop.buffer<[64, 32], i8>, %y: !loop.buffer<[20, 32], i32>) {
  loop.for %k = 0 to 1 reduction(add) {
    loop.for %i = 0 to 20 {
      loop.for %j = 0 to 32 {
        loop.for %o = 0 to 16 reduction(add) {
          loop.for %q = 0 to 4 reduction(add) {
            %a = loop.load %x[%i, 64 * %k + 4 * %o + %q] : !loop.buffer<[20, 64], ui8>
            %b = loop.load %w[64 * %k + 4 * %o + %q, %j] : !loop.buffer<[64, 32], i8>
            %s = loop.load %y[%i, %j] : !loop.buffer<[20, 32], i32>
            %c = arith.extui %a : i8 to i32
            %d = arith.extsi %b : i8 to i32
            %p = arith.muli %c, %d : i32
            %t = arith.addi %s, %p : i32
            loop.store %t, %y[%i, %j] : !loop.buffer<[20, 32], i32>
          }
        }
      }
    }
  }
}

// -----

// CHECK: matrix_product requires reductions around rows, columns and words of a sum of products of words, got loop %k
loop.kernel @k(%x: !loop.buffer<[20, 64], ui8>, %y: !loop.buffer<[20], i32>) {
  loop.for %k = 0 to 64 reduction(add) {
    loop.for %i = 0 to 20 {
      %a = loop.load %x[%i, %k] : !loop.buffer<[20, 64], ui8>
      %s = loop.load %y[%i] : !loop.buffer<[20], i32>
      %c = arith.extui %a : i8 to i32
      %t = arith.addi %s, %c : i32
      loop.store %t, %y[%i] : !loop.buffer<[20], i32>
    }
  }
}
