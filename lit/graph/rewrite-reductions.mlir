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

// -----

// Axes that come back as dims of 1 are kept; a sum over the number of its terms is a mean.
// CHECK-LABEL: func.func @means
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.reduce_mean %x {axes = array<i64: 1>, keepdims = true}
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.reduce_mean %y {axes = array<i64: 0>, keepdims = false}
// CHECK-NEXT: func.return %[[A]], %[[B]]
func.func @means(%x: !graph.tensor<[n, 3], f32>, %y: !graph.tensor<[4, n], f32>) -> (!graph.tensor<[n, 1], f32>, !graph.tensor<[n], f32>) {
  %three = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[1, 1]>, element = f32} : () -> !graph.tensor<[1, 1], f32>
  %quarter = graph.constant {literal = #graph.literal<[0.25]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %p = graph.reduce_sum %x {axes = array<i64: -1>, keepdims = false} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n], f32>
  %q = graph.reshape %p {shape = #graph.shape<[n, 1]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n, 1], f32>
  %a = graph.div %q, %three : (!graph.tensor<[n, 1], f32>, !graph.tensor<[1, 1], f32>) -> !graph.tensor<[n, 1], f32>
  %r = graph.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[4, n], f32>) -> !graph.tensor<[n], f32>
  %b = graph.mul %quarter, %r : (!graph.tensor<[], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %a, %b : !graph.tensor<[n, 1], f32>, !graph.tensor<[n], f32>
}

// -----

// Sums over other numbers, of integers and of axes that vary, and a reshape into other dims stay.
// CHECK-LABEL: func.func @no_means
// CHECK-COUNT-3: graph.reduce_sum
// CHECK: graph.reduce_max %x {axes = array<i64: 1>, keepdims = false}
// CHECK-NEXT: graph.reshape
func.func @no_means(%x: !graph.tensor<[n, 3], f32>, %k: !graph.tensor<[n, 3], i32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], i32>, !graph.tensor<[3], f32>, !graph.tensor<[1, n], f32>) {
  %three = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %five = graph.constant {literal = #graph.literal<[5.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %whole = graph.constant {literal = #graph.literal<[3]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %p = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n], f32>
  %a = graph.div %p, %five : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %q = graph.reduce_sum %k {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 3], i32>) -> !graph.tensor<[n], i32>
  %b = graph.div %q, %whole : (!graph.tensor<[n], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[n], i32>
  %r = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[3], f32>
  %c = graph.div %r, %three : (!graph.tensor<[3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[3], f32>
  %s = graph.reduce_max %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n], f32>
  %d = graph.reshape %s {shape = #graph.shape<[1, n]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[1, n], f32>
  func.return %a, %b, %c, %d : !graph.tensor<[n], f32>, !graph.tensor<[n], i32>, !graph.tensor<[3], f32>, !graph.tensor<[1, n], f32>
}

// -----

// Exponentials over their sum are a softmax, where the greatest element was taken from each.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.softmax %x {axis = 1 : i64}
// CHECK-NEXT: func.return %[[Y]]
func.func @softmax(%x: !graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32> {
  %m = graph.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %d = graph.sub %x, %m : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  %e = graph.exp %d : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %s = graph.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %y = graph.div %e, %s : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  func.return %y : !graph.tensor<[n, 3], f32>
}

// -----

// Not with the sum of other exponentials, along another axis, or where others read them.
// CHECK-LABEL: func.func @no_softmax
// CHECK-NOT: graph.softmax
// CHECK: func.return
func.func @no_softmax(%x: !graph.tensor<[n, 3], f32>, %z: !graph.tensor<[n, 3], f32>) -> (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], f32>) {
  %m = graph.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %d = graph.sub %x, %m : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  %e = graph.exp %d : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %s = graph.reduce_sum %z {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %a = graph.div %e, %s : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  %p = graph.reduce_max %z {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %q = graph.sub %z, %p : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  %r = graph.exp %q : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %t = graph.reduce_sum %r {axes = array<i64: 0>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[1, 3], f32>
  %b = graph.div %r, %t : (!graph.tensor<[n, 3], f32>, !graph.tensor<[1, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %u = graph.neg %z : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %v = graph.reduce_max %u {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %w = graph.sub %u, %v : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  %f = graph.exp %w : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %g = graph.reduce_sum %f {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 1], f32>
  %c = graph.div %f, %g : (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 3], f32>
  func.return %a, %b, %c, %f : !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], f32>
}
