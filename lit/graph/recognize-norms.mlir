// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-recognize-norms | filecheck %s

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
