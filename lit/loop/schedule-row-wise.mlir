// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Nests over the same rows become one nest; a number that belongs to a row stays in a register.
// CHECK-LABEL: loop.kernel @centre[n]
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to n parallel {
// CHECK: %[[SUM:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1], f32>
// CHECK: %[[PARTS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[32], f32>
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 32 unroll vector(8) {
// CHECK: loop.store %{{.*}}, %[[PARTS]][%[[KI]]]
// CHECK: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
// CHECK: loop.for %{{.*}} = 0 to 2 unroll vector(2) {
// CHECK: loop.for %{{.*}} = 0 to 1 unroll {
// CHECK: loop.store %{{.*}}, %[[SUM]][0]
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 64 vector(8) {
// CHECK: loop.load %[[SUM]][0]
// CHECK: loop.store %{{.*}}, %y[%[[I]], %[[J]]]
// CHECK-NOT: loop.for
loop.kernel @centre[n](%x: !loop.buffer<[n, 64], f32>, %y: !loop.buffer<[n, 64], f32>) {
  %sum = loop.alloc workspace : !loop.buffer<[n], f32>
  loop.for %i = 0 to n {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %sum[%i] : !loop.buffer<[n], f32>
  }
  loop.for %i = 0 to n {
    loop.for %k = 0 to 64 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[n, 64], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[n], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %sum[%i] : !loop.buffer<[n], f32>
    }
  }
  loop.for %i = 0 to n {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[n, 64], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[n], f32>
      %w = arith.subf %v, %s : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[n, 64], f32>
    }
  }
}

// -----

// Permission to reassociate is needed for a sum along a row to run in vectors; without, the row's other loop has them.
// CHECK-LABEL: loop.kernel @ordered
// CHECK: loop.for %i = 0 to 4 parallel {
// CHECK: loop.for %k = 0 to 64 {
// CHECK: loop.for %j = 0 to 64 vector(8) {
loop.kernel @ordered(%x: !loop.buffer<[4, 64], f32>, %y: !loop.buffer<[4, 64], f32>) {
  %sum = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.for %i = 0 to 4 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %sum[%i] : !loop.buffer<[4], f32>
  }
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 64 {
      %v = loop.load %x[%i, %k] : !loop.buffer<[4, 64], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[4], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %sum[%i] : !loop.buffer<[4], f32>
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 64], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[4], f32>
      %w = arith.subf %v, %s : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[4, 64], f32>
    }
  }
}

// -----

// The second nest reads a row that the first has yet to make: they stay apart.
// CHECK-LABEL: loop.kernel @apart
// CHECK: loop.load %x
// CHECK-NEXT: loop.store %{{.*}}, %t[
// CHECK: loop.for
// CHECK: loop.load %t[
loop.kernel @apart(%x: !loop.buffer<[8, 8], f32>, %t: !loop.buffer<[8, 8], f32>, %y: !loop.buffer<[7, 8], f32>) {
  loop.for %i = 0 to 7 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[8, 8], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[8, 8], f32>
    }
  }
  loop.for %i = 0 to 7 {
    loop.for %j = 0 to 8 {
      %v = loop.load %t[%i + 1, %j] : !loop.buffer<[8, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[7, 8], f32>
    }
  }
}

// -----

