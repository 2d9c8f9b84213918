// RUN: weft-opt %s --split-input-file -p weft-decompose-transposed-conv | filecheck %s

// Two results lie where one element does: they are two channels of a convolution with half the taps.
// CHECK-LABEL: func.func @halves
// CHECK: %[[W:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[3.0, 1.0, 4.0, 2.0]>, shape = #graph.shape<[2, 1, 2]>
// CHECK: %[[Y:[a-z_0-9]+]] = graph.conv %x, %[[W]] {group = 1 : i64, pads = array<i64: 1, 1>}
// CHECK: graph.reshape %[[Y]] {shape = #graph.shape<[1, 1, 2, n + 1]>}
// CHECK: graph.transpose %{{.*}} {permutation = array<i64: 0, 1, 3, 2>}
// CHECK: graph.reshape %{{.*}} {shape = #graph.shape<[1, 1, 2 * n + 2]>}
// CHECK: graph.slice %{{.*}} {{.*}}starts = #graph.shape<[0, 0, 1]>
// CHECK-NOT: graph.conv_transpose
func.func @halves(%x: !graph.tensor<[1, 1, n], f32>) -> !graph.tensor<[1, 1, 2*n], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 4.0]>, shape = #graph.shape<[1, 1, 4]>, element = f32} : () -> !graph.tensor<[1, 1, 4], f32>
  %y = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>, pads = array<i64: 1, 1>} : (!graph.tensor<[1, 1, n], f32>, !graph.tensor<[1, 1, 4], f32>) -> !graph.tensor<[1, 1, 2*n], f32>
  func.return %y : !graph.tensor<[1, 1, 2*n], f32>
}

// -----

// A filter that a call brings is taken apart in every call.
// CHECK-LABEL: func.func @given
// CHECK: %[[W:[a-z_0-9]+]] = graph.reshape %{{.*}} {shape = #graph.shape<[2, 1, 1]>}
// CHECK: graph.conv %x, %[[W]] {group = 1 : i64, pads = array<i64: 0, 0>}
// CHECK-NOT: graph.conv_transpose
func.func @given(%x: !graph.tensor<[1, 1, 4], f32>, %w: !graph.tensor<[1, 1, 2], f32>) -> !graph.tensor<[1, 1, 8], f32> {
  %y = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 2], f32>) -> !graph.tensor<[1, 1, 8], f32>
  func.return %y : !graph.tensor<[1, 1, 8], f32>
}

// -----

// Three taps on two phases: one has two of them and the other one, so windows are added up.
// CHECK-LABEL: func.func @unequal
// CHECK: %[[WINDOWS:[a-z_0-9]+]] = graph.reshape %{{.*}} {shape = #graph.shape<[1, 1, 3, n]>}
// CHECK: graph.fold %[[WINDOWS]] {spatial = #graph.shape<[2 * n + 1]>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = #graph.shape<[0, 0]>}
func.func @unequal(%x: !graph.tensor<[1, 1, n], f32>) -> !graph.tensor<[1, 1, 2*n + 1], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0]>, shape = #graph.shape<[1, 1, 3]>, element = f32} : () -> !graph.tensor<[1, 1, 3], f32>
  %y = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[1, 1, n], f32>, !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 2*n + 1], f32>
  func.return %y : !graph.tensor<[1, 1, 2*n + 1], f32>
}

// -----

// Two taps on three phases: the last phase has none, and is the bias, which all get behind it.
// CHECK-LABEL: func.func @bare
// CHECK: graph.mul
// CHECK: %[[ADDED:[a-z_0-9]+]] = graph.fold %{{.*}} {spatial = #graph.shape<[11]>
// CHECK: graph.add %[[ADDED]], %{{.*}}
func.func @bare(%x: !graph.tensor<[1, 1, 4], f32>, %w: !graph.tensor<[1, 1, 2], f32>, %b: !graph.tensor<[1], f32>) -> !graph.tensor<[1, 1, 11], f32> {
  %y = graph.conv_transpose %x, %w, %b {group = 1 : i64, strides = array<i64: 3>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 2], f32>, !graph.tensor<[1], f32>) -> !graph.tensor<[1, 1, 11], f32>
  func.return %y : !graph.tensor<[1, 1, 11], f32>
}

