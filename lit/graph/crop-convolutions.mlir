// RUN: weft-opt %s --split-input-file -p weft-crop-convolutions | filecheck %s

// Of 3 x 3 taps that are 36 apart the middle one alone reads an element of a small image.
// CHECK-LABEL: func.func @middle
// CHECK: %[[R:[a-z_0-9]+]] = graph.slice %w {starts = #graph.shape<[0, 0, 1, 0]>, sizes = #graph.shape<[2, 1, 1, 3]>
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = graph.slice %[[R]] {starts = #graph.shape<[0, 0, 0, 1]>, sizes = #graph.shape<[2, 1, 1, 1]>
// CHECK-NEXT: graph.conv %x, %[[W]], %b {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 36, 36>, pads = #graph.shape<[0, 0, 0, 0]>}
func.func @middle(%x: !graph.tensor<[1, 1, 4, 5], f32>, %w: !graph.tensor<[2, 1, 3, 3], f32>, %b: !graph.tensor<[2], f32>) -> !graph.tensor<[1, 2, 4, 5], f32> {
  %y = graph.conv %x, %w, %b {group = 1 : i64, dilations = array<i64: 36, 36>, pads = array<i64: 36, 36, 36, 36>} : (!graph.tensor<[1, 1, 4, 5], f32>, !graph.tensor<[2, 1, 3, 3], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[1, 2, 4, 5], f32>
  func.return %y : !graph.tensor<[1, 2, 4, 5], f32>
}

// -----

// A filter that is a constant is cut at once. Its last tap reads nothing, the first reads one element: the others of the image go too.
// CHECK-LABEL: func.func @constant
// CHECK: %[[W:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[1, 1, 1]>
// CHECK: %[[X:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 0, 1]>, sizes = #graph.shape<[1, 1, 1]>
// CHECK: graph.conv %[[X]], %[[W]] {group = 1 : i64, strides = array<i64: 1>, dilations = array<i64: 3>, pads = #graph.shape<[1, 0]>}
func.func @constant(%x: !graph.tensor<[1, 1, 5], f32>) -> !graph.tensor<[1, 1, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[1, 1, 2]>, element = f32} : () -> !graph.tensor<[1, 1, 2], f32>
  %y = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 3>, dilations = array<i64: 9>, pads = array<i64: 2, 6>} : (!graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 2], f32>) -> !graph.tensor<[1, 1, 2], f32>
  func.return %y : !graph.tensor<[1, 1, 2], f32>
}

// -----

// Elements between those that a common divisor of steps and dilations counts are read by no tap.
// CHECK-LABEL: func.func @between
// CHECK: %[[X:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 0, 1]>, sizes = #graph.shape<[1, 1, 5]>, steps = array<i64: 1, 1, 2>}
// CHECK: graph.conv %[[X]], %w {group = 1 : i64, strides = array<i64: 2>, dilations = array<i64: 1>, pads = #graph.shape<[1, 1]>}
func.func @between(%x: !graph.tensor<[1, 1, 10], f32>, %w: !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 3], f32> {
  %y = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 4>, dilations = array<i64: 2>, pads = array<i64: 1, 2>} : (!graph.tensor<[1, 1, 10], f32>, !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 3], f32>
  func.return %y : !graph.tensor<[1, 1, 3], f32>
}

// -----

// Each tap reads an element somewhere; sizes that a call brings may be large; of padding alone a tap has to be left; one tap without padding reads with steps.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: graph.slice %x
func.func @stay(%x: !graph.tensor<[1, 1, 4], f32>, %z: !graph.tensor<[1, 1, n], f32>, %w: !graph.tensor<[1, 1, 3], f32>) -> (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, n], f32>, !graph.tensor<[1, 1, 1], f32>, !graph.tensor<[1, 1, 2], f32>) {
  %a = graph.conv %x, %w {group = 1 : i64, dilations = array<i64: 3>, pads = array<i64: 3, 3>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 4], f32>
  %b = graph.conv %z, %w {group = 1 : i64, dilations = array<i64: 9>, pads = array<i64: 9, 9>} : (!graph.tensor<[1, 1, n], f32>, !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, n], f32>
  %c = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 99>, pads = array<i64: 3, 0>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 1], f32>
  %one = graph.slice %w {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[1, 1, 1]>, steps = array<i64: 1, 1, 1>} : (!graph.tensor<[1, 1, 3], f32>) -> !graph.tensor<[1, 1, 1], f32>
  %d = graph.conv %x, %one {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 1], f32>) -> !graph.tensor<[1, 1, 2], f32>
  func.return %a, %b, %c, %d : !graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, n], f32>, !graph.tensor<[1, 1, 1], f32>, !graph.tensor<[1, 1, 2], f32>
}
