// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop,weft-schedule | filecheck %s

// Four terms of a product of bytes are one instruction: the weight lies in panels of 32 columns by words along K.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK-SAME: %a1: !loop.buffer<[64, 64], i8, [(d1 floordiv 32), (d0 floordiv 4), (d1 mod 32), (d0 mod 4)] in [2, 16, 32, 4]>
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to {{[0-9]+}} unroll {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 32 unroll vector(16) {
// CHECK-NEXT: loop.for %[[Q:[a-z_0-9]+]] = 0 to 4 unroll dot reduction(add) {
// CHECK-NEXT: loop.load %a0[{{.*}}, 4 * %[[K]] + %[[Q]]]
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[40, 64], ui8>) -> !graph.tensor<[40, 64], i32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[64, 64]>, element = i8} : () -> !graph.tensor<[64, 64], i8>
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[40, 64], ui8>, !graph.tensor<[64, 64], i8>) -> !graph.tensor<[40, 64], i32>
    func.return %y : !graph.tensor<[40, 64], i32>
  }
}

// -----

// The kernel's own copy of an image within its padding has words of four channels.
// CHECK-LABEL: loop.kernel @integer_conv_
// CHECK: loop.alloc workspace : !loop.buffer<[1, 16, 10, 10], ui8, [d0, (d1 floordiv 4), d2, d3, (d1 mod 4)] in [1, 4, 10, 10, 4]>
// CHECK: unroll dot reduction(add)
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[1, 16, 8, 8], ui8>) -> !graph.tensor<[1, 32, 8, 8], i32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[32, 16, 3, 3]>, element = i8} : () -> !graph.tensor<[32, 16, 3, 3], i8>
    %y = graph.integer_conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>, outside = 7 : i64} : (!graph.tensor<[1, 16, 8, 8], ui8>, !graph.tensor<[32, 16, 3, 3], i8>) -> !graph.tensor<[1, 32, 8, 8], i32>
    func.return %y : !graph.tensor<[1, 32, 8, 8], i32>
  }
}

// -----

// Sums of a number of terms that four does not divide stay products one by one.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK-NOT: dot reduction
// CHECK: arith.muli
// CHECK-NOT: dot reduction
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[40, 63], ui8>) -> !graph.tensor<[40, 64], i32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[63, 64]>, element = i8} : () -> !graph.tensor<[63, 64], i8>
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[40, 63], ui8>, !graph.tensor<[63, 64], i8>) -> !graph.tensor<[40, 64], i32>
    func.return %y : !graph.tensor<[40, 64], i32>
  }
}

// -----

// Registers that hold tiles of matrices take 16 words of 32 rows and of 32 columns; their sums are stored where the result is.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK-NOT: loop.alloc
// CHECK: loop.for %{{.*}} = 0 to 2 matrix reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 20 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 {
// CHECK-NEXT: loop.for %[[O:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %[[Q:[a-z_0-9]+]] = 0 to 4 reduction(add) {
// CHECK: loop.store %{{.*}}, %a2[
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[40, 128], ui8>) -> !graph.tensor<[40, 64], i32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[128, 64]>, element = i8} : () -> !graph.tensor<[128, 64], i8>
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[40, 128], ui8>, !graph.tensor<[128, 64], i8>) -> !graph.tensor<[40, 64], i32>
    func.return %y : !graph.tensor<[40, 64], i32>
  }
}

// -----

// Of two factors that a call gives, one is packed in words in front of the product.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK: loop.alloc workspace : !loop.buffer<[3, 64, 48], i8, {{.*}}(d2 mod 48), (d1 mod 4)]
// CHECK: loop.for %{{.*}} = 0 to 4 vector(4) {
// CHECK: unroll dot reduction(add)
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[3, 40, 64], ui8>, %w: !graph.tensor<[3, 64, 48], i8>) -> !graph.tensor<[3, 40, 48], i32> {
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[3, 40, 64], ui8>, !graph.tensor<[3, 64, 48], i8>) -> !graph.tensor<[3, 40, 48], i32>
    func.return %y : !graph.tensor<[3, 40, 48], i32>
  }
}

// -----

// Few rows do not pay for that.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK-NOT: dot reduction
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[3, 4, 64], ui8>, %w: !graph.tensor<[3, 64, 48], i8>) -> !graph.tensor<[3, 4, 48], i32> {
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[3, 4, 64], ui8>, !graph.tensor<[3, 64, 48], i8>) -> !graph.tensor<[3, 4, 48], i32>
    func.return %y : !graph.tensor<[3, 4, 48], i32>
  }
}

// -----

// Rows that only the call knows are taken to be enough.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK: loop.alloc workspace : !loop.buffer<[3, 64, 48], i8, {{.*}}(d1 mod 4)]
// CHECK: unroll dot reduction(add)
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[3, m, 64], ui8>, %w: !graph.tensor<[3, 64, 48], i8>) -> !graph.tensor<[3, m, 48], i32> {
    %y = graph.integer_matmul %x, %w : (!graph.tensor<[3, m, 64], ui8>, !graph.tensor<[3, 64, 48], i8>) -> !graph.tensor<[3, m, 48], i32>
    func.return %y : !graph.tensor<[3, m, 48], i32>
  }
}

// -----

