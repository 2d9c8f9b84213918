// RUN: weft-opt %s --split-input-file -p weft-schedule-memory | filecheck %s

// What frees more than it takes runs as soon as it can: the sums, in the order that they had.
// CHECK-LABEL: func.func @sums
// CHECK: %a = graph.exp
// CHECK-NEXT: %s = graph.reduce_sum %a
// CHECK-NEXT: %u = graph.reduce_max %s
// CHECK-NEXT: %b = graph.sin
// CHECK: %t = graph.mul %u
// CHECK: func.return
func.func @sums(%x: !graph.tensor<[n, n], f32>) -> (!graph.tensor<[], f32>, !graph.tensor<[n, n], f32>) {
  %a = graph.exp %x : (!graph.tensor<[n, n], f32>) -> !graph.tensor<[n, n], f32>
  %b = graph.sin %x : (!graph.tensor<[n, n], f32>) -> !graph.tensor<[n, n], f32>
  %c = graph.cos %b : (!graph.tensor<[n, n], f32>) -> !graph.tensor<[n, n], f32>
  %s = graph.reduce_sum %a {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[n, n], f32>) -> !graph.tensor<[n], f32>
  %u = graph.reduce_max %s {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[n], f32>) -> !graph.tensor<[], f32>
  %t = graph.mul %u, %u : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  %d = graph.mul %c, %t : (!graph.tensor<[n, n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, n], f32>
  func.return %t, %d : !graph.tensor<[], f32>, !graph.tensor<[n, n], f32>
}

// -----

// What frees nothing, for something reads the operand later, stays; so does what mentions a size in front of which it would come.
// CHECK-LABEL: func.func @stays
// CHECK: %a = graph.exp
// CHECK-NEXT: %b = graph.sin
// CHECK-NEXT: %s = graph.reduce_sum %a
// CHECK-NEXT: %d = graph.add %a, %b
// CHECK-NEXT: graph.bind_sizes
// CHECK-NEXT: %e = graph.slice
func.func @stays(%x: !graph.tensor<[n], f32>, %k: !graph.tensor<[], i64>) -> (!graph.tensor<[], f32>, !graph.tensor<[n], f32>, !graph.tensor<[], f32>) {
  %a = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %b = graph.sin %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %s = graph.reduce_sum %a {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[n], f32>) -> !graph.tensor<[], f32>
  %d = graph.add %a, %b : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  graph.bind_sizes %k {sizes = ["m"]} : !graph.tensor<[], i64>
  %e = graph.slice %b {starts = #graph.shape<[m]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[1], f32>
  %f = graph.reshape %e {shape = #graph.shape<[]>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[], f32>
  func.return %s, %d, %f : !graph.tensor<[], f32>, !graph.tensor<[n], f32>, !graph.tensor<[], f32>
}

// -----

// What may take a donated input's memory frees more than it takes, but waits until nothing else reads that input; what nothing was donated for does not wait.
// CHECK-LABEL: func.func @donated
// CHECK: %e = graph.cos
// CHECK-NEXT: %v2 = graph.reduce_sum %e
// CHECK-NEXT: %b = graph.add %x, %w
// CHECK-NEXT: %w2 = graph.reduce_sum %a
// CHECK-NEXT: %c = graph.sin
func.func @donated(%x: !graph.tensor<[8, 8], f32>, %w: !graph.tensor<[8], f32>) -> (!graph.tensor<[8, 8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>) attributes {donated = [[#builtin.int<1>, #builtin.int<1>]]} {
  %a = graph.exp %x : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %e = graph.cos %x : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %b = graph.add %x, %w : (!graph.tensor<[8, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8, 8], f32>
  %c = graph.sin %b : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %w2 = graph.reduce_sum %a {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8], f32>
  %v2 = graph.reduce_sum %e {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8], f32>
  func.return %c, %w2, %v2 : !graph.tensor<[8, 8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>
}
