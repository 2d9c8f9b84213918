// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Many terms, few sums: blocks of terms run in parallel, a few rows of terms at a time are added to the sums of a block, and sums of blocks are added up last.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: %[[P:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[16, 256, 4], f32, [d0, d2, d1] in [16, 4, 256]>
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 16 parallel {
// CHECK: loop.store %{{.*}}, %[[P]][%[[K]]
// CHECK: loop.for %[[O:[a-z_0-9]+]] = 0 to 24 reduction(add) {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 32 {
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 16 unroll reduction(add) {
// CHECK: loop.prefetch %a0[384 * %[[K]] + 16 * %[[O]] + %[[R]] + 16, 8 * %[[I]]
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 parallel {
// CHECK: loop.for %[[L:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK: loop.load %[[P]][%[[L]]
func.func @main(%x: !graph.tensor<[6144, 256], f32>, %w: !graph.tensor<[6144, 4], f32>) -> !graph.tensor<[256, 4], f32> {
  %y = graph.einsum %x, %w {equation = "ki,kj->ij"} : (!graph.tensor<[6144, 256], f32>, !graph.tensor<[6144, 4], f32>) -> !graph.tensor<[256, 4], f32>
  func.return %y : !graph.tensor<[256, 4], f32>
}

// -----

// Few terms: a tile of sums goes through all of them.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.alloc registers
func.func @main(%x: !graph.tensor<[512, 256], f32>, %w: !graph.tensor<[512, 4], f32>) -> !graph.tensor<[256, 4], f32> {
  %y = graph.einsum %x, %w {equation = "ki,kj->ij"} : (!graph.tensor<[512, 256], f32>, !graph.tensor<[512, 4], f32>) -> !graph.tensor<[256, 4], f32>
  func.return %y : !graph.tensor<[256, 4], f32>
}
