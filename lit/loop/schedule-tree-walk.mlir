// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// How many rows there are decides what is parallel and what a vector's lanes are: trees of one row,
// or rows of one tree.
// CHECK-LABEL: loop.kernel @tree_ensemble
// CHECK: arith.cmpi sle
// CHECK: loop.if
// CHECK-NEXT: loop.for %{{.*}} = 0 to n{{.*}} parallel {
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 64 unroll vector(8) {
// CHECK: loop.if
// CHECK-NEXT: loop.for %{{.*}} = 0 to -(-n{{.*}} floordiv 64) parallel {
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 64 unroll vector(8) {
func.func @main(%x: !graph.tensor<[n, 3], f32>, %c: !graph.tensor<[7], i32>, %t: !graph.tensor<[7], f32>, %l: !graph.tensor<[7], i32>, %r: !graph.tensor<[70], i32>, %d: !graph.tensor<[70], i32>, %w: !graph.tensor<[4, 1], f32>, %k: !graph.tensor<[70], i32>) -> !graph.tensor<[n, 1], f32> {
  %y = graph.tree_ensemble %x, %c, %t, %l, %r, %d, %w, %k {count = 1 : i64, combiner = "add", missing = false, bits = 3 : i64} : (!graph.tensor<[n, 3], f32>, !graph.tensor<[7], i32>, !graph.tensor<[7], f32>, !graph.tensor<[7], i32>, !graph.tensor<[70], i32>, !graph.tensor<[70], i32>, !graph.tensor<[4, 1], f32>, !graph.tensor<[70], i32>) -> !graph.tensor<[n, 1], f32>
  func.return %y : !graph.tensor<[n, 1], f32>
}
