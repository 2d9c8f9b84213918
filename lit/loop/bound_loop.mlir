// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-bound-loop{kernel=k loop=j by="l:3" before=i size=8}' | filecheck %s

// What is selected by a condition is computed up to the last eight columns of which a row is read. Loads go along the
// columns, so that a search has a lane for each of eight; what is left over says so by itself.
// CHECK-LABEL: loop.kernel @k
// CHECK: %found = loop.alloc registers : !loop.buffer<[8], i32>
// CHECK: loop.for %lo = 0 to (n floordiv 8) {
// CHECK-NEXT: loop.for %r = 0 to 4 {
// CHECK-NEXT: loop.for %li = 0 to 8 {
// CHECK-NEXT: %[[C:.*]] = loop.load %m[%r, 8 * %lo + %li]
// CHECK-NEXT: %[[N:.*]] = loop.index %lo + 1
// CHECK: %[[OLD:.*]] = loop.load %found[%li]
// CHECK: %[[NEW:.*]] = arith.select %[[C]], %{{.*}}, %[[OLD]] : i32
// CHECK-NEXT: loop.store %[[NEW]], %found[%li]
// CHECK: loop.for %lr = 0 to (n mod 8) {
// CHECK: loop.store %{{.*}}, %found[0]
// CHECK: loop.for %{{.*}} = 0 to 8 unroll {
// CHECK: arith.maxsi
// CHECK: %[[END:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to min(8 * max(0, %[[END]]), n) {
// CHECK: loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to n {
loop.kernel @k[n](%x: !loop.buffer<[4, n], f32>, %m: !loop.buffer<[4, n], i1>, %y: !loop.buffer<[4, n], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, n], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to n {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, n], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[4, n], f32>
    }
  }
  loop.for %r = 0 to 4 {
    loop.for %l = 0 to n {
      %c = loop.load %m[%r, %l] : !loop.buffer<[4, n], i1>
      %v = loop.load %t[%r, %l] : !loop.buffer<[4, n], f32>
      %z = arith.constant 0.0 : f32
      %w = arith.select %c, %v, %z : f32
      loop.store %w, %y[%r, %l] : !loop.buffer<[4, n], f32>
    }
  }
}

// -----

// Somebody else reads what is stored.
// CHECK: bound_loop requires that the select alone reads what the loop stores, got arith.select
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %m: !loop.buffer<[4, 16], i1>, %y: !loop.buffer<[4, 16], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 16], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 16], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
  loop.for %o = 0 to 16 {
    %u = loop.load %t[0, %o] : !loop.buffer<[4, 16], f32>
    loop.store %u, %y[0, %o] : !loop.buffer<[4, 16], f32>
  }
  loop.for %r = 0 to 4 {
    loop.for %l = 0 to 16 {
      %c = loop.load %m[%r, %l] : !loop.buffer<[4, 16], i1>
      %v = loop.load %t[%r, %l] : !loop.buffer<[4, 16], f32>
      %z = arith.constant 0.0 : f32
      %w = arith.select %c, %v, %z : f32
      loop.store %w, %y[%r, %l] : !loop.buffer<[4, 16], f32>
    }
  }
}

// -----

// The condition changes behind the search.
// CHECK: bound_loop requires a condition that nothing stores to in between, got loop.store of %m
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %m: !loop.buffer<[4, 16], i1>, %y: !loop.buffer<[4, 16], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 16], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 16], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
  loop.for %o = 0 to 16 {
    %u = arith.constant false
    loop.store %u, %m[0, %o] : !loop.buffer<[4, 16], i1>
  }
  loop.for %r = 0 to 4 {
    loop.for %l = 0 to 16 {
      %c = loop.load %m[%r, %l] : !loop.buffer<[4, 16], i1>
      %v = loop.load %t[%r, %l] : !loop.buffer<[4, 16], f32>
      %z = arith.constant 0.0 : f32
      %w = arith.select %c, %v, %z : f32
      loop.store %w, %y[%r, %l] : !loop.buffer<[4, 16], f32>
    }
  }
}

// -----

// What is read is not what the same iteration stored.
// CHECK: bound_loop requires a select for each iteration of the loop, got arith.select
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %m: !loop.buffer<[4, 16], i1>, %y: !loop.buffer<[4, 16], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 16], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 16], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
  loop.for %r = 0 to 4 {
    loop.for %l = 0 to 16 {
      %c = loop.load %m[%r, %l] : !loop.buffer<[4, 16], i1>
      %v = loop.load %t[%r, 15 - %l] : !loop.buffer<[4, 16], f32>
      %z = arith.constant 0.0 : f32
      %w = arith.select %c, %v, %z : f32
      loop.store %w, %y[%r, %l] : !loop.buffer<[4, 16], f32>
    }
  }
}

// -----

// Iterations are counted from zero.
// CHECK: bound_loop requires a loop that counts from zero, got loop %j
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %m: !loop.buffer<[4, 16], i1>, %y: !loop.buffer<[4, 16], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 16], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 1 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 16], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
  loop.for %r = 0 to 4 {
    loop.for %l = 0 to 16 {
      %c = loop.load %m[%r, %l] : !loop.buffer<[4, 16], i1>
      %v = loop.load %t[%r, %l] : !loop.buffer<[4, 16], f32>
      %z = arith.constant 0.0 : f32
      %w = arith.select %c, %v, %z : f32
      loop.store %w, %y[%r, %l] : !loop.buffer<[4, 16], f32>
    }
  }
}

// -----

// Fewer than are searched together.
// CHECK: bound_loop requires at least 8 iterations, got loop %j
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %m: !loop.buffer<[4, 16], i1>, %y: !loop.buffer<[4, 16], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 16], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 16], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[4, 16], f32>
    }
  }
  loop.for %r = 0 to 4 {
    loop.for %l = 0 to 4 {
      %c = loop.load %m[%r, %l] : !loop.buffer<[4, 16], i1>
      %v = loop.load %t[%r, %l] : !loop.buffer<[4, 16], f32>
      %z = arith.constant 0.0 : f32
      %w = arith.select %c, %v, %z : f32
      loop.store %w, %y[%r, %l] : !loop.buffer<[4, 16], f32>
    }
  }
}
