// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Three columns fill no vector: vectors go along the terms, and their lanes are added up last.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: %[[Y:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[256, 3], f32, [d1, d0] in [3, 256]>
// CHECK: loop.for %[[O:[a-z_0-9]+]] = 0 to 6 parallel {
// CHECK: loop.alloc scratch : !loop.buffer<[8, 16, 3], f32, [d1, d2, d0] in [16, 3, 8]>
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to 1 reduction(add) {
// CHECK-NEXT: loop.for %[[T:[a-z_0-9]+]] = 0 to 8 {
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to 2 unroll {
// CHECK: loop.prefetch %a0[16 * %[[O]] + 2 * %[[T]] + %[[R]] + 16,
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 3 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) reduction(add) {
// CHECK: loop.load %[[Y]][
func.func @main(%x: !graph.tensor<[100, 256], f32>, %w: !graph.tensor<[256, 3], f32>) -> !graph.tensor<[100, 3], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[100, 256], f32>, !graph.tensor<[256, 3], f32>) -> !graph.tensor<[100, 3], f32>
  func.return %y : !graph.tensor<[100, 3], f32>
}

// -----

// A row of columns that fills vectors has them along it.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.alloc registers
func.func @main(%x: !graph.tensor<[100, 256], f32>, %w: !graph.tensor<[256, 16], f32>) -> !graph.tensor<[100, 16], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[100, 256], f32>, !graph.tensor<[256, 16], f32>) -> !graph.tensor<[100, 16], f32>
  func.return %y : !graph.tensor<[100, 16], f32>
}
