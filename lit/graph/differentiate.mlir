// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-differentiate,weft-fold-constants,weft-rewrite,weft-cse-dce | filecheck %s

// f(x1, x2) = ln x1 + x1 x2 - sin x2: the derivative is x2 + 1/x1 in x1, and x1 - cos x2 in x2.
// CHECK-LABEL: func.func @main
// CHECK-SAME: output_names = ["y0", "grad_x1", "grad_x2"]
// CHECK: %y = graph.sub
// CHECK-NEXT: %[[COS:.*]] = graph.cos %x2
// CHECK-NEXT: %[[GRAD2:.*]] = graph.sub %x1, %[[COS]]
// CHECK-NEXT: %[[INVERSE:.*]] = graph.reciprocal %x1
// CHECK-NEXT: %[[GRAD1:.*]] = graph.add %x2, %[[INVERSE]]
// CHECK-NEXT: func.return %y, %[[GRAD1]], %[[GRAD2]]
func.func @main(%x1: !graph.tensor<[], f64>, %x2: !graph.tensor<[], f64>) -> !graph.tensor<[], f64> {
  %a = graph.log %x1 : (!graph.tensor<[], f64>) -> !graph.tensor<[], f64>
  %b = graph.mul %x1, %x2 : (!graph.tensor<[], f64>, !graph.tensor<[], f64>) -> !graph.tensor<[], f64>
  %c = graph.sin %x2 : (!graph.tensor<[], f64>) -> !graph.tensor<[], f64>
  %d = graph.add %a, %b : (!graph.tensor<[], f64>, !graph.tensor<[], f64>) -> !graph.tensor<[], f64>
  %y = graph.sub %d, %c : (!graph.tensor<[], f64>, !graph.tensor<[], f64>) -> !graph.tensor<[], f64>
  func.return %y : !graph.tensor<[], f64>
}

// -----

// What no result depends on has a gradient of zeros; an integer input has none.
// CHECK-LABEL: func.func @main
// CHECK-SAME: output_names = ["y0", "grad_x", "grad_z"]
// CHECK: %[[ZERO:.*]] = graph.expand
// CHECK: func.return %y, %y, %[[ZERO]]
func.func @main(%x: !graph.tensor<[], f32>, %i: !graph.tensor<[], i64>, %z: !graph.tensor<[n], f32>) -> !graph.tensor<[], f32> {
  %y = graph.exp %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  func.return %y : !graph.tensor<[], f32>
}

// -----

// CHECK: gradients require a first result that is one float, got [4] f32
func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  func.return %x : !graph.tensor<[4], f32>
}
