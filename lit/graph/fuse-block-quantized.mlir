// RUN: weft-opt %s --split-input-file -p weft-fuse-block-quantized | filecheck %s

// A product with signed codes in blocks along its sum reads them: as unsigned ones, a row for each
// column, two of them a byte.
// CHECK-LABEL: func.func @matmul
// CHECK: graph.transpose
// CHECK: graph.bitwise_xor
// CHECK: graph.bit_shift
// CHECK: graph.pack_words
// CHECK: graph.block_quantized_matmul %x, %{{[a-z_0-9]+}}, %{{[a-z_0-9]+}} {bits = 4 : i64, block = 8 : i64, columns = 3 : i64, activations = "float"}
// CHECK-NOT: graph.matmul
func.func @matmul(%x: !graph.tensor<[m, 16], f32>, %s: !graph.tensor<[2, 3], f32>) -> !graph.tensor<[m, 3], f32> {
  %w = graph.constant {shape = #graph.shape<[16, 3]>, element = i4, literal = #graph.literal<[1]>} : () -> !graph.tensor<[16, 3], i4>
  %0 = graph.reshape %s {shape = #graph.shape<[2, 1, 3]>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 1, 3], f32>
  %1 = graph.expand %0 {shape = #graph.shape<[2, 8, 3]>} : (!graph.tensor<[2, 1, 3], f32>) -> !graph.tensor<[2, 8, 3], f32>
  %2 = graph.reshape %1 {shape = #graph.shape<[16, 3]>} : (!graph.tensor<[2, 8, 3], f32>) -> !graph.tensor<[16, 3], f32>
  %3 = graph.cast %w {to = f32} : (!graph.tensor<[16, 3], i4>) -> !graph.tensor<[16, 3], f32>
  %4 = graph.mul %3, %2 : (!graph.tensor<[16, 3], f32>, !graph.tensor<[16, 3], f32>) -> !graph.tensor<[16, 3], f32>
  %y = graph.matmul %x, %4 : (!graph.tensor<[m, 16], f32>, !graph.tensor<[16, 3], f32>) -> !graph.tensor<[m, 3], f32>
  func.return %y : !graph.tensor<[m, 3], f32>
}

// -----

// Blocks of the other axis are none of the sum's.
// CHECK-LABEL: func.func @other_axis
// CHECK-NOT: graph.block_quantized_matmul
// CHECK: graph.gemm
func.func @other_axis(%x: !graph.tensor<[2, 16], f32>) -> !graph.tensor<[2, 16], f32> {
  %w = graph.constant {shape = #graph.shape<[16, 16]>, element = i8, literal = #graph.literal<[1]>} : () -> !graph.tensor<[16, 16], i8>
  %t = graph.constant {shape = #graph.shape<[2, 16]>, element = f32, literal = #graph.literal<[1.0]>} : () -> !graph.tensor<[2, 16], f32>
  %0 = graph.reshape %t {shape = #graph.shape<[2, 1, 16]>} : (!graph.tensor<[2, 16], f32>) -> !graph.tensor<[2, 1, 16], f32>
  %1 = graph.expand %0 {shape = #graph.shape<[2, 8, 16]>} : (!graph.tensor<[2, 1, 16], f32>) -> !graph.tensor<[2, 8, 16], f32>
  %2 = graph.reshape %1 {shape = #graph.shape<[16, 16]>} : (!graph.tensor<[2, 8, 16], f32>) -> !graph.tensor<[16, 16], f32>
  %3 = graph.cast %w {to = f32} : (!graph.tensor<[16, 16], i8>) -> !graph.tensor<[16, 16], f32>
  %4 = graph.mul %3, %2 : (!graph.tensor<[16, 16], f32>, !graph.tensor<[16, 16], f32>) -> !graph.tensor<[16, 16], f32>
  %y = graph.gemm %x, %4 {alpha = 1.0 : f64, beta = 1.0 : f64, transpose_a = false, transpose_b = true} : (!graph.tensor<[2, 16], f32>, !graph.tensor<[16, 16], f32>) -> !graph.tensor<[2, 16], f32>
  func.return %y : !graph.tensor<[2, 16], f32>
}

// -----

// What a call gives would be repacked in each.
// CHECK-LABEL: func.func @given
// CHECK-NOT: graph.block_quantized_matmul
// CHECK: graph.matmul
func.func @given(%x: !graph.tensor<[2, 16], f32>, %w: !graph.tensor<[16, 3], i8>, %s: !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32> {
  %0 = graph.reshape %s {shape = #graph.shape<[2, 1, 3]>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 1, 3], f32>
  %1 = graph.expand %0 {shape = #graph.shape<[2, 8, 3]>} : (!graph.tensor<[2, 1, 3], f32>) -> !graph.tensor<[2, 8, 3], f32>
  %2 = graph.reshape %1 {shape = #graph.shape<[16, 3]>} : (!graph.tensor<[2, 8, 3], f32>) -> !graph.tensor<[16, 3], f32>
  %3 = graph.cast %w {to = f32} : (!graph.tensor<[16, 3], i8>) -> !graph.tensor<[16, 3], f32>
  %4 = graph.mul %3, %2 : (!graph.tensor<[16, 3], f32>, !graph.tensor<[16, 3], f32>) -> !graph.tensor<[16, 3], f32>
  %y = graph.matmul %x, %4 : (!graph.tensor<[2, 16], f32>, !graph.tensor<[16, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %y : !graph.tensor<[2, 3], f32>
}

// -----

// Blocks of GGUF are codes and scales of rows already.
// CHECK-LABEL: func.func @gguf
// CHECK-NOT: graph.dequantize_gguf
// CHECK: graph.block_quantized_matmul %x, %{{[a-z_0-9]+}}, %{{[a-z_0-9]+}} {bits = 8 : i64, block = 32 : i64, columns = 3 : i64, activations = "float"}
func.func @gguf(%x: !graph.tensor<[m, 64], f32>) -> !graph.tensor<[m, 3], f32> {
  %w = graph.constant {shape = #graph.shape<[3, 68]>, element = ui8, literal = #graph.literal<[1]>} : () -> !graph.tensor<[3, 68], ui8>
  %0 = graph.dequantize_gguf %w {format = "Q8_0"} : (!graph.tensor<[3, 68], ui8>) -> !graph.tensor<[3, 64], f32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (!graph.tensor<[3, 64], f32>) -> !graph.tensor<[64, 3], f32>
  %y = graph.matmul %x, %1 : (!graph.tensor<[m, 64], f32>, !graph.tensor<[64, 3], f32>) -> !graph.tensor<[m, 3], f32>
  func.return %y : !graph.tensor<[m, 3], f32>
}

// -----

// Not where blocks follow each other across the sum.
// CHECK-LABEL: func.func @gguf_across
// CHECK: graph.dequantize_gguf
// CHECK: graph.matmul
func.func @gguf_across(%x: !graph.tensor<[m, 3], f32>) -> !graph.tensor<[m, 64], f32> {
  %w = graph.constant {shape = #graph.shape<[3, 68]>, element = ui8, literal = #graph.literal<[1]>} : () -> !graph.tensor<[3, 68], ui8>
  %0 = graph.dequantize_gguf %w {format = "Q8_0"} : (!graph.tensor<[3, 68], ui8>) -> !graph.tensor<[3, 64], f32>
  %y = graph.matmul %x, %0 : (!graph.tensor<[m, 3], f32>, !graph.tensor<[3, 64], f32>) -> !graph.tensor<[m, 64], f32>
  func.return %y : !graph.tensor<[m, 64], f32>
}