// So are two terms of a product of bf16; a kernel that extends its factors takes them from memory as they are.
// CHECK-LABEL: loop.kernel @cast_cast_matmul
// CHECK-SAME: bf16, [(d1 floordiv 32), (d0 floordiv 2), (d1 mod 32), (d0 mod 2)] in [2, 32, 32, 2]>
// CHECK: loop.for %{{.*}} = 0 to 2 matrix reduction(add) {
// CHECK: loop.for %[[Q:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK: loop.load %a0[{{.*}} + %[[Q]]] : !loop.buffer<[40, 64], bf16>
// CHECK: loop.store %{{.*}}, %a2[
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[40, 64], bf16>) -> !graph.tensor<[40, 64], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[64, 64]>, element = bf16} : () -> !graph.tensor<[64, 64], bf16>
    %y = graph.fused(%x1 = %x, %w1 = %w) : (!graph.tensor<[40, 64], bf16>, !graph.tensor<[64, 64], bf16>) -> !graph.tensor<[40, 64], f32> {
      %0 = graph.cast %x1 {to = f32} : (!graph.tensor<[40, 64], bf16>) -> !graph.tensor<[40, 64], f32>
      %1 = graph.cast %w1 {to = f32} : (!graph.tensor<[64, 64], bf16>) -> !graph.tensor<[64, 64], f32>
      %2 = graph.matmul %0, %1 : (!graph.tensor<[40, 64], f32>, !graph.tensor<[64, 64], f32>) -> !graph.tensor<[40, 64], f32>
      graph.yield %2 : !graph.tensor<[40, 64], f32>
    }
    func.return %y : !graph.tensor<[40, 64], f32>
  }
}

// -----

// What is computed of a tile's sums is computed among the products of the next tile.
// CHECK-LABEL: loop.kernel @integer_matmul_
// CHECK: %[[ACC:.*]] = loop.alloc scratch : !loop.buffer<[2, 32, 32], i32
// CHECK: matrix reduction(add)
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 3 {
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 4 matrix reduction(add) {
// CHECK: loop.store %{{.*}}, %[[ACC]][((%[[J]] + 1) mod 2),
// CHECK: loop.for %{{.*}} = 8 * %[[K]] to 8 * %[[K]] + 8 {
// CHECK: loop.load %[[ACC]][(%[[J]] mod 2),
// CHECK: arith.sitofp
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[1024, 256], ui8>) -> !graph.tensor<[1024, 128], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[256, 128]>, element = i8} : () -> !graph.tensor<[256, 128], i8>
    %y = graph.fused(%x1 = %x, %w1 = %w) : (!graph.tensor<[1024, 256], ui8>, !graph.tensor<[256, 128], i8>) -> !graph.tensor<[1024, 128], f32> {
      %0 = graph.integer_matmul %x1, %w1 : (!graph.tensor<[1024, 256], ui8>, !graph.tensor<[256, 128], i8>) -> !graph.tensor<[1024, 128], i32>
      %1 = graph.cast %0 {to = f32} : (!graph.tensor<[1024, 128], i32>) -> !graph.tensor<[1024, 128], f32>
      graph.yield %1 : !graph.tensor<[1024, 128], f32>
    }
    func.return %y : !graph.tensor<[1024, 128], f32>
  }
}

// -----

// A weight that each call gives has words where it is, and is the rows of the tiles: the other factor is packed, and sums are transposed
// in registers on their way to the result, a block behind each step along the sum.
// CHECK-LABEL: loop.kernel @transpose_cast_cast_matmul_
// CHECK: loop.alloc workspace : !loop.buffer<[40, 64], bf16, {{.*}}(d0 mod 32), (d1 mod 2)] in [2, 32, 32, 2]>
// CHECK: %[[ACC:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[32, 32], f32, [d1, d0] in [32, 32]>
// CHECK: matrix reduction(add)
// CHECK: loop.load %a1[{{.*}}] : !loop.buffer<[256, 64], bf16>
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 4 {
// CHECK-NEXT: %[[R:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[16, 16], f32, [d0, d1] in [16, 16]>
// CHECK: loop.load %[[ACC]]{{\[}}
// CHECK: loop.load %[[R]]{{\[}}
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: loop.store %{{.*}}, %a2[
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[40, 64], bf16>, %w: !graph.tensor<[256, 64], bf16>) -> !graph.tensor<[40, 256], bf16> {
    %y = graph.fused(%x1 = %x, %w1 = %w) : (!graph.tensor<[40, 64], bf16>, !graph.tensor<[256, 64], bf16>) -> !graph.tensor<[40, 256], bf16> {
      %t = graph.transpose %w1 {permutation = array<i64: 1, 0>} : (!graph.tensor<[256, 64], bf16>) -> !graph.tensor<[64, 256], bf16>
      %0 = graph.cast %x1 {to = f32} : (!graph.tensor<[40, 64], bf16>) -> !graph.tensor<[40, 64], f32>
      %1 = graph.cast %t {to = f32} : (!graph.tensor<[64, 256], bf16>) -> !graph.tensor<[64, 256], f32>
      %2 = graph.matmul %0, %1 : (!graph.tensor<[40, 64], f32>, !graph.tensor<[64, 256], f32>) -> !graph.tensor<[40, 256], f32>
      %3 = graph.cast %2 {to = bf16} : (!graph.tensor<[40, 256], f32>) -> !graph.tensor<[40, 256], bf16>
      graph.yield %3 : !graph.tensor<[40, 256], bf16>
    }
    func.return %y : !graph.tensor<[40, 256], bf16>
  }
}
