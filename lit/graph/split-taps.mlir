// RUN: weft-opt %s --split-input-file -p weft-split-taps | filecheck %s

// The middle tap reads the image, those beside it what is 12 away: nobody multiplies padding.
// CHECK-LABEL: func.func @sum
// CHECK: %[[P1:[a-z_0-9]+]] = graph.conv %x, %{{[a-z_0-9]+}} {group = 1 : i64, strides = array<i64: 1>, dilations = array<i64: 1>, pads = #graph.shape<[0, 0]>} : (!graph.tensor<[n, 128, 14], f32>, !graph.tensor<[4, 128, 1], f32>)
// CHECK: %[[X0:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[n, 128, 2]>
// CHECK: %[[P0:[a-z_0-9]+]] = graph.conv %[[X0]]
// CHECK-NEXT: %[[Y0:[a-z_0-9]+]] = graph.pad %[[P0]] {pads = #graph.shape<[0, 0, 12, 0, 0, 0]>, mode = "constant"}
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.add %[[P1]], %[[Y0]]
// CHECK: %[[X2:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 0, 12]>, sizes = #graph.shape<[n, 128, 2]>
// CHECK: %[[P2:[a-z_0-9]+]] = graph.conv %[[X2]]
// CHECK-NEXT: %[[Y2:[a-z_0-9]+]] = graph.pad %[[P2]] {pads = #graph.shape<[0, 0, 0, 0, 0, 12]>, mode = "constant"}
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = graph.add %[[S]], %[[Y2]]
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.reshape %b
// CHECK-NEXT: graph.add %[[T]], %[[B]]
func.func @sum(%x: !graph.tensor<[n, 128, 14], f32>, %b: !graph.tensor<[4], f32>) -> !graph.tensor<[n, 4, 14], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[4, 128, 3]>, element = f32} : () -> !graph.tensor<[4, 128, 3], f32>
  %y = graph.conv %x, %w, %b {group = 1 : i64, dilations = array<i64: 12>, pads = array<i64: 12, 12>} : (!graph.tensor<[n, 128, 14], f32>, !graph.tensor<[4, 128, 3], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[n, 4, 14], f32>
  func.return %y : !graph.tensor<[n, 4, 14], f32>
}

// -----

// Of an image of any size a tap may read nothing at all.
// CHECK-LABEL: func.func @open
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[1, 128, max(0, h - 24)]>
// CHECK: graph.pad %{{.*}}pads = #graph.shape<[0, 0, -max(-24, -h), 0, 0, 0]>
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, min(24, h)]>, sizes = #graph.shape<[1, 128, max(0, h - 24)]>
func.func @open(%x: !graph.tensor<[1, 128, h], f32>) -> !graph.tensor<[1, 4, h], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[4, 128, 3]>, element = f32} : () -> !graph.tensor<[4, 128, 3], f32>
  %y = graph.conv %x, %w {group = 1 : i64, dilations = array<i64: 24>, pads = array<i64: 24, 24>} : (!graph.tensor<[1, 128, h], f32>, !graph.tensor<[4, 128, 3], f32>) -> !graph.tensor<[1, 4, h], f32>
  func.return %y : !graph.tensor<[1, 4, h], f32>
}

// -----

// With strides a tap reads every second element; of an image of another size than the result's the
// positions on either side may read padding.
// CHECK-LABEL: func.func @steps
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[1, 128, 63]>
// CHECK: graph.conv %{{.*}}strides = array<i64: 2>
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[1, 128, 39]>
// CHECK: graph.pad %{{.*}}pads = #graph.shape<[0, 0, 12, 0, 0, 0]>{{.*}} -> !graph.tensor<[1, 4, 32], f32>
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, 24]>, sizes = #graph.shape<[1, 128, 39]>
// CHECK: graph.pad %{{.*}}pads = #graph.shape<[0, 0, 0, 0, 0, 12]>
// CHECK: graph.slice %x {starts = #graph.shape<[0, 0, 4]>, sizes = #graph.shape<[1, 128, 56]>
// CHECK: graph.pad %{{.*}}pads = #graph.shape<[0, 0, 20, 0, 0, 0]>{{.*}} -> !graph.tensor<[1, 4, 56], f32>
func.func @steps(%x: !graph.tensor<[1, 128, 64], f32>) -> (!graph.tensor<[1, 4, 32], f32>, !graph.tensor<[1, 4, 56], f32>) {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[4, 128, 3]>, element = f32} : () -> !graph.tensor<[4, 128, 3], f32>
  %0 = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2>, dilations = array<i64: 24>, pads = array<i64: 24, 24>} : (!graph.tensor<[1, 128, 64], f32>, !graph.tensor<[4, 128, 3], f32>) -> !graph.tensor<[1, 4, 32], f32>
  %1 = graph.conv %x, %w {group = 1 : i64, dilations = array<i64: 24>, pads = array<i64: 20, 20>} : (!graph.tensor<[1, 128, 64], f32>, !graph.tensor<[4, 128, 3], f32>) -> !graph.tensor<[1, 4, 56], f32>
  func.return %0, %1 : !graph.tensor<[1, 4, 32], f32>, !graph.tensor<[1, 4, 56], f32>
}

// -----

// Little padding, few channels, and a filter that a call brings stay.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: graph.slice
func.func @stay(%x: !graph.tensor<[1, 128, 64], f32>, %v: !graph.tensor<[4, 128, 3], f32>, %z: !graph.tensor<[1, 8, 64], f32>) -> (!graph.tensor<[1, 4, 64], f32>, !graph.tensor<[1, 4, 64], f32>, !graph.tensor<[1, 4, 64], f32>) {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[4, 128, 3]>, element = f32} : () -> !graph.tensor<[4, 128, 3], f32>
  %u = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[4, 8, 3]>, element = f32} : () -> !graph.tensor<[4, 8, 3], f32>
  %0 = graph.conv %x, %w {group = 1 : i64, dilations = array<i64: 2>, pads = array<i64: 2, 2>} : (!graph.tensor<[1, 128, 64], f32>, !graph.tensor<[4, 128, 3], f32>) -> !graph.tensor<[1, 4, 64], f32>
  %1 = graph.conv %z, %u {group = 1 : i64, dilations = array<i64: 24>, pads = array<i64: 24, 24>} : (!graph.tensor<[1, 8, 64], f32>, !graph.tensor<[4, 8, 3], f32>) -> !graph.tensor<[1, 4, 64], f32>
  %2 = graph.conv %x, %v {group = 1 : i64, dilations = array<i64: 24>, pads = array<i64: 24, 24>} : (!graph.tensor<[1, 128, 64], f32>, !graph.tensor<[4, 128, 3], f32>) -> !graph.tensor<[1, 4, 64], f32>
  func.return %0, %1, %2 : !graph.tensor<[1, 4, 64], f32>, !graph.tensor<[1, 4, 64], f32>, !graph.tensor<[1, 4, 64], f32>
}
