// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-flatten{kernel=k allocation=t axis=1}' | filecheck %s

// Two dims become one; of a collapsed loop the place in it is the loop's index again.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %t = loop.alloc workspace : !loop.buffer<[4, 3 * n, 2], f32>
// CHECK: loop.store %{{.*}}, %t[%c, %ij, 1] : !loop.buffer<[4, 3 * n, 2], f32>
// CHECK: loop.load %t[%c_1, %j + n * %i, 1] : !loop.buffer<[4, 3 * n, 2], f32>
loop.kernel @k[n](%x: !loop.buffer<[4, 3, n], f32>, %y: !loop.buffer<[4, 3, n], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 3, n, 2], f32>
  loop.for %c = 0 to 4 {
    loop.for %ij = 0 to 3 * n {
      %v = loop.load %x[%c, (%ij floordiv n), (%ij mod n)] : !loop.buffer<[4, 3, n], f32>
      loop.store %v, %t[%c, (%ij floordiv n), (%ij mod n), 1] : !loop.buffer<[4, 3, n, 2], f32>
    }
  }
  loop.for %c = 0 to 4 {
    loop.for %i = 0 to 3 {
      loop.for %j = 0 to n {
        %v = loop.load %t[%c, %i, %j, 1] : !loop.buffer<[4, 3, n, 2], f32>
        loop.store %v, %y[%c, %i, %j] : !loop.buffer<[4, 3, n], f32>
      }
    }
  }
}

// -----

// No dim follows the last one.
// CHECK: flatten requires a row-major buffer with dims 1 and 2, got %t: !loop.buffer<[4, 8], f32>
loop.kernel @k(%y: !loop.buffer<[4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 8], f32>
  loop.for %i = 0 to 4 {
    %v = loop.load %t[%i, 2] : !loop.buffer<[4, 8], f32>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
}

// -----

// Neighbours of one dim may lie apart in another layout.
// CHECK: flatten requires a row-major buffer with dims 1 and 2, got %t
loop.kernel @k(%y: !loop.buffer<[4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 2, 8], f32, [d0, d2, d1] in [4, 8, 2]>
  loop.for %i = 0 to 4 {
    %v = loop.load %t[%i, 1, 2] : !loop.buffer<[4, 2, 8], f32, [d0, d2, d1] in [4, 8, 2]>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
}
