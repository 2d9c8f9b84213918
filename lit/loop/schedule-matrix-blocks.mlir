// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop,weft-schedule | filecheck %s

// Rows of large products are packed a block at a time, 16 words of 32 rows next to each other; L1 keeps 1,024 terms of a
// panel while all tiles of a block pass, whose sums are in memory. Each tile prefetches its part of the next panel, and the
// sums of the last part go past the caches among the products of the next tile.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK: loop.for %[[IC:[a-z_0-9]+]] = 0 to 8 parallel {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[256, 2048], ui8, [(d0 floordiv 32), (d1 floordiv 64), (d0 mod 32), (d1 mod 64)] in [8, 32, 32, 64]>
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[8, 32, 32], i32
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 8 {
// CHECK: arith.constant 0
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 16 matrix reduction(add) {
// CHECK: loop.load %[[X]][
// CHECK: loop.prefetch %a1[
// CHECK: matrix reduction(add)
// CHECK: loop.for %{{.*}} = 0 to 7 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 matrix reduction(add) {
// CHECK: loop.prefetch %a1[
// CHECK: nontemporal
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[2048, 2048], ui8>) -> !graph.tensor<[2048, 2048], i32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[2048, 2048]>, element = i8} : () -> !graph.tensor<[2048, 2048], i8>
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[2048, 2048], ui8>, !graph.tensor<[2048, 2048], i8>) -> !graph.tensor<[2048, 2048], i32>
    func.return %y : !graph.tensor<[2048, 2048], i32>
  }
}

// -----

// Half of L2 has room for 256 rows of 4,096 terms.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK: loop.alloc scratch : !loop.buffer<[256, 4096], ui8, [(d0 floordiv 32), (d1 floordiv 64), (d0 mod 32), (d1 mod 64)] in [8, 64, 32, 64]>
// CHECK-COUNT-4: loop.for %{{.*}} = 0 to 16 matrix reduction(add) {
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[2048, 4096], ui8>) -> !graph.tensor<[2048, 2048], i32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[4096, 2048]>, element = i8} : () -> !graph.tensor<[4096, 2048], i8>
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[2048, 4096], ui8>, !graph.tensor<[4096, 2048], i8>) -> !graph.tensor<[2048, 2048], i32>
    func.return %y : !graph.tensor<[2048, 2048], i32>
  }
}
