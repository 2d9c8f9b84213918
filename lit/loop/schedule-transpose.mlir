// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Blocks of 8 by 8 elements are turned in registers: loaded along one side, stored along the other.
// CHECK-LABEL: loop.kernel @transpose
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 1 {
// CHECK-NEXT: loop.for %[[JIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[IIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[III:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[JII:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %x[64 * %[[JO]] + 8 * %[[JIO]] + %[[JII]], 64 * %[[IO]] + 8 * %[[IIO]] + %[[III]]] :
// CHECK-NEXT: loop.store %{{.*}}, %y[64 * %[[IO]] + 8 * %[[IIO]] + %[[III]], 64 * %[[JO]] + 8 * %[[JIO]] + %[[JII]]] :
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
loop.kernel @transpose(%x: !loop.buffer<[128, 100], f32>, %y: !loop.buffer<[100, 128], f32>) {
  loop.for %i = 0 to 100 {
    loop.for %j = 0 to 128 {
      %v = loop.load %x[%j, %i] : !loop.buffer<[128, 100], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[100, 128], f32>
    }
  }
}

// -----

// Where the lines of a column are in each other's way, they are filled one after another.
// CHECK-LABEL: loop.kernel @crowded
// CHECK: loop.for %[[IIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[JIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[III:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[JII:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %x[64 * %{{.*}} + 8 * %[[JIO]] + %[[JII]], 64 * %{{.*}} + 8 * %[[IIO]] + %[[III]]] :
loop.kernel @crowded(%x: !loop.buffer<[1024, 128], f32>, %y: !loop.buffer<[128, 1024], f32>) {
  loop.for %i = 0 to 128 {
    loop.for %j = 0 to 1024 {
      %v = loop.load %x[%j, %i] : !loop.buffer<[1024, 128], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[128, 1024], f32>
    }
  }
}

// -----

// What no cache holds goes past them: of four lines both halves, one soon after the other.
// CHECK-LABEL: loop.kernel @past_caches
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: loop.for %[[LINE:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[ROW:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[HALF:[a-z_0-9]+]] = 0 to 2 unroll {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 4 unroll {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NOT: loop.prefetch
// CHECK: loop.load %x[32 * %[[JO]] + 16 * %[[LINE]] + 8 * %[[HALF]] + %[[J]], 16 * %[[IO]] + 4 * %[[ROW]] + %[[I]]] :
// CHECK-NEXT: loop.store %{{.*}}, %y{{.*}} nontemporal :
loop.kernel @past_caches(%x: !loop.buffer<[2048, 1024], f32>, %y: !loop.buffer<[1024, 2048], f32>) {
  loop.for %i = 0 to 1024 {
    loop.for %j = 0 to 2048 {
      %v = loop.load %x[%j, %i] : !loop.buffer<[2048, 1024], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[1024, 2048], f32>
    }
  }
}

// -----

// Rows and columns that fill no lines are turned in smaller blocks.
// CHECK-LABEL: loop.kernel @past_caches_with_rest
// CHECK: loop.for %{{.*}} = 0 to 64 parallel {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
loop.kernel @past_caches_with_rest(%x: !loop.buffer<[2052, 1028], f32>, %y: !loop.buffer<[1028, 2052], f32>) {
  loop.for %i = 0 to 1028 {
    loop.for %j = 0 to 2052 {
      %v = loop.load %x[%j, %i] : !loop.buffer<[2052, 1028], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[1028, 2052], f32>
    }
  }
}

// -----

// What is computed with on the way goes through a copy of tiles of 50 by 64 elements.
// CHECK-LABEL: loop.kernel @negated
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: %[[TILE:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[64, 50], f32>
// CHECK-NEXT: loop.for %[[LD0:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: loop.for %[[LD1:[a-z_0-9]+]] = 0 to 50 vector(8) {
// CHECK-NEXT: loop.load %x[64 * %[[JO]] + %[[LD0]], 50 * %[[IO]] + %[[LD1]]]
// CHECK: loop.for %[[II:[a-z_0-9]+]] = 0 to 50 {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 64 vector(8) {
// CHECK-NEXT: loop.load %[[TILE]][%[[JI]], %[[II]]]
// CHECK: loop.store %{{.*}}, %y[50 * %[[IO]] + %[[II]], 64 * %[[JO]] + %[[JI]]]
loop.kernel @negated(%x: !loop.buffer<[128, 100], f32>, %y: !loop.buffer<[100, 128], f32>) {
  loop.for %i = 0 to 100 {
    loop.for %j = 0 to 128 {
      %v = loop.load %x[%j, %i] : !loop.buffer<[128, 100], f32>
      %n = arith.negf %v : f32
      loop.store %n, %y[%i, %j] : !loop.buffer<[100, 128], f32>
    }
  }
}

// -----

// Of unknown sizes, what is left over whole tiles runs in plain vectors.
// CHECK-LABEL: loop.kernel @symbolic
// CHECK: loop.for %{{.*}} = 0 to (m floordiv 64) parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to (n floordiv 64) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to (m mod 64) vector(8) {
// CHECK: loop.for %{{.*}} = 0 to (n mod 64) parallel {
loop.kernel @symbolic[m, n](%x: !loop.buffer<[m, n], f32>, %y: !loop.buffer<[n, m], f32>) {
  loop.for %i = 0 to n {
    loop.for %j = 0 to m {
      %v = loop.load %x[%j, %i] : !loop.buffer<[m, n], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[n, m], f32>
    }
  }
}

// -----

// Neighbours that lie close to each other are no columns.
// CHECK-LABEL: loop.kernel @pairs
// CHECK-NOT: scratch
// CHECK: vector
loop.kernel @pairs(%x: !loop.buffer<[128, 2], f32>, %y: !loop.buffer<[2, 128], f32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 128 {
      %v = loop.load %x[%j, %i] : !loop.buffer<[128, 2], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[2, 128], f32>
    }
  }
}

// -----

// Loops that could be one stay two: a tile of them is a box.
// CHECK-LABEL: loop.kernel @to_channels_last
// CHECK: loop.for %[[WO:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.load %x[64 * %{{.*}}, %h, 56 * %[[WO]] + {{.*}}]
loop.kernel @to_channels_last(%x: !loop.buffer<[64, 112, 112], f32>, %y: !loop.buffer<[112, 112, 64], f32>) {
  loop.for %h = 0 to 112 {
    loop.for %w = 0 to 112 {
      loop.for %c = 0 to 64 {
        %v = loop.load %x[%c, %h, %w] : !loop.buffer<[64, 112, 112], f32>
        loop.store %v, %y[%h, %w, %c] : !loop.buffer<[112, 112, 64], f32>
      }
    }
  }
}
