// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// How many rows there are decides whether words become numbers in registers or in a panel, which
// tiles of rows share; columns are the lanes. Codes are prefetched 2 KB ahead. Of many blocks of
// rows each has its tiles of columns in parallel.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.if
// CHECK-NEXT: loop.for %{{.*}} = 0 to 2 parallel {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.prefetch %{{.*}} + 16,
// CHECK: loop.field
// CHECK: loop.if
// CHECK-NEXT: loop.for %r = 0 to (n0 floordiv 512) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 2 parallel {
// CHECK: %panel = loop.alloc scratch
// CHECK: loop.alloc registers
// CHECK: loop.for %{{.*}} = 0 to 64 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(8) {
func.func @main(%x: !graph.tensor<[n, 64], f32>, %c: !graph.tensor<[2, 8, 32], ui32>, %s: !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[n, 64], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "float"} : (!graph.tensor<[n, 64], f32>, !graph.tensor<[2, 8, 32], ui32>, !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[n, 64], f32>
  func.return %y : !graph.tensor<[n, 64], f32>
}

// -----

// Eight rows share the bytes that a word is taken apart to.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(8) {
// CHECK: loop.dot_bytes
func.func @main(%x: !graph.tensor<[8, 64], f32>, %c: !graph.tensor<[2, 8, 32], ui32>, %s: !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[8, 64], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "int8"} : (!graph.tensor<[8, 64], f32>, !graph.tensor<[2, 8, 32], ui32>, !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[8, 64], f32>
  func.return %y : !graph.tensor<[8, 64], f32>
}

// -----

// Rows and weights of bf16 are words, which registers that hold tiles of matrices multiply.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.pack_bf16
// CHECK: loop.for %{{.*}} = 0 to 2 parallel {
// CHECK: %panel = loop.alloc scratch : !loop.buffer<[1, 1, 32, 32], i32>
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(16) {
// CHECK: loop.pack_bf16
// CHECK: loop.for %g{{.*}} = 0 to 2 matrix reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 reduction(add) {
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[20, 64], f32>, %c: !graph.tensor<[2, 8, 32], ui32>, %s: !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[20, 64], f32> {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "bf16"} : (!graph.tensor<[20, 64], f32>, !graph.tensor<[2, 8, 32], ui32>, !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[20, 64], f32>
    func.return %y : !graph.tensor<[20, 64], f32>
  }
}

// -----

// Tiles of the last panel's products become results among those of the next tile.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.for %mf{{.*}} = 0 to 1 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 matrix reduction(add) {
// CHECK: loop.for %m{{.*}} = 0 to 2 {
// CHECK-NEXT: loop.for %[[G:.*]] = 0 to 4 matrix reduction(add) {
// CHECK: loop.for %[[I:.*]] = 8 * %[[G]] to 8 * %[[G]] + 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(16) {
// CHECK: loop.store %{{.*}}, %{{.*}}[32 * %m{{.*}} + %[[I]], 32 * %t + %{{.*}}]
// CHECK: loop.for %ml{{.*}} = 0 to 1 {
// CHECK-NOT: nontemporal
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[96, 128], f32>, %c: !graph.tensor<[2, 16, 32], ui32>, %s: !graph.tensor<[2, 4, 32], f32>) -> !graph.tensor<[96, 64], f32> {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "bf16"} : (!graph.tensor<[96, 128], f32>, !graph.tensor<[2, 16, 32], ui32>, !graph.tensor<[2, 4, 32], f32>) -> !graph.tensor<[96, 64], f32>
    func.return %y : !graph.tensor<[96, 64], f32>
  }
}

// -----

// The next panel's words are unpacked among products with this one, prefetched, four behind each.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.for %c = 0 to 3 {
// CHECK-NEXT: loop.for %[[G:.*]] = 0 to 8 matrix reduction(add) {
// CHECK: loop.for %[[W:.*]] = 4 * %[[G]] to 4 * %[[G]] + 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(16) {
// CHECK: loop.prefetch
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[32, 1024], f32>, %c: !graph.tensor<[2, 128, 32], ui32>, %s: !graph.tensor<[2, 32, 32], f16>) -> !graph.tensor<[32, 64], f32> {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "bf16"} : (!graph.tensor<[32, 1024], f32>, !graph.tensor<[2, 128, 32], ui32>, !graph.tensor<[2, 32, 32], f16>) -> !graph.tensor<[32, 64], f32>
    func.return %y : !graph.tensor<[32, 64], f32>
  }
}

// -----

// Results that L2 does not keep, here twice its size, are stored past the caches.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: matrix reduction(add) {
// CHECK: matrix reduction(add) {
// CHECK: loop.store %{{.*}}, %{{.*}}[512 * %r + 32 * %m{{.*}}, 32 * %t + %{{.*}}] nontemporal
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[4096, 128], f32>, %c: !graph.tensor<[8, 16, 32], ui32>, %s: !graph.tensor<[8, 4, 32], f32>) -> !graph.tensor<[4096, 256], f32> {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 256 : i64, activations = "bf16"} : (!graph.tensor<[4096, 128], f32>, !graph.tensor<[8, 16, 32], ui32>, !graph.tensor<[8, 4, 32], f32>) -> !graph.tensor<[4096, 256], f32>
    func.return %y : !graph.tensor<[4096, 256], f32>
  }
}

// -----

// What a row of floats becomes is packed in vectors inside of its branch, and the products of parts
// are unrolled, so that each tile of rows is loaded once.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.if
// CHECK: loop.for %m{{.*}} = 0 to 2 parallel {
// CHECK: loop.for %w = 0 to 16 unroll vector(16) {
// CHECK: loop.for %g{{.*}} = 0 to 2 matrix reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 5 unroll reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 {
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[64, 64], f32>, %c: !graph.tensor<[2, 8, 32], ui32>, %s: !graph.tensor<[2, 2, 32], f16>) -> !graph.tensor<[64, 64], f32> {
    %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "parts"} : (!graph.tensor<[64, 64], f32>, !graph.tensor<[2, 8, 32], ui32>, !graph.tensor<[2, 2, 32], f16>) -> !graph.tensor<[64, 64], f32>
    func.return %y : !graph.tensor<[64, 64], f32>
  }
}

// -----

// Without these the lanes are columns.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.for %{{.*}} = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 unroll vector(8) {
// CHECK: loop.dot_bf16
func.func @main(%x: !graph.tensor<[20, 64], f32>, %c: !graph.tensor<[2, 8, 32], ui32>, %s: !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[20, 64], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "bf16"} : (!graph.tensor<[20, 64], f32>, !graph.tensor<[2, 8, 32], ui32>, !graph.tensor<[2, 2, 32], f32>) -> !graph.tensor<[20, 64], f32>
  func.return %y : !graph.tensor<[20, 64], f32>
}

// -----

// Shifts of what has no column in each lane are left to others.
// CHECK-LABEL: loop.kernel @bit_shift
// CHECK-NOT: unroll vector(32)
func.func @main(%x: !graph.tensor<[3, 64], ui32>, %s: !graph.tensor<[], ui32>) -> !graph.tensor<[3, 64], ui32> {
  %y = graph.bit_shift %x, %s {direction = "RIGHT"} : (!graph.tensor<[3, 64], ui32>, !graph.tensor<[], ui32>) -> !graph.tensor<[3, 64], ui32>
  func.return %y : !graph.tensor<[3, 64], ui32>
}