// -----

// A step of one is a convolution with the filter flipped; windows of any size, and of taps that are spread, are added up.
// CHECK-LABEL: func.func @others
// CHECK: graph.fold %{{.*}} {spatial = #graph.shape<[k + 6]>
// CHECK: %[[FLIPPED:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[2.0, 1.0]>
// CHECK: graph.conv %x, %[[FLIPPED]] {group = 1 : i64, pads = array<i64: 1, 1>
// CHECK: graph.fold %{{.*}} {spatial = #graph.shape<[9]>, strides = array<i64: 2>, dilations = array<i64: 2>
// CHECK-NOT: graph.conv_transpose
func.func @others(%x: !graph.tensor<[1, 1, 4], f32>, %v: !graph.tensor<[1, 1, k], f32>) -> (!graph.tensor<[1, 1, k + 6], f32>, !graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 9], f32>) {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[1, 1, 2]>, element = f32} : () -> !graph.tensor<[1, 1, 2], f32>
  %a = graph.conv_transpose %x, %v {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, k], f32>) -> !graph.tensor<[1, 1, k + 6], f32>
  %b = graph.conv_transpose %x, %w {group = 1 : i64} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 2], f32>) -> !graph.tensor<[1, 1, 5], f32>
  %c = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>, dilations = array<i64: 2>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 2], f32>) -> !graph.tensor<[1, 1, 9], f32>
  func.return %a, %b, %c : !graph.tensor<[1, 1, k + 6], f32>, !graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 9], f32>
}

// -----

// A small image of many channels would grow by a half: a product of all channels, and the sum of its windows. What is
// behind these is zero.
// CHECK-LABEL: func.func @many
// CHECK: %[[PRODUCTS:[a-z_0-9]+]] = graph.einsum %{{.*}}, %{{.*}} {equation = "gcot,ngcp->ngotp"}
// CHECK: graph.fold %{{.*}} {spatial = #graph.shape<[8]>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = #graph.shape<[1, 1]>}
func.func @many(%x: !graph.tensor<[1, 256, 4], f32>, %w: !graph.tensor<[256, 8, 4], f32>) -> !graph.tensor<[1, 8, 8], f32> {
  %y = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>, pads = array<i64: 1, 1>} : (!graph.tensor<[1, 256, 4], f32>, !graph.tensor<[256, 8, 4], f32>) -> !graph.tensor<[1, 8, 8], f32>
  func.return %y : !graph.tensor<[1, 8, 8], f32>
}

// -----

// What is added behind the windows, beyond what is cut off there, is zero.
// CHECK-LABEL: func.func @behind
// CHECK: %[[ADDED:[a-z_0-9]+]] = graph.fold %{{.*}} {spatial = #graph.shape<[9]>{{.*}}, pads = #graph.shape<[0, 0]>}
// CHECK: graph.pad %[[ADDED]] {pads = #graph.shape<[0, 0, 0, 0, 0, 1]>, mode = "constant"}
func.func @behind(%x: !graph.tensor<[1, 1, 4], f32>, %w: !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 10], f32> {
  %y = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>, output_padding = array<i64: 1>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 10], f32>
  func.return %y : !graph.tensor<[1, 1, 10], f32>
}

// -----

// Blocks of one tap whose edges are cut off are windows that are added up: these leave the edges out in passing.
// CHECK-LABEL: func.func @cut
// CHECK: graph.fold %{{.*}} {spatial = #graph.shape<[10]>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = #graph.shape<[1, 1]>}
// CHECK-NOT: graph.conv_transpose
func.func @cut(%x: !graph.tensor<[1, 4, 6], f32>, %w: !graph.tensor<[4, 3, 2], f32>) -> !graph.tensor<[1, 3, 10], f32> {
  %y = graph.conv_transpose %x, %w {group = 1 : i64, strides = array<i64: 2>, pads = array<i64: 1, 1>} : (!graph.tensor<[1, 4, 6], f32>, !graph.tensor<[4, 3, 2], f32>) -> !graph.tensor<[1, 3, 10], f32>
  func.return %y : !graph.tensor<[1, 3, 10], f32>
}
