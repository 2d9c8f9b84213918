// RUN: weft-opt %s --split-input-file -p weft-store-literals | filecheck %s

// A vector of floats beside a stored weight is one; one number for all elements, and integers, stay.
// CHECK-LABEL: func.func @beside_weights
// CHECK-NEXT: %w = graph.constant {key = "w"
// CHECK-NEXT: %bias = graph.constant {key = "bias", shape = #graph.shape<[2]>, element = f32}
// CHECK-NEXT: %one = graph.constant {literal = #graph.literal<[1.0]>
// CHECK-NEXT: %at = graph.constant {literal = #graph.literal<[1, 0]>
func.func @beside_weights(%x: !graph.tensor<[m, 40], f32>) -> (!graph.tensor<[m, 2], f32>, !graph.tensor<[2], i64>) {
  %w = graph.constant {key = "w", shape = #graph.shape<[40, 2]>, element = f32} : () -> !graph.tensor<[40, 2], f32>
  %bias = graph.constant {literal = #graph.literal<[0.5, 1.5]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %at = graph.constant {literal = #graph.literal<[1, 0]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %p = graph.matmul %x, %w : (!graph.tensor<[m, 40], f32>, !graph.tensor<[40, 2], f32>) -> !graph.tensor<[m, 2], f32>
  %s = graph.add %p, %bias : (!graph.tensor<[m, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32>
  %y = graph.add %s, %one : (!graph.tensor<[m, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32>
  func.return %y, %at : !graph.tensor<[m, 2], f32>, !graph.tensor<[2], i64>
}

// -----

// A program without stored weights gets none.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: graph.constant {literal = #graph.literal<[0.5, 1.5]>
func.func @alone(%x: !graph.tensor<[m, 2], f32>) -> !graph.tensor<[m, 2], f32> {
  %bias = graph.constant {literal = #graph.literal<[0.5, 1.5]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %y = graph.add %x, %bias : (!graph.tensor<[m, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32>
  func.return %y : !graph.tensor<[m, 2], f32>
}

// -----

// What a product multiplies is a weight, also with one number for all elements; a single element stays.
// CHECK-LABEL: func.func @factors
// CHECK-NEXT: graph.constant {key = "w", shape = #graph.shape<[40, 2]>, element = f32}
// CHECK-NEXT: graph.constant {literal = #graph.literal<[2.0]>
// CHECK-NEXT: graph.constant {literal = #graph.literal<[1.0]>
func.func @factors(%x: !graph.tensor<[m, 40], f32>) -> !graph.tensor<[m, 1], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[40, 2]>, element = f32} : () -> !graph.tensor<[40, 2], f32>
  %v = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[1, 1]>, element = f32} : () -> !graph.tensor<[1, 1], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %p = graph.matmul %x, %w : (!graph.tensor<[m, 40], f32>, !graph.tensor<[40, 2], f32>) -> !graph.tensor<[m, 2], f32>
  %s = graph.add %p, %one : (!graph.tensor<[m, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32>
  %t = graph.slice %s {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[m, 1]>, steps = array<i64: 1, 1>} : (!graph.tensor<[m, 2], f32>) -> !graph.tensor<[m, 1], f32>
  %y = graph.matmul %t, %v : (!graph.tensor<[m, 1], f32>, !graph.tensor<[1, 1], f32>) -> !graph.tensor<[m, 1], f32>
  func.return %y : !graph.tensor<[m, 1], f32>
}
