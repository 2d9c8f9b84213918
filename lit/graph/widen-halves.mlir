// RUN: weft-opt %s --split-input-file -p weft-widen-halves | filecheck %s

// Operators compute in f32; the argument and the result stay what they are, and nothing is rounded between.
// CHECK-LABEL: func.func @chain
// CHECK: %[[X:[a-z_0-9]+]] = graph.cast %x {to = f32}
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = graph.cast %w {to = f32}
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.matmul %[[X]], %[[W]]
// CHECK-NEXT: %[[R:[a-z_0-9]+]] = graph.relu %[[P]]
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.cast %[[R]] {to = bf16}
// CHECK-NEXT: func.return %[[Y]]
func.func @chain(%x: !graph.tensor<[m, 8], bf16>, %w: !graph.tensor<[8, 3], bf16>) -> !graph.tensor<[m, 3], bf16> {
  %0 = graph.matmul %x, %w : (!graph.tensor<[m, 8], bf16>, !graph.tensor<[8, 3], bf16>) -> !graph.tensor<[m, 3], bf16>
  %1 = graph.relu %0 : (!graph.tensor<[m, 3], bf16>) -> !graph.tensor<[m, 3], bf16>
  func.return %1 : !graph.tensor<[m, 3], bf16>
}

// -----

// A movement of what is there in f32 is one of that; what joins an argument with it stays as it is stored.
// CHECK-LABEL: func.func @movements
// CHECK: %[[E:[a-z_0-9]+]] = graph.exp %{{[a-z_0-9]+}} : (!graph.tensor<[2, 8], f32>)
// CHECK: %[[H:[a-z_0-9]+]] = graph.cast %[[E]] {to = f16}
// CHECK: %[[T:[a-z_0-9]+]] = graph.transpose %[[E]] {{.*}} -> !graph.tensor<[8, 2], f32>
// CHECK: %[[C:[a-z_0-9]+]] = graph.concat %[[H]], %x {{.*}} -> !graph.tensor<[4, 8], f16>
// CHECK: graph.exp %[[T]]
func.func @movements(%x: !graph.tensor<[2, 8], f16>) -> (!graph.tensor<[8, 2], f16>, !graph.tensor<[4, 8], f16>) {
  %0 = graph.exp %x : (!graph.tensor<[2, 8], f16>) -> !graph.tensor<[2, 8], f16>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (!graph.tensor<[2, 8], f16>) -> !graph.tensor<[8, 2], f16>
  %2 = graph.concat %0, %x {axis = 0 : i64} : (!graph.tensor<[2, 8], f16>, !graph.tensor<[2, 8], f16>) -> !graph.tensor<[4, 8], f16>
  %3 = graph.exp %1 : (!graph.tensor<[8, 2], f16>) -> !graph.tensor<[8, 2], f16>
  func.return %3, %2 : !graph.tensor<[8, 2], f16>, !graph.tensor<[4, 8], f16>
}

// -----

// Neither what only moves elements nor a conversion that the model asks for is changed, nor other types.
// CHECK-LABEL: func.func @stored
// CHECK-NEXT: graph.transpose %x
// CHECK-NEXT: graph.cast %f {to = f16}
// CHECK-NEXT: graph.cast %{{[a-z_0-9]+}} {to = f32}
// CHECK-NEXT: graph.exp %d
// CHECK-NEXT: func.return
func.func @stored(%x: !graph.tensor<[2, 8], f16>, %f: !graph.tensor<[8, 2], f32>, %d: !graph.tensor<[2], f64>) -> (!graph.tensor<[8, 2], f16>, !graph.tensor<[8, 2], f32>, !graph.tensor<[2], f64>) {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[2, 8], f16>) -> !graph.tensor<[8, 2], f16>
  %1 = graph.cast %f {to = f16} : (!graph.tensor<[8, 2], f32>) -> !graph.tensor<[8, 2], f16>
  %2 = graph.cast %1 {to = f32} : (!graph.tensor<[8, 2], f16>) -> !graph.tensor<[8, 2], f32>
  %3 = graph.exp %d : (!graph.tensor<[2], f64>) -> !graph.tensor<[2], f64>
  func.return %0, %2, %3 : !graph.tensor<[8, 2], f16>, !graph.tensor<[8, 2], f32>, !graph.tensor<[2], f64>
}

// -----

// Where the target multiplies bf16, both factors of a product with a weight are rounded to that; what is added to it is not.
// CHECK-LABEL: func.func @multiplied
// CHECK: %[[E:[a-z_0-9]+]] = graph.exp
// CHECK: %[[R:[a-z_0-9]+]] = graph.cast %[[E]] {to = bf16}
// CHECK: %[[X:[a-z_0-9]+]] = graph.cast %[[R]] {to = f32}
// CHECK: %[[W:[a-z_0-9]+]] = graph.cast %w {to = f32}
// CHECK: %[[P:[a-z_0-9]+]] = graph.matmul %[[X]], %[[W]]
// CHECK: graph.add %[[P]], %[[E]]
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @multiplied(%x: !graph.tensor<[4, 8], bf16>, %w: !graph.tensor<[8, 8], bf16>) -> !graph.tensor<[4, 8], bf16> {
    %0 = graph.exp %x : (!graph.tensor<[4, 8], bf16>) -> !graph.tensor<[4, 8], bf16>
    %1 = graph.matmul %0, %w : (!graph.tensor<[4, 8], bf16>, !graph.tensor<[8, 8], bf16>) -> !graph.tensor<[4, 8], bf16>
    %2 = graph.add %1, %0 : (!graph.tensor<[4, 8], bf16>, !graph.tensor<[4, 8], bf16>) -> !graph.tensor<[4, 8], bf16>
    func.return %2 : !graph.tensor<[4, 8], bf16>
  }
}

// -----

// The image of a convolution is padded as it is stored; a product of two computed factors stays one of f32.
// CHECK-LABEL: func.func @padded
// CHECK: %[[I:[a-z_0-9]+]] = graph.pad %x {{.*}} bf16>
// CHECK: %[[J:[a-z_0-9]+]] = graph.cast %[[I]] {to = f32}
// CHECK: %[[C:[a-z_0-9]+]] = graph.conv %[[J]], %{{[a-z_0-9]+}} {group = 1 : i64}
// CHECK: graph.matmul %[[C]], %[[C]]
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @padded(%x: !graph.tensor<[1, 4, 8, 8], bf16>, %w: !graph.tensor<[4, 4, 3, 3], bf16>) -> !graph.tensor<[1, 4, 8, 8], bf16> {
    %0 = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 4, 8, 8], bf16>, !graph.tensor<[4, 4, 3, 3], bf16>) -> !graph.tensor<[1, 4, 8, 8], bf16>
    %1 = graph.matmul %0, %0 : (!graph.tensor<[1, 4, 8, 8], bf16>, !graph.tensor<[1, 4, 8, 8], bf16>) -> !graph.tensor<[1, 4, 8, 8], bf16>
    func.return %1 : !graph.tensor<[1, 4, 8, 8], bf16>
  }
}