// A single sum of very many elements: sums of blocks in parallel, as many as the extent says, and their sum. A block is
// read at four places in turn, which the machine follows, as vectors are shorter than a line.
// CHECK-LABEL: loop.kernel @all
// CHECK: %[[PARTS:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[8], f32>
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to 8 parallel {
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 1024 reduction(add) {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %x[64 * %[[B]] + 16 * (%[[L]] floordiv 8) + ((8 * %[[K]] + (%[[L]] mod 8)) floordiv 512),
// CHECK-NOT: loop.prefetch
// CHECK: loop.store %{{.*}}, %[[PARTS]][%[[B]]]
// CHECK: loop.store %{{.*}}, %y[]
loop.kernel @all(%x: !loop.buffer<[512, 512], f32>, %y: !loop.buffer<[], f32>) {
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %y[] : !loop.buffer<[], f32>
  loop.for %i = 0 to 512 reduction(add) {
    loop.for %j = 0 to 512 reduction(add) {
      %v = loop.load %x[%i, %j] : !loop.buffer<[512, 512], f32>
      %s = loop.load %y[] : !loop.buffer<[], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[] : !loop.buffer<[], f32>
    }
  }
}

// -----

// The last pass over a row has the next row brought near.
// CHECK-LABEL: loop.kernel @centre
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NOT: loop.prefetch
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 256 vector(32) {
// CHECK-NEXT: loop.prefetch %x[%[[I]] + 1, %[[J]]]
// CHECK-NEXT: loop.load %x[%[[I]], %[[J]]]
// CHECK-NOT: loop.prefetch
loop.kernel @centre(%x: !loop.buffer<[64, 256], f32>, %y: !loop.buffer<[64, 256], f32>) {
  %sum = loop.alloc workspace : !loop.buffer<[64], f32>
  loop.for %i = 0 to 64 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %sum[%i] : !loop.buffer<[64], f32>
    loop.for %k = 0 to 256 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[64, 256], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[64], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %sum[%i] : !loop.buffer<[64], f32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 256 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[64, 256], f32>
      %s = loop.load %sum[%i] : !loop.buffer<[64], f32>
      %w = arith.subf %v, %s : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[64, 256], f32>
    }
  }
}

// -----

// What two sums over a row share is computed once, in one loop with both; nothing of it goes through memory.
// CHECK-LABEL: loop.kernel @shared
// CHECK: loop.for %{{.*}} = 0 to 4 parallel {
// CHECK: loop.for %{{.*}} = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: math.sqrt
// CHECK-NOT: math.sqrt
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK-NOT: %t
loop.kernel @shared(%x: !loop.buffer<[4, 64], f32>, %y: !loop.buffer<[4, 64], f32>, %a: !loop.buffer<[4], f32>, %b: !loop.buffer<[4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, 64], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 64], f32>
      %r = math.sqrt %v : f32
      loop.store %r, %t[%i, %j] : !loop.buffer<[4, 64], f32>
    }
  }
  loop.for %i = 0 to 4 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %a[%i] : !loop.buffer<[4], f32>
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 64 reduction(add) {
      %v = loop.load %t[%i, %j] : !loop.buffer<[4, 64], f32>
      %s = loop.load %a[%i] : !loop.buffer<[4], f32>
      %w = arith.addf %s, %v : f32
      loop.store %w, %a[%i] : !loop.buffer<[4], f32>
    }
  }
  loop.for %i = 0 to 4 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %b[%i] : !loop.buffer<[4], f32>
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 64 reduction(add) {
      %v = loop.load %t[%i, %j] : !loop.buffer<[4, 64], f32>
      %u = loop.load %y[%i, %j] : !loop.buffer<[4, 64], f32>
      %p = arith.mulf %v, %u : f32
      %s = loop.load %b[%i] : !loop.buffer<[4], f32>
      %w = arith.addf %s, %p : f32
      loop.store %w, %b[%i] : !loop.buffer<[4], f32>
    }
  }
}

// -----

// What is copied from columns to rows beside other loops over a row of blocks is turned in registers.
// CHECK-LABEL: loop.kernel @turned
// CHECK:      loop.for %[[B:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK:      loop.for %[[IO:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: %[[V:[a-z_0-9]+]] = loop.load %x[%[[B]], 8 * %{{.*}} + %[[J]], 8 * %[[IO]] + %[[I]]]
// CHECK-NEXT: loop.store %[[V]], %t[%[[B]], 8 * %[[IO]] + %[[I]], 8 * %{{.*}} + %[[J]]]
loop.kernel @turned(%x: !loop.buffer<[4, 16, 24], f32>, %t: !loop.buffer<[4, 24, 16], f32>, %y: !loop.buffer<[4, 24, 16], f32>) {
  loop.for %b = 0 to 4 {
    loop.for %i = 0 to 24 {
      loop.for %j = 0 to 16 {
        %a = loop.load %x[%b, %j, %i] : !loop.buffer<[4, 16, 24], f32>
        loop.store %a, %t[%b, %i, %j] : !loop.buffer<[4, 24, 16], f32>
      }
    }
  }
  loop.for %b = 0 to 4 {
    loop.for %i = 0 to 24 {
      loop.for %j = 0 to 16 {
        %u = loop.load %t[%b, 23 - %i, %j] : !loop.buffer<[4, 24, 16], f32>
        %v = loop.load %t[%b, %i, %j] : !loop.buffer<[4, 24, 16], f32>
        %a = arith.addf %u, %v : f32
        loop.store %a, %y[%b, %i, %j] : !loop.buffer<[4, 24, 16], f32>
      }
    }
  }
}

// -----

// Of a batch that a call counts there may be one: its rows run in parallel with those of others. An address is the merged index again.
// CHECK-LABEL: loop.kernel @batch
// CHECK-NEXT: loop.for %[[BI:[a-z_0-9]+]] = 0 to b * n parallel {
// CHECK-NOT: parallel
// CHECK: loop.load %x[(%[[BI]] floordiv n), (%[[BI]] mod n),
loop.kernel @batch[b, n](%x: !loop.buffer<[b, n, 64], f32>, %y: !loop.buffer<[b, n], f32>) {
  loop.for %h = 0 to b {
    loop.for %i = 0 to n {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%h, %i] : !loop.buffer<[b, n], f32>
      loop.for %j = 0 to 64 reduction(add) {
        %a = loop.load %x[%h, %i, %j] : !loop.buffer<[b, n, 64], f32>
        %s = loop.load %y[%h, %i] : !loop.buffer<[b, n], f32>
        %t = arith.addf %s, %a : f32
        loop.store %t, %y[%h, %i] : !loop.buffer<[b, n], f32>
      }
    }
  }
}

