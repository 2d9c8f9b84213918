// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Loops that walk through memory in one stride are one loop: tiles of 4 vectors of 8 in parallel, the rest in vectors.
// A polynomial is computed for those of a tile side by side.
// CHECK-LABEL: loop.kernel @exp[n]
// CHECK-NEXT: loop.for %[[O:[a-z]+]] = 0 to ((8 * n) floordiv 32) parallel {
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 32 vector(32) {
// CHECK: math.exp
// CHECK: loop.for %{{[a-z]+}} = 0 to ((8 * n) mod 32) vector(8) {
// CHECK: math.exp
// CHECK-NOT: loop.for
loop.kernel @exp[n](%x: !loop.buffer<[n, 8], f32>, %y: !loop.buffer<[n, 8], f32>) {
  loop.for %i = 0 to n {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[n, 8], f32>
      %e = math.exp %v : f32
      loop.store %e, %y[%i, %j] : !loop.buffer<[n, 8], f32>
    }
  }
}

// -----

// A result of half the last cache, here 4 MB, and more, has no room there beside an operand as large: it goes past it.
// CHECK-LABEL: loop.kernel @past_caches
// CHECK: loop.load %x[{{.*}}] :
// CHECK: loop.store %{{.*}}, %y[{{.*}}] nontemporal :
loop.kernel @past_caches(%x: !loop.buffer<[1048640], f32>, %y: !loop.buffer<[1048640], f32>) {
  loop.for %i = 0 to 1048640 {
    %v = loop.load %x[%i] : !loop.buffer<[1048640], f32>
    %n = arith.negf %v : f32
    loop.store %n, %y[%i] : !loop.buffer<[1048640], f32>
  }
}

// -----

// One as large has room beside a row, and one that just fits beside its operand.
// CHECK-LABEL: loop.kernel @within_caches
// CHECK-NOT: nontemporal
loop.kernel @within_caches(%x: !loop.buffer<[1024], f32>, %y: !loop.buffer<[1024, 1024], f32>,
                           %v: !loop.buffer<[1048576], f32>, %w: !loop.buffer<[1048576], f32>) {
  loop.for %i = 0 to 1024 {
    loop.for %j = 0 to 1024 {
      %a = loop.load %x[%j] : !loop.buffer<[1024], f32>
      loop.store %a, %y[%i, %j] : !loop.buffer<[1024, 1024], f32>
    }
  }
  loop.for %i = 0 to 1048576 {
    %a = loop.load %v[%i] : !loop.buffer<[1048576], f32>
    %n = arith.negf %a : f32
    loop.store %n, %w[%i] : !loop.buffer<[1048576], f32>
  }
}

// -----

// What fills a temporary moves to where it is read; no temporary is left.
// CHECK-LABEL: loop.kernel @chain
// CHECK-NOT: loop.alloc
// CHECK: %[[V:[a-z_0-9]+]] = loop.load %x
// CHECK-NEXT: %[[SUM:[a-z_0-9]+]] = arith.addf %[[V]], %[[V]]
// CHECK-NEXT: %[[SQUARE:[a-z_0-9]+]] = arith.mulf %[[SUM]], %[[SUM]]
// CHECK-NEXT: loop.store %[[SQUARE]], %y
// CHECK-NOT: loop.for
loop.kernel @chain(%x: !loop.buffer<[64], f32>, %y: !loop.buffer<[64], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[64], f32>
  loop.for %i = 0 to 64 {
    %v = loop.load %x[%i] : !loop.buffer<[64], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %t[%i] : !loop.buffer<[64], f32>
  }
  loop.for %i = 0 to 64 {
    %v = loop.load %t[%i] : !loop.buffer<[64], f32>
    %w = arith.mulf %v, %v : f32
    loop.store %w, %y[%i] : !loop.buffer<[64], f32>
  }
}

// -----

// Rows with a gap between them stay two loops; the inner one is the vector.
// CHECK-LABEL: loop.kernel @gap
// CHECK-NEXT: loop.for %i = 0 to 64 parallel {
// CHECK-NEXT: loop.for %j = 0 to 16 vector(8) {
loop.kernel @gap(%x: !loop.buffer<[64, 20], f32>, %y: !loop.buffer<[64, 16], f32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[64, 20], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[64, 16], f32>
    }
  }
}

// -----

// A vector holds 4 of the widest elements that take part.
// CHECK-LABEL: loop.kernel @widen
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 4 parallel {
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 16 unroll vector(4) {
loop.kernel @widen(%x: !loop.buffer<[64], f32>, %y: !loop.buffer<[64], f64>) {
  loop.for %i = 0 to 64 {
    %v = loop.load %x[%i] : !loop.buffer<[64], f32>
    %w = arith.extf %v : f32 to f64
    loop.store %w, %y[%i] : !loop.buffer<[64], f64>
  }
}

// -----

// Each element needs the one before: the loop stays as it is.
// CHECK-LABEL: loop.kernel @carried
// CHECK-NEXT: loop.for %i = 0 to 64 {
// CHECK-NEXT: loop.load %y[%i]
loop.kernel @carried(%y: !loop.buffer<[65], f32>) {
  loop.for %i = 0 to 64 {
    %v = loop.load %y[%i] : !loop.buffer<[65], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i + 1] : !loop.buffer<[65], f32>
  }
}

// -----

// Each element twice: both loops are one, whose vectors hold four elements in pairs.
// CHECK-LABEL: loop.kernel @twice
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 6 parallel {
// CHECK-NEXT: loop.for %[[I:[a-z]+]] = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %x[{{.*}}(%[[I]] floordiv 2)]
loop.kernel @twice(%x: !loop.buffer<[96], f32>, %y: !loop.buffer<[96, 2], f32>) {
  loop.for %i = 0 to 96 {
    loop.for %j = 0 to 2 {
      %v = loop.load %x[%i] : !loop.buffer<[96], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[96, 2], f32>
    }
  }
}

// -----

// Runs of three fill no vector of eight: each element is stored to a run.
// CHECK-LABEL: loop.kernel @thrice
// CHECK-NEXT: loop.for %i = 0 to 96 parallel {
// CHECK-NEXT: loop.for %j = 0 to 3 vector(4) {
loop.kernel @thrice(%x: !loop.buffer<[96], f32>, %y: !loop.buffer<[96, 3], f32>) {
  loop.for %i = 0 to 96 {
    loop.for %j = 0 to 3 {
      %v = loop.load %x[%i] : !loop.buffer<[96], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[96, 3], f32>
    }
  }
}

// -----

// The number of a row, which is the same for all of it, is found once and takes up no lanes.
// CHECK-LABEL: loop.kernel @rows_of
// CHECK: loop.load %rows
// CHECK-NEXT: arith.index_cast
// CHECK: loop.for %{{.*}} = 0 to 64 vector(8) {
loop.kernel @rows_of(%x: !loop.buffer<[32, 64], f32>, %rows: !loop.buffer<[16], i64>, %y: !loop.buffer<[16, 64], f32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 64 {
      %r = loop.load %rows[%i] : !loop.buffer<[16], i64>
      %row = arith.index_cast %r : i64 to index
      %v = loop.load %x[%row, %j] : !loop.buffer<[32, 64], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[16, 64], f32>
    }
  }
}
