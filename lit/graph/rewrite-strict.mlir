// RUN: weft-opt %s --split-input-file -p "weft-set-options{strict_fp=true},weft-rewrite,weft-cse-dce" | filecheck %s

// What rounds otherwise stays with strict_fp: sums in another order, powers of several products,
// and constants inside of products.
// CHECK-LABEL: func.func @roundings
// CHECK-COUNT-2: graph.reduce_sum
// CHECK: graph.pow
// CHECK: graph.pow
// CHECK: graph.matmul
// CHECK: graph.mul
// CHECK-COUNT-2: graph.add
// CHECK: graph.batch_norm
func.func @roundings(%x: !graph.tensor<[2, 3], f32>, %m: !graph.tensor<[n, 1], f32>) -> (!graph.tensor<[], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>) {
  %three = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %less = graph.constant {literal = #graph.literal<[-0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %by = graph.constant {literal = #graph.literal<[2.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %p = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[3], f32>
  %a = graph.reduce_sum %p {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[3], f32>) -> !graph.tensor<[], f32>
  %b = graph.pow %x, %three : (!graph.tensor<[2, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 3], f32>
  %square = graph.mul %x, %x : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %c = graph.pow %square, %less : (!graph.tensor<[2, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 3], f32>
  %q = graph.matmul %m, %w : (!graph.tensor<[n, 1], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %d = graph.mul %q, %by : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %s = graph.add %d, %by : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %e = graph.add %s, %three : (!graph.tensor<[n, 2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, 2], f32>
  %f = graph.batch_norm %e, %by, %by, %by, %by {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %a, %b, %c, %d, %e, %f : !graph.tensor<[], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>
}

// -----

// What keeps every bit does not, and sums of integers have no rounding.
// CHECK-LABEL: func.func @exact
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.sub %x, %y
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.reduce_sum %k {axes = array<i64: 0, 1>
// CHECK-NEXT: func.return %[[A]], %[[B]]
func.func @exact(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[n], f32>, %k: !graph.tensor<[2, 3], i32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[], i32>) {
  %q = graph.neg %y : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %a = graph.add %x, %q : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %p = graph.reduce_sum %k {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2, 3], i32>) -> !graph.tensor<[3], i32>
  %b = graph.reduce_sum %p {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[3], i32>) -> !graph.tensor<[], i32>
  func.return %a, %b : !graph.tensor<[n], f32>, !graph.tensor<[], i32>
}
