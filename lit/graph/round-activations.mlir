// RUN: weft-opt %s --split-input-file -p weft-round-activations | filecheck %s

// Rows that may be bytes are bf16 where the target multiplies tiles of these; others stay floats.
// CHECK-LABEL: func.func @rows
// CHECK: graph.block_quantized_matmul {{.*}}activations = "bf16"
// CHECK: graph.block_quantized_matmul {{.*}}activations = "float"
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @rows(%x: !graph.tensor<[m, 8], f32>, %c: !graph.tensor<[1, 1, 32], ui32>, %s: !graph.tensor<[1, 1, 32], f32>) -> (!graph.tensor<[m, 32], f32>, !graph.tensor<[m, 32], f32>) {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "int8"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
    %z = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
    func.return %y, %z : !graph.tensor<[m, 32], f32>, !graph.tensor<[m, 32], f32>
  }
}

// -----

// Other targets multiply bytes.
// CHECK-LABEL: func.func @lanes
// CHECK: activations = "int8"
builtin.module attributes {weft.target = "icelake-server"} {
  func.func @lanes(%x: !graph.tensor<[m, 8], f32>, %c: !graph.tensor<[1, 1, 32], ui32>, %s: !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32> {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 8 : i64, columns = 32 : i64, activations = "int8"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 32], f32>
    func.return %y : !graph.tensor<[m, 32], f32>
  }
}

// -----

// Rows of floats are sums of bf16 where scales are constants of usual sizes.
// CHECK-LABEL: func.func @floats
// CHECK: graph.block_quantized_matmul {{.*}}activations = "parts"
// CHECK: graph.block_quantized_matmul {{.*}}activations = "float"
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @floats(%x: !graph.tensor<[m, 8], f32>, %c: !graph.tensor<[1, 1, 32], ui32>) -> (!graph.tensor<[m, 1], f32>, !graph.tensor<[m, 1], f32>) {
    %usual = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[1, 1, 32]>, element = f32} : () -> !graph.tensor<[1, 1, 32], f32>
    %tiny = graph.constant {literal = #graph.literal<[1.0e-30]>, shape = #graph.shape<[1, 1, 32]>, element = f32} : () -> !graph.tensor<[1, 1, 32], f32>
    %y = graph.block_quantized_matmul %x, %c, %usual {bits = 4 : i64, block = 8 : i64, columns = 1 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 1], f32>
    %z = graph.block_quantized_matmul %x, %c, %tiny {bits = 4 : i64, block = 8 : i64, columns = 1 : i64, activations = "float"} : (!graph.tensor<[m, 8], f32>, !graph.tensor<[1, 1, 32], ui32>, !graph.tensor<[1, 1, 32], f32>) -> !graph.tensor<[m, 1], f32>
    func.return %y, %z : !graph.tensor<[m, 1], f32>, !graph.tensor<[m, 1], f32>
  }
}
