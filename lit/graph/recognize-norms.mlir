// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce,weft-recognize-norms | filecheck %s

// A layer normalisation of single operators.
// CHECK-LABEL: func.func @layer
// CHECK: %[[Y:[a-z]+]] = graph.layer_norm %x, %g, %b {axis = -1 : i64, epsilon = 1.000000e-05 : f64}
// CHECK-NEXT: func.return %[[Y]]
func.func @layer(%x: !graph.tensor<[n, 8], f32>, %g: !graph.tensor<[8], f32>, %b: !graph.tensor<[8], f32>) -> !graph.tensor<[n, 8], f32> {
  %two = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %eps = graph.constant {literal = #graph.literal<[1.0e-05]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %m = graph.reduce_mean %x {axes = array<i64: -1>, keepdims = true} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 1], f32>
  %d = graph.sub %x, %m : (!graph.tensor<[n, 8], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 8], f32>
  %q = graph.pow %d, %two : (!graph.tensor<[n, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, 8], f32>
  %v = graph.reduce_mean %q {axes = array<i64: -1>, keepdims = true} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 1], f32>
  %s = graph.add %v, %eps : (!graph.tensor<[n, 1], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, 1], f32>
  %r = graph.sqrt %s : (!graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 1], f32>
  %o = graph.div %d, %r : (!graph.tensor<[n, 8], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 8], f32>
  %p = graph.mul %o, %g : (!graph.tensor<[n, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[n, 8], f32>
  %y = graph.add %p, %b : (!graph.tensor<[n, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[n, 8], f32>
  func.return %y : !graph.tensor<[n, 8], f32>
}

// -----

// A root-mean-square normalisation by the reciprocal of the root.
// CHECK-LABEL: func.func @rms
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.rms_norm %x, %g {axis = -1 : i64, epsilon = 1.000000e-06 : f64}
// CHECK-NEXT: func.return %[[Y]]
func.func @rms(%x: !graph.tensor<[n, 8], f32>, %g: !graph.tensor<[8], f32>) -> !graph.tensor<[n, 8], f32> {
  %eps = graph.constant {literal = #graph.literal<[1.0e-06]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %q = graph.mul %x, %x : (!graph.tensor<[n, 8], f32>, !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32>
  %v = graph.reduce_mean %q {axes = array<i64: -1>, keepdims = true} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 1], f32>
  %s = graph.add %v, %eps : (!graph.tensor<[n, 1], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, 1], f32>
  %r = graph.sqrt %s : (!graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 1], f32>
  %i = graph.reciprocal %r : (!graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 1], f32>
  %o = graph.mul %x, %i : (!graph.tensor<[n, 8], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 8], f32>
  %y = graph.mul %g, %o : (!graph.tensor<[8], f32>, !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32>
  func.return %y : !graph.tensor<[n, 8], f32>
}

// -----

// Means over the first axis are no lines of a layer normalisation.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: graph.rms_norm
// CHECK: graph.sqrt
func.func @columns(%x: !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32> {
  %eps = graph.constant {literal = #graph.literal<[1.0e-06]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %q = graph.mul %x, %x : (!graph.tensor<[n, 8], f32>, !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32>
  %v = graph.reduce_mean %q {axes = array<i64: 0>, keepdims = true} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[1, 8], f32>
  %s = graph.add %v, %eps : (!graph.tensor<[1, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[1, 8], f32>
  %r = graph.sqrt %s : (!graph.tensor<[1, 8], f32>) -> !graph.tensor<[1, 8], f32>
  %y = graph.div %x, %r : (!graph.tensor<[n, 8], f32>, !graph.tensor<[1, 8], f32>) -> !graph.tensor<[n, 8], f32>
  func.return %y : !graph.tensor<[n, 8], f32>
}

// -----

// The variance as a difference of means, and the scale in front of the product with the distance.
// CHECK-LABEL: func.func @difference
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.layer_norm %x, %s, %b {axis = -1 : i64, epsilon = 1.000000e-05 : f64}
// CHECK-NEXT: func.return %[[Y]]
func.func @difference(%x: !graph.tensor<[2, n, 4], f32>, %s: !graph.tensor<[4], f32>, %b: !graph.tensor<[4], f32>) -> !graph.tensor<[2, n, 4], f32> {
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %eps = graph.constant {literal = #graph.literal<[1.0e-05]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %m = graph.reduce_mean %x {axes = array<i64: 2>, keepdims = false} : (!graph.tensor<[2, n, 4], f32>) -> !graph.tensor<[2, n], f32>
  %q = graph.mul %x, %x : (!graph.tensor<[2, n, 4], f32>, !graph.tensor<[2, n, 4], f32>) -> !graph.tensor<[2, n, 4], f32>
  %p = graph.reduce_mean %q {axes = array<i64: 2>, keepdims = false} : (!graph.tensor<[2, n, 4], f32>) -> !graph.tensor<[2, n], f32>
  %r = graph.mul %m, %m : (!graph.tensor<[2, n], f32>, !graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n], f32>
  %v = graph.sub %p, %r : (!graph.tensor<[2, n], f32>, !graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n], f32>
  %w = graph.max %zero, %v : (!graph.tensor<[], f32>, !graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n], f32>
  %k = graph.reshape %m {shape = #graph.shape<[2, n, 1]>} : (!graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n, 1], f32>
  %l = graph.reshape %w {shape = #graph.shape<[2, n, 1]>} : (!graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n, 1], f32>
  %d = graph.sub %x, %k : (!graph.tensor<[2, n, 4], f32>, !graph.tensor<[2, n, 1], f32>) -> !graph.tensor<[2, n, 4], f32>
  %e = graph.add %l, %eps : (!graph.tensor<[2, n, 1], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, n, 1], f32>
  %f = graph.sqrt %e : (!graph.tensor<[2, n, 1], f32>) -> !graph.tensor<[2, n, 1], f32>
  %g = graph.reciprocal %f : (!graph.tensor<[2, n, 1], f32>) -> !graph.tensor<[2, n, 1], f32>
  %h = graph.mul %g, %s : (!graph.tensor<[2, n, 1], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[2, n, 4], f32>
  %i = graph.mul %d, %h : (!graph.tensor<[2, n, 4], f32>, !graph.tensor<[2, n, 4], f32>) -> !graph.tensor<[2, n, 4], f32>
  %y = graph.add %i, %b : (!graph.tensor<[2, n, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[2, n, 4], f32>
  func.return %y : !graph.tensor<[2, n, 4], f32>
}

// -----

// Along other axes than the last the variance stays a difference of means.
// CHECK-LABEL: func.func @first_axis
// CHECK-COUNT-2: graph.reduce_mean
// CHECK: graph.sub
// CHECK-NEXT: func.return
func.func @first_axis(%x: !graph.tensor<[3, 4], f32>) -> !graph.tensor<[4], f32> {
  %m = graph.reduce_mean %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[4], f32>
  %q = graph.mul %x, %x : (!graph.tensor<[3, 4], f32>, !graph.tensor<[3, 4], f32>) -> !graph.tensor<[3, 4], f32>
  %p = graph.reduce_mean %q {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[4], f32>
  %r = graph.mul %m, %m : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %v = graph.sub %p, %r : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %v : !graph.tensor<[4], f32>
}
