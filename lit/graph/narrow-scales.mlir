// RUN: weft-opt %s --split-input-file -p weft-narrow-scales | filecheck %s

// Scales that f16 holds are stored in it.
// CHECK-LABEL: func.func @halves
// CHECK: %[[S:[a-z_0-9.]+]] = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[1, 1, 32]>, element = f16}
// CHECK-NEXT: graph.block_quantized_matmul %x, %c, %[[S]]
func.func @halves(%x: !graph.tensor<[m, 8], f32>, %c: !graph.tensor<[1, 1, 32], ui32>) -> !graph.tensor<[m, 32], f32> {
  %s = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[1, 1, 32]>, element = f32} : () -> !graph.tensor<[1, 1, 32], f32>
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
  func.return %y : !graph.tensor<[m, 32], f32>
}

// -----

// Others stay: a tenth is rounded, 1e6 is beyond f16, and what the call gives is not known.
// CHECK-LABEL: func.func @rounded
// CHECK-NOT: f16
// CHECK: func.return
func.func @rounded(%x: !graph.tensor<[m, 8], f32>, %c: !graph.tensor<[1, 1, 32], ui32>, %g: !graph.tensor<[1, 1, 32], f32>) -> (!graph.tensor<[m, 32], f32>, !graph.tensor<[m, 32], f32>, !graph.tensor<[m, 32], f32>) {
  %s = graph.constant {literal = #graph.literal<[0.1]>, shape = #graph.shape<[1, 1, 32]>, element = f32} : () -> !graph.tensor<[1, 1, 32], f32>
  %t = graph.constant {literal = #graph.literal<[1000000.0]>, shape = #graph.shape<[1, 1, 32]>, element = f32} : () -> !graph.tensor<[1, 1, 32], f32>
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
  %z = graph.block_quantized_matmul %x, %c, %t {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
  %w = graph.block_quantized_matmul %x, %c, %g {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
  func.return %y, %z, %w : !graph.tensor<[m, 32], f32>, !graph.tensor<[m, 32], f32>, !graph.tensor<[m, 32], f32>
}
