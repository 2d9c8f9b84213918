// RUN: weft-opt %s --split-input-file -p weft-unfold-convolutions | filecheck %s

// Four terms to each of 64 channels: the two taps of each channel stand next to each other.
// CHECK-LABEL: func.func @short
// CHECK: %[[X:[a-z_0-9]+]] = graph.pad %x {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "constant"}
// CHECK: graph.slice %[[X]] {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[n, 2, 4]>, steps = array<i64: 1, 1, 2>}
// CHECK-NEXT: graph.reshape {{.*}} -> !graph.tensor<[n, 2, 1, 4], f32>
// CHECK: graph.slice %[[X]] {starts = #graph.shape<[0, 0, 2]>, sizes = #graph.shape<[n, 2, 4]>, steps = array<i64: 1, 1, 2>}
// CHECK: graph.concat {{.*}} -> !graph.tensor<[n, 2, 2, 4], f32>
// CHECK-NEXT: %[[U:[a-z_0-9]+]] = graph.reshape {{.*}} -> !graph.tensor<[n, 4, 4], f32>
// CHECK: graph.conv %[[U]], %{{[a-z_0-9]+}}, %b {group = 1 : i64, strides = array<i64: 1>, dilations = array<i64: 1>, pads = #graph.shape<[0, 0]>}
// CHECK-SAME: !graph.tensor<[64, 4, 1], f32>
func.func @short(%x: !graph.tensor<[n, 2, 8], f32>, %w: !graph.tensor<[64, 2, 2], f32>, %b: !graph.tensor<[64], f32>) -> !graph.tensor<[n, 64, 4], f32> {
  %y = graph.conv %x, %w, %b {group = 1 : i64, strides = array<i64: 2>, dilations = array<i64: 2>, pads = array<i64: 1, 0>} : (!graph.tensor<[n, 2, 8], f32>, !graph.tensor<[64, 2, 2], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[n, 64, 4], f32>
  func.return %y : !graph.tensor<[n, 64, 4], f32>
}

// -----

// Rows whose length only a call knows may be short.
// CHECK-LABEL: func.func @open
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, 1]>, sizes = #graph.shape<[1, 2, h - 1]>
// CHECK: graph.concat
func.func @open(%x: !graph.tensor<[1, 2, h], f32>, %w: !graph.tensor<[64, 2, 2], f32>) -> !graph.tensor<[1, 64, h - 1], f32> {
  %y = graph.conv %x, %w {group = 1 : i64} : (!graph.tensor<[1, 2, h], f32>, !graph.tensor<[64, 2, 2], f32>) -> !graph.tensor<[1, 64, h - 1], f32>
  func.return %y : !graph.tensor<[1, 64, h - 1], f32>
}

// -----

// Rows of 16 fill vectors.
// CHECK-LABEL: func.func @long
// CHECK-NOT: graph.concat
func.func @long(%x: !graph.tensor<[1, 2, 17], f32>, %w: !graph.tensor<[64, 2, 2], f32>) -> !graph.tensor<[1, 64, 16], f32> {
  %y = graph.conv %x, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 17], f32>, !graph.tensor<[64, 2, 2], f32>) -> !graph.tensor<[1, 64, 16], f32>
  func.return %y : !graph.tensor<[1, 64, 16], f32>
}

// -----

// Few results of a copied element do not pay for it.
// CHECK-LABEL: func.func @few_channels
// CHECK-NOT: graph.concat
func.func @few_channels(%x: !graph.tensor<[1, 2, 9], f32>, %w: !graph.tensor<[8, 2, 2], f32>) -> !graph.tensor<[1, 8, 8], f32> {
  %y = graph.conv %x, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 9], f32>, !graph.tensor<[8, 2, 2], f32>) -> !graph.tensor<[1, 8, 8], f32>
  func.return %y : !graph.tensor<[1, 8, 8], f32>
}

// -----

// Of many terms stores are a small part.
// CHECK-LABEL: func.func @many_terms
// CHECK-NOT: graph.concat
func.func @many_terms(%x: !graph.tensor<[1, 64, 9], f32>, %w: !graph.tensor<[64, 64, 2], f32>) -> !graph.tensor<[1, 64, 8], f32> {
  %y = graph.conv %x, %w {group = 1 : i64} : (!graph.tensor<[1, 64, 9], f32>, !graph.tensor<[64, 64, 2], f32>) -> !graph.tensor<[1, 64, 8], f32>
  func.return %y : !graph.tensor<[1, 64, 8], f32>
}

// -----

// A single tap is unfolded as it is.
// CHECK-LABEL: func.func @one_tap
// CHECK-NOT: graph.concat
func.func @one_tap(%x: !graph.tensor<[1, 2, 8], f32>, %w: !graph.tensor<[64, 2, 1], f32>) -> !graph.tensor<[1, 64, 8], f32> {
  %y = graph.conv %x, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 8], f32>, !graph.tensor<[64, 2, 1], f32>) -> !graph.tensor<[1, 64, 8], f32>
  func.return %y : !graph.tensor<[1, 64, 8], f32>
}
