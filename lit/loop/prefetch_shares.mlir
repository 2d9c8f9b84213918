// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch-shares{kernel=k access="k:0" loop=j before=t}' | filecheck %s

// The lines that the next iteration copies, two in front of each of four runs of the terms.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %i = 0 to 4 {
// CHECK-NEXT: loop.for %p = 0 to 2 {
// CHECK-NEXT: loop.prefetch %x[((2 * %i + %p) mod 8), %j + 1] locality(2) : !loop.buffer<[8, 20], f32>
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %t = 0 to 8 {
loop.kernel @k(%x: !loop.buffer<[8, 20], f32>, %y: !loop.buffer<[6, 4, 8], f32>) {
  loop.for %j = 0 to 6 {
    %c = loop.alloc scratch : !loop.buffer<[8], f32>
    loop.for %k = 0 to 8 {
      %v = loop.load %x[%k, %j] : !loop.buffer<[8, 20], f32>
      loop.store %v, %c[%k] : !loop.buffer<[8], f32>
    }
    loop.for %i = 0 to 4 {
      loop.for %t = 0 to 8 {
        %w = loop.load %c[%t] : !loop.buffer<[8], f32>
        loop.store %w, %y[%j, %i, %t] : !loop.buffer<[6, 4, 8], f32>
      }
    }
  }
}

// -----

// Neighbours are on a line; of three lines, three runs of four fetch one each, the last one a row behind.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %p = 0 to 1 {
// CHECK-NEXT: loop.prefetch %x[%j + 1, 16 * ((%i + %p) mod 3)] locality(2)
loop.kernel @k(%x: !loop.buffer<[6, 48], f32>, %y: !loop.buffer<[6, 4, 48], f32>) {
  loop.for %j = 0 to 6 {
    %c = loop.alloc scratch : !loop.buffer<[48], f32>
    loop.for %k = 0 to 48 {
      %v = loop.load %x[%j, %k] : !loop.buffer<[6, 48], f32>
      loop.store %v, %c[%k] : !loop.buffer<[48], f32>
    }
    loop.for %i = 0 to 4 {
      loop.for %t = 0 to 48 {
        %w = loop.load %c[%t] : !loop.buffer<[48], f32>
        loop.store %w, %y[%j, %i, %t] : !loop.buffer<[6, 4, 48], f32>
      }
    }
  }
}

// -----

// A step of tiles prefetches behind what it multiplies: eight lines of 16 columns, one in each of eight steps.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %t = 0 to 4 {
// CHECK: loop.for %p = 0 to 1 {
// CHECK-NEXT: loop.prefetch %y[%j + 1, {{.*}}] locality(2)
loop.kernel @k(%y: !loop.buffer<[6, 8, 16], f32>, %z: !loop.buffer<[6, 4, 8, 16], f32>) {
  loop.for %j = 0 to 6 {
    loop.for %i = 0 to 4 {
      loop.for %s = 0 to 2 matrix {
        loop.for %t = 0 to 4 {
          loop.for %k = 0 to 16 {
            %v = loop.load %y[%j, 4 * %s + %t, %k] : !loop.buffer<[6, 8, 16], f32>
            loop.store %v, %z[%j, %i, 4 * %s + %t, %k] : !loop.buffer<[6, 4, 8, 16], f32>
          }
        }
      }
    }
  }
}

// -----

// CHECK: prefetch_shares requires loops of known length inside, got loop %t and loop %j
loop.kernel @k[n](%x: !loop.buffer<[8, 6], f32>, %y: !loop.buffer<[6, n, 8], f32>) {
  loop.for %j = 0 to 6 {
    %c = loop.alloc scratch : !loop.buffer<[8], f32>
    loop.for %k = 0 to 8 {
      %v = loop.load %x[%k, %j] : !loop.buffer<[8, 6], f32>
      loop.store %v, %c[%k] : !loop.buffer<[8], f32>
    }
    loop.for %i = 0 to n {
      loop.for %t = 0 to 8 {
        %w = loop.load %c[%t] : !loop.buffer<[8], f32>
        loop.store %w, %y[%j, %i, %t] : !loop.buffer<[6, n, 8], f32>
      }
    }
  }
}

// -----

// CHECK: prefetch requires an access that the loop moves forward, got loop.load of %x[%k] and loop %j
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[6, 8], f32>) {
  loop.for %j = 0 to 6 {
    loop.for %k = 0 to 8 {
      %v = loop.load %x[%k] : !loop.buffer<[8], f32>
      loop.for %t = 0 to 1 {
        loop.store %v, %y[%j, %k] : !loop.buffer<[6, 8], f32>
      }
    }
  }
}
