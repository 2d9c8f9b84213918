// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch{kernel=k access="w:0" loop=j level=L2 before=r shared_by=i}' | filecheck %s

// Each tile of rows prefetches a part of the lines of the next panel: two words, each of a line of 16 columns.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %i = 0 to 4 {
// CHECK-NEXT: loop.for %k = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %[[C:.*]] = 0 to 16 step 16 {
// CHECK-NEXT: loop.for %[[P:.*]] = 2 * %i to 2 * %i + 2 {
// CHECK-NEXT: loop.prefetch %y[%j + 1, 8 * %k + %[[P]], %[[C]]]
// CHECK-NOT: loop.prefetch
loop.kernel @k(%x: !loop.buffer<[4, 2, 32], i32>, %y: !loop.buffer<[8, 32, 16], i32>, %z: !loop.buffer<[4, 2, 8, 16], i32>) {
  loop.for %j = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 4 reduction(add) {
        loop.for %r = 0 to 2 {
          loop.for %c = 0 to 16 {
            loop.for %w = 0 to 8 reduction(add) {
              %b = loop.load %y[%j, 8 * %k + %w, %c] : !loop.buffer<[8, 32, 16], i32>
              %a = loop.load %x[%i, %r, 8 * %k + %w] : !loop.buffer<[4, 2, 32], i32>
              %s = loop.load %z[%i, %r, %j, %c] : !loop.buffer<[4, 2, 8, 16], i32>
              %p = arith.muli %a, %b : i32
              %u = arith.addi %s, %p : i32
              loop.store %u, %z[%i, %r, %j, %c] : !loop.buffer<[4, 2, 8, 16], i32>
            }
          }
        }
      }
    }
  }
}

// -----

// CHECK: prefetch requires lines that a loop's iterations divide, got loop.load of %y[%j, 8 * %k + %w, %c] and loop %i with 3
loop.kernel @k(%x: !loop.buffer<[3, 2, 32], i32>, %y: !loop.buffer<[8, 32, 16], i32>, %z: !loop.buffer<[3, 2, 8, 16], i32>) {
  loop.for %j = 0 to 8 {
    loop.for %i = 0 to 3 {
      loop.for %k = 0 to 4 reduction(add) {
        loop.for %r = 0 to 2 {
          loop.for %c = 0 to 16 {
            loop.for %w = 0 to 8 reduction(add) {
              %b = loop.load %y[%j, 8 * %k + %w, %c] : !loop.buffer<[8, 32, 16], i32>
              %a = loop.load %x[%i, %r, 8 * %k + %w] : !loop.buffer<[3, 2, 32], i32>
              %s = loop.load %z[%i, %r, %j, %c] : !loop.buffer<[3, 2, 8, 16], i32>
              %p = arith.muli %a, %b : i32
              %u = arith.addi %s, %p : i32
              loop.store %u, %z[%i, %r, %j, %c] : !loop.buffer<[3, 2, 8, 16], i32>
            }
          }
        }
      }
    }
  }
}
