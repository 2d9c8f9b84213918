// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// Many terms, few sums: blocks of terms run in parallel, a few rows of terms at a time are added to the sums of a block, and sums of blocks are added up last.
// CHECK-LABEL: loop.kernel @long
// CHECK: %[[P:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[16, 256, 4], f32, [d0, d2, d1] in [16, 4, 256]>
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 16 parallel {
// CHECK: loop.store %{{.*}}, %[[P]][%[[K]]
// CHECK: loop.for %[[O:[a-z_0-9]+]] = 0 to 24 reduction(add) {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 32 {
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 16 unroll reduction(add) {
// CHECK: loop.prefetch %x[384 * %[[K]] + 16 * %[[O]] + %[[R]] + 16, 8 * %[[I]]
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 parallel {
// CHECK: loop.for %[[L:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK: loop.load %[[P]][%[[L]]
loop.kernel @long(%x: !loop.buffer<[6144, 256], f32>, %y: !loop.buffer<[6144, 4], f32>, %z: !loop.buffer<[256, 4], f32>) {
  loop.for %i = 0 to 256 {
    loop.for %j = 0 to 4 {
      loop.for %k = 0 to 6144 reduction(add) {
        %a = loop.load %x[%k, %i] : !loop.buffer<[6144, 256], f32>
        %b = loop.load %y[%k, %j] : !loop.buffer<[6144, 4], f32>
        %c = loop.load %z[%i, %j] : !loop.buffer<[256, 4], f32>
        %d = arith.mulf %a, %b : f32
        %e = arith.addf %c, %d : f32
        loop.store %e, %z[%i, %j] : !loop.buffer<[256, 4], f32>
      }
    }
  }
}

// -----

// Few terms: a tile of sums goes through all of them.
// CHECK-LABEL: loop.kernel @short
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.alloc registers
loop.kernel @short(%x: !loop.buffer<[512, 256], f32>, %y: !loop.buffer<[512, 4], f32>, %z: !loop.buffer<[256, 4], f32>) {
  loop.for %i = 0 to 256 {
    loop.for %j = 0 to 4 {
      loop.for %k = 0 to 512 reduction(add) {
        %a = loop.load %x[%k, %i] : !loop.buffer<[512, 256], f32>
        %b = loop.load %y[%k, %j] : !loop.buffer<[512, 4], f32>
        %c = loop.load %z[%i, %j] : !loop.buffer<[256, 4], f32>
        %d = arith.mulf %a, %b : f32
        %e = arith.addf %c, %d : f32
        loop.store %e, %z[%i, %j] : !loop.buffer<[256, 4], f32>
      }
    }
  }
}
