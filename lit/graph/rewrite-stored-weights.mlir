// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// Scales of columns are those of the product's columns; the bias comes behind them.
// CHECK-LABEL: func.func @columns
// CHECK: %[[W:[a-z_0-9]+]] = graph.cast %{{[a-z_0-9]+}} {to = f32}
// CHECK: %[[P:[a-z_0-9]+]] = graph.gemm %x, %[[W]] {
// CHECK: %[[S:[a-z_0-9]+]] = graph.mul %[[P]]
// CHECK: graph.add %[[S]], %b
func.func @columns(%x: !graph.tensor<[m, 3], f32>, %b: !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1, 2, 3, 4, 5, 6]>, shape = #graph.shape<[2, 3]>, element = i8} : () -> !graph.tensor<[2, 3], i8>
  %s = graph.constant {literal = #graph.literal<[0.5, 0.25]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %0 = graph.cast %w {to = f32} : (!graph.tensor<[2, 3], i8>) -> !graph.tensor<[2, 3], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[2, 3], f32>
  %2 = graph.gemm %x, %1, %b {alpha = 1.0 : f64, beta = 1.0 : f64, transpose_a = false, transpose_b = true} : (!graph.tensor<[m, 3], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32>
  func.return %2 : !graph.tensor<[m, 2], f32>
}

// -----

// Scales that vary along what is summed are no factor of the sum.
// CHECK-LABEL: func.func @along_k
// CHECK: %[[W:[a-z_0-9]+]] = graph.mul
// CHECK: %[[P:[a-z_0-9]+]] = graph.gemm %x, %[[W]]
// CHECK-NEXT: func.return %[[P]]
func.func @along_k(%x: !graph.tensor<[m, 3], f32>) -> !graph.tensor<[m, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1, 2, 3, 4, 5, 6]>, shape = #graph.shape<[2, 3]>, element = i8} : () -> !graph.tensor<[2, 3], i8>
  %s = graph.constant {literal = #graph.literal<[0.5, 0.25, 0.125]>, shape = #graph.shape<[3]>, element = f32} : () -> !graph.tensor<[3], f32>
  %0 = graph.cast %w {to = f32} : (!graph.tensor<[2, 3], i8>) -> !graph.tensor<[2, 3], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3], f32>
  %2 = graph.gemm %x, %1 {alpha = 1.0 : f64, beta = 1.0 : f64, transpose_a = false, transpose_b = true} : (!graph.tensor<[m, 3], f32>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[m, 2], f32>
  func.return %2 : !graph.tensor<[m, 2], f32>
}

// -----

// Rows of a table are scaled, each by its own, instead of all of it.
// CHECK-LABEL: func.func @rows
// CHECK-DAG: %[[T:[a-z_0-9]+]] = graph.gather %table, %rows
// CHECK-DAG: %[[F:[a-z_0-9]+]] = graph.cast %[[T]] {to = f32}
// CHECK-DAG: %[[S:[a-z_0-9]+]] = graph.gather %{{[a-z_0-9]+}}, %rows
// CHECK: graph.mul %[[F]], %[[S]]
func.func @rows(%table: !graph.tensor<[3, 4], i8>, %rows: !graph.tensor<[b, 2], i64>) -> !graph.tensor<[b, 2, 4], f32> {
  %s = graph.constant {literal = #graph.literal<[0.5, 0.25, 0.125]>, shape = #graph.shape<[3, 1]>, element = f32} : () -> !graph.tensor<[3, 1], f32>
  %0 = graph.cast %table {to = f32} : (!graph.tensor<[3, 4], i8>) -> !graph.tensor<[3, 4], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[3, 4], f32>, !graph.tensor<[3, 1], f32>) -> !graph.tensor<[3, 4], f32>
  %2 = graph.gather %1, %rows {axis = 0 : i64} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[b, 2], i64>) -> !graph.tensor<[b, 2, 4], f32>
  func.return %2 : !graph.tensor<[b, 2, 4], f32>
}

// -----

// A table that others read too is computed once.
// CHECK-LABEL: func.func @read_twice
// CHECK: %[[F:[a-z_0-9]+]] = graph.cast %table
// CHECK: graph.gather %[[F]], %rows
func.func @read_twice(%table: !graph.tensor<[3, 4], i8>, %rows: !graph.tensor<[b], i64>) -> (!graph.tensor<[b, 4], f32>, !graph.tensor<[3, 4], f32>) {
  %0 = graph.cast %table {to = f32} : (!graph.tensor<[3, 4], i8>) -> !graph.tensor<[3, 4], f32>
  %1 = graph.gather %0, %rows {axis = 0 : i64} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[b], i64>) -> !graph.tensor<[b, 4], f32>
  func.return %1, %0 : !graph.tensor<[b, 4], f32>, !graph.tensor<[3, 4], f32>
}
