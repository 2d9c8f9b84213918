// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// Reductions of reductions go over the axes of both.
// CHECK-LABEL: func.func @both
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.reduce_sum %x {axes = array<i64: 1, 2>, keepdims = false}
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.reduce_max %x {axes = array<i64: 0, 2>, keepdims = true}
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.reduce_mean %x {axes = array<i64: 0, 1>, keepdims = false}
// CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]]
func.func @both(%x: !graph.tensor<[n, 3, 4], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[1, 3, 1], f32>, !graph.tensor<[4], f32>) {
  %p = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[n, 4], f32>
  %a = graph.reduce_sum %p {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 4], f32>) -> !graph.tensor<[n], f32>
  %q = graph.reduce_max %x {axes = array<i64: -1>, keepdims = true} : (!graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[n, 3, 1], f32>
  %b = graph.reduce_max %q {axes = array<i64: 0>, keepdims = true} : (!graph.tensor<[n, 3, 1], f32>) -> !graph.tensor<[1, 3, 1], f32>
  %r = graph.reduce_mean %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[3, 4], f32>
  %c = graph.reduce_mean %r {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %b, %c : !graph.tensor<[n], f32>, !graph.tensor<[1, 3, 1], f32>, !graph.tensor<[4], f32>
}

// -----

// Means of integers are rounded in between; other reductions, one that keeps dims while the other
// does not, and one that is read elsewhere stay.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-2: graph.reduce_mean
// CHECK: graph.reduce_max
// CHECK: graph.reduce_sum
// CHECK: graph.reduce_sum
// CHECK: graph.reduce_sum
func.func @apart(%k: !graph.tensor<[2, 3], i32>, %x: !graph.tensor<[2, 3], f32>) -> (!graph.tensor<[], i32>, !graph.tensor<[], f32>, !graph.tensor<[1], f32>, !graph.tensor<[2, 1], f32>) {
  %p = graph.reduce_mean %k {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[2, 3], i32>) -> !graph.tensor<[2], i32>
  %a = graph.reduce_mean %p {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2], i32>) -> !graph.tensor<[], i32>
  %q = graph.reduce_max %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2], f32>
  %b = graph.reduce_sum %q {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2], f32>) -> !graph.tensor<[], f32>
  %r = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 1], f32>
  %c = graph.reduce_sum %r {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2, 1], f32>) -> !graph.tensor<[1], f32>
  func.return %a, %b, %c, %r : !graph.tensor<[], i32>, !graph.tensor<[], f32>, !graph.tensor<[1], f32>, !graph.tensor<[2, 1], f32>
}