// -----

// Three vectors of a short row become two, then one, which is folded.
// CHECK-LABEL: loop.kernel @three
// CHECK: loop.for %{{.*}} = 0 to 24 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 1 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 24 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 1 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
loop.kernel @three(%x: !loop.buffer<[64, 25], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 64 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[64], f32>
    loop.for %k = 0 to 25 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[64, 25], f32>
      %s = loop.load %y[%i] : !loop.buffer<[64], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%i] : !loop.buffer<[64], f32>
    }
  }
}

// -----

// A row of less than two vectors is one, which the other elements join, or a narrower one.
// CHECK-LABEL: loop.kernel @one
// CHECK: loop.for %{{.*}} = 0 to 1 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
loop.kernel @one(%x: !loop.buffer<[64, 12], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 64 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[64], f32>
    loop.for %k = 0 to 12 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[64, 12], f32>
      %s = loop.load %y[%i] : !loop.buffer<[64], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%i] : !loop.buffer<[64], f32>
    }
  }
}

// -----

// CHECK-LABEL: loop.kernel @narrower
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
// CHECK: loop.for %{{.*}} = 0 to 2 unroll vector(4) {
// CHECK: loop.for %{{.*}} = 0 to 2 unroll vector(2) {
loop.kernel @narrower(%x: !loop.buffer<[64, 6], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 64 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[64], f32>
    loop.for %k = 0 to 6 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[64, 6], f32>
      %s = loop.load %y[%i] : !loop.buffer<[64], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%i] : !loop.buffer<[64], f32>
    }
  }
}

// -----

// Three elements are added up one by one.
// CHECK-LABEL: loop.kernel @few
// CHECK: loop.for %{{.*}} = 0 to 3 reduction(add) {
// CHECK-NOT: vector
loop.kernel @few(%x: !loop.buffer<[64, 3], f32>, %y: !loop.buffer<[64], f32>) {
  loop.for %i = 0 to 64 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[64], f32>
    loop.for %k = 0 to 3 reduction(add) {
      %v = loop.load %x[%i, %k] : !loop.buffer<[64, 3], f32>
      %s = loop.load %y[%i] : !loop.buffer<[64], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[%i] : !loop.buffer<[64], f32>
    }
  }
}

// -----

// Polynomials of a row are computed for 4 vectors side by side, or for fewer where those would be empty in good part; of what
// takes few steps only long passes are.
// CHECK-LABEL: loop.kernel @exponentials
// CHECK: loop.for %{{[a-z]+}} = 0 to 120 vector(32) {
// CHECK: math.exp
// CHECK: loop.for %{{[a-z]+}} = 0 to 40 vector(8) {
// CHECK: math.log
// CHECK: loop.for %{{[a-z]+}} = 0 to 96 vector(8) {
// CHECK: arith.negf
// CHECK: loop.for %{{[a-z]+}} = 0 to 256 vector(32) {
// CHECK: arith.negf
loop.kernel @exponentials(%x: !loop.buffer<[4, 120], f32>, %y: !loop.buffer<[4, 120], f32>, %a: !loop.buffer<[4, 40], f32>,
    %b: !loop.buffer<[4, 40], f32>, %c: !loop.buffer<[4, 96], f32>, %d: !loop.buffer<[4, 256], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 120 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 120], f32>
      %e = math.exp %v : f32
      loop.store %e, %y[%i, %j] : !loop.buffer<[4, 120], f32>
    }
    loop.for %k = 0 to 40 {
      %v = loop.load %a[%i, %k] : !loop.buffer<[4, 40], f32>
      %l = math.log %v : f32
      loop.store %l, %b[%i, %k] : !loop.buffer<[4, 40], f32>
    }
    loop.for %m = 0 to 96 {
      %v = loop.load %c[%i, %m] : !loop.buffer<[4, 96], f32>
      %n = arith.negf %v : f32
      loop.store %n, %c[%i, %m] : !loop.buffer<[4, 96], f32>
    }
    loop.for %o = 0 to 256 {
      %v = loop.load %d[%i, %o] : !loop.buffer<[4, 256], f32>
      %n = arith.negf %v : f32
      loop.store %n, %d[%i, %o] : !loop.buffer<[4, 256], f32>
    }
  }
}
