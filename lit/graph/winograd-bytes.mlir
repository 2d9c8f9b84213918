// RUN: weft-opt %s -p 'weft-set-options{max_weights_bytes="221184"},weft-winograd' | filecheck %s
// RUN: weft-opt %s -p 'weft-set-options{max_weights_bytes="221183"},weft-winograd' | filecheck %s --check-prefix NONE

// Filters grow by 221,184 bytes each here; where there is room for one, it is that of the larger image, which gains more.
// CHECK: graph.conv %small
// CHECK: graph.winograd_tiles %large
// NONE: graph.conv %small
// NONE-NOT: winograd
// NONE: graph.conv %large
func.func @main(%small: !graph.tensor<[1, 32, 28, 28], f32>, %large: !graph.tensor<[1, 32, 56, 56], f32>) -> (!graph.tensor<[1, 64, 28, 28], f32>, !graph.tensor<[1, 64, 56, 56], f32>) {
  %v = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[64, 32, 3, 3]>, element = f32} : () -> !graph.tensor<[64, 32, 3, 3], f32>
  %w = graph.constant {literal = #graph.literal<[0.25]>, shape = #graph.shape<[64, 32, 3, 3]>, element = f32} : () -> !graph.tensor<[64, 32, 3, 3], f32>
  %y = graph.conv %small, %v {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 32, 28, 28], f32>, !graph.tensor<[64, 32, 3, 3], f32>) -> !graph.tensor<[1, 64, 28, 28], f32>
  %z = graph.conv %large, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 32, 56, 56], f32>, !graph.tensor<[64, 32, 3, 3], f32>) -> !graph.tensor<[1, 64, 56, 56], f32>
  func.return %y, %z : !graph.tensor<[1, 64, 28, 28], f32>, !graph.tensor<[1, 64, 56, 56], f32>
}
