// RUN: weft-opt %s --split-input-file -p weft-fold-batch-norm | filecheck %s

// Known parameters are a factor and a shift of each channel: 1/2, 2/4 and 1 - 1/2, 3 - 4/2.
// CHECK-LABEL: func.func @anywhere
// CHECK: %[[FACTOR:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[2, 1, 1]>
// CHECK-NEXT: %[[SHIFT:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, 1.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.mul %x, %[[FACTOR]]
// CHECK-NEXT: graph.add %[[P]], %[[SHIFT]]
// CHECK-NOT: graph.batch_norm
func.func @anywhere(%x: !graph.tensor<[n, 2, 4, 4], f32>) -> !graph.tensor<[n, 2, 4, 4], f32> {
  %scale = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %bias = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %mean = graph.constant {literal = #graph.literal<[1.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %variance = graph.constant {literal = #graph.literal<[4.0, 16.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %y = graph.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2, 4, 4], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 4, 4], f32>
  func.return %y : !graph.tensor<[n, 2, 4, 4], f32>
}

// -----

// Behind a convolution both go into the filter and the bias, which keeps its attributes.
// CHECK-LABEL: func.func @behind_convolution
// CHECK: %[[FILTER:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, 5.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK: %[[BIAS:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.5, 3.0]>
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.conv %x, %[[FILTER]], %[[BIAS]] {group = 1 : i64, strides = array<i64: 2>}
// CHECK-NEXT: func.return %[[Y]]
func.func @behind_convolution(%x: !graph.tensor<[n, 1, 4], f32>) -> !graph.tensor<[n, 2, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 10.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %b = graph.constant {literal = #graph.literal<[2.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %scale = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %bias = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %mean = graph.constant {literal = #graph.literal<[1.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %variance = graph.constant {literal = #graph.literal<[4.0, 16.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %c = graph.conv %x, %w, %b {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[n, 1, 4], f32>, !graph.tensor<[2, 1, 1], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 2], f32>
  %y = graph.batch_norm %c, %scale, %bias, %mean, %variance {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2, 2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 2], f32>
  func.return %y : !graph.tensor<[n, 2, 2], f32>
}

// -----

// A convolution that somebody else reads keeps its filter.
// CHECK-LABEL: func.func @shared_convolution
// CHECK: %[[C:[a-z_0-9]+]] = graph.conv %x, %w {
// CHECK: graph.mul %[[C]],
// CHECK: graph.add
func.func @shared_convolution(%x: !graph.tensor<[n, 1, 4], f32>) -> (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2, 4], f32>) {
  %w = graph.constant {literal = #graph.literal<[1.0, 10.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %p = graph.constant {literal = #graph.literal<[4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %c = graph.conv %x, %w {group = 1 : i64} : (!graph.tensor<[n, 1, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %y = graph.batch_norm %c, %p, %p, %p, %p {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 4], f32>
  func.return %c, %y : !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2, 4], f32>
}

// -----

// Parameters that arrive at run time stay an operator.
// CHECK-LABEL: func.func @unknown
// CHECK: graph.batch_norm
func.func @unknown(%x: !graph.tensor<[n, 2], f32>, %p: !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32> {
  %y = graph.batch_norm %x, %p, %p, %p, %p {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %y : !graph.tensor<[n, 2], f32>
}
