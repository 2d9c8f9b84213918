// RUN: weft-opt %s --split-input-file -p weft-fuse-matmuls | filecheck %s

// Products of one operand with two weights are one with both, whose columns they take.
// CHECK-LABEL: func.func @pair
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.0, 2.0, 5.0, 3.0, 4.0, 6.0]>, shape = #graph.shape<[2, 3]>
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.matmul %x, %[[W]]
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.slice %[[Y]] {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[4, 2]>
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = graph.slice %[[Y]] {starts = #graph.shape<[0, 2]>, sizes = #graph.shape<[4, 1]>
// CHECK-NEXT: func.return %[[P]], %[[Q]]
func.func @pair(%x: !graph.tensor<[4, 2], f32>) -> (!graph.tensor<[4, 2], f32>, !graph.tensor<[4, 1], f32>) {
  %v = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 4.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %w = graph.constant {literal = #graph.literal<[5.0, 6.0]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %p = graph.matmul %x, %v : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[4, 2], f32>
  %q = graph.matmul %x, %w : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[4, 1], f32>
  func.return %p, %q : !graph.tensor<[4, 2], f32>, !graph.tensor<[4, 1], f32>
}

// -----

// Biases go along.
// CHECK-LABEL: func.func @biased
// CHECK: %[[Y:[a-z_0-9]+]] = graph.matmul %x
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[7.0, 8.0, 9.0]>, shape = #graph.shape<[3]>
// CHECK-NEXT: %[[Z:[a-z_0-9]+]] = graph.add %[[Y]], %[[B]]
// CHECK-COUNT-2: graph.slice %[[Z]]
// CHECK-NEXT: func.return
func.func @biased(%x: !graph.tensor<[1, 4, 2], f32>) -> (!graph.tensor<[1, 4, 2], f32>, !graph.tensor<[1, 4, 1], f32>) {
  %v = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 4.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %w = graph.constant {literal = #graph.literal<[5.0, 6.0]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %b = graph.constant {literal = #graph.literal<[7.0, 8.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %c = graph.constant {literal = #graph.literal<[9.0]>, shape = #graph.shape<[1, 1, 1]>, element = f32} : () -> !graph.tensor<[1, 1, 1], f32>
  %p = graph.matmul %x, %v : (!graph.tensor<[1, 4, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[1, 4, 2], f32>
  %q = graph.matmul %x, %w : (!graph.tensor<[1, 4, 2], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[1, 4, 1], f32>
  %y = graph.add %p, %b : (!graph.tensor<[1, 4, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[1, 4, 2], f32>
  %z = graph.add %c, %q : (!graph.tensor<[1, 1, 1], f32>, !graph.tensor<[1, 4, 1], f32>) -> !graph.tensor<[1, 4, 1], f32>
  func.return %y, %z : !graph.tensor<[1, 4, 2], f32>, !graph.tensor<[1, 4, 1], f32>
}

// -----

// Many rows, or a number of them that only a call knows, and operands that a call brings stay.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-6: graph.matmul
// CHECK-NOT: graph.slice
func.func @stay(%x: !graph.tensor<[33, 2], f32>, %y: !graph.tensor<[n, 2], f32>, %z: !graph.tensor<[4, 2], f32>, %w: !graph.tensor<[2, 2], f32>) -> (!graph.tensor<[33, 2], f32>, !graph.tensor<[33, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[4, 2], f32>, !graph.tensor<[4, 2], f32>) {
  %v = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 4.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %u = graph.constant {literal = #graph.literal<[5.0, 6.0, 7.0, 8.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %a = graph.matmul %x, %v : (!graph.tensor<[33, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[33, 2], f32>
  %b = graph.matmul %x, %u : (!graph.tensor<[33, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[33, 2], f32>
  %c = graph.matmul %y, %v : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %d = graph.matmul %y, %u : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %e = graph.matmul %z, %v : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[4, 2], f32>
  %f = graph.matmul %z, %w : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[4, 2], f32>
  func.return %a, %b, %c, %d, %e, %f : !graph.tensor<[33, 2], f32>, !graph.tensor<[33, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[4, 2], f32>, !graph.tensor<[4, 2], f32>
}
