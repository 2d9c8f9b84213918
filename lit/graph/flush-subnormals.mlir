// RUN: weft-opt %s --split-input-file -p weft-flush-subnormals | filecheck %s

// Numbers that are not normal are no factors; what is added, and what stands alone, stays.
// CHECK-LABEL: func.func @weights
// CHECK: %[[W:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.0, 2.0]>
// CHECK: graph.matmul %x, %[[W]]
// CHECK: graph.add %tiny_1, %tiny_1
func.func @weights(%x: !graph.tensor<[m, 2], f32>) -> !graph.tensor<[m, 1], f32> {
  %tiny = graph.constant {literal = #graph.literal<[1.0e-40, 2.0]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %p = graph.matmul %x, %tiny : (!graph.tensor<[m, 2], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[m, 1], f32>
  %s = graph.add %tiny, %tiny : (!graph.tensor<[2, 1], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[2, 1], f32>
  func.return %p : !graph.tensor<[m, 1], f32>
}

// -----

// Weights that are all subnormal may be all that the model computes with.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: graph.constant {literal = #graph.literal<[1.0e-40, 2.0e-40]>
// CHECK-NEXT: graph.matmul
func.func @alone(%x: !graph.tensor<[m, 2], f32>) -> !graph.tensor<[m, 1], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0e-40, 2.0e-40]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %p = graph.matmul %x, %w : (!graph.tensor<[m, 2], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[m, 1], f32>
  func.return %p : !graph.tensor<[m, 1], f32>
}
