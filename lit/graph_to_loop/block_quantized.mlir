// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop | filecheck %s

// One row: the eight codes of a word become numbers in registers, and a block's sum is scaled once.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.for %[[C:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.for %[[G:[a-z_0-9]+]] = 0 to 4 {
// CHECK: %[[WORD:[0-9]+]] = loop.load %a1[0, 4 * %[[C]] + %[[G]], %[[L:[a-z_0-9]+]]]
// CHECK-NEXT: loop.field %[[WORD]] {low = #builtin.int<0>, bits = #builtin.int<4>, centred = true} : f32
// CHECK-NEXT: loop.field %[[WORD]] {low = #builtin.int<4>, bits = #builtin.int<4>, centred = true} : f32
// CHECK: %[[SCALE:[0-9]+]] = loop.load %a2[0, %[[C]], %{{.*}}]
// CHECK: arith.mulf %{{.*}}, %[[SCALE]]
func.func @main(%x: !graph.tensor<[1, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[1, 32], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[1, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[1, 32], f32>
  func.return %y : !graph.tensor<[1, 32], f32>
}

// -----

// Many rows: a panel of numbers, then a product with it.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: %panel = loop.alloc scratch : !loop.buffer<[64, 32], f32>
// CHECK: loop.store %{{.*}}, %panel
// CHECK: reduction(add)
// CHECK: loop.load %panel
func.func @main(%x: !graph.tensor<[9, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[9, 32], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "float"} : (!graph.tensor<[9, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[9, 32], f32>
  func.return %y : !graph.tensor<[9, 32], f32>
}

// -----

// As bytes: the codes of a word are the unsigned factors of two words of steps, and the zero point
// is taken out of the sum.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: reduction(max)
// CHECK: math.roundeven
// CHECK: loop.dot_bytes
// CHECK: loop.dot_bytes
// CHECK: arith.subi
// CHECK: arith.sitofp
func.func @main(%x: !graph.tensor<[1, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[1, 32], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "int8"} : (!graph.tensor<[1, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[1, 32], f32>
  func.return %y : !graph.tensor<[1, 32], f32>
}

// -----

// Many rows of bf16: a panel of words, and tiles of 32 rows, of which the last is filled up.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.load %a0[min(32, 32 * %m + %i), 32 * %g + 2 * %w]
// CHECK: loop.pack_bf16
// CHECK: %panel = loop.alloc scratch : !loop.buffer<[1, 1, 32, 32], i32>
// CHECK: loop.pack_bf16
// CHECK: loop.for %{{.*}} = 0 to 16 reduction(add) {
// CHECK: loop.dot_bf16
func.func @main(%x: !graph.tensor<[33, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[33, 32], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "bf16"} : (!graph.tensor<[33, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[33, 32], f32>
  func.return %y : !graph.tensor<[33, 32], f32>
}

// -----

// Fewer rows than a register has are bytes.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK-NOT: bf16
// CHECK: loop.dot_bytes
func.func @main(%x: !graph.tensor<[15, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[15, 32], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "bf16"} : (!graph.tensor<[15, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[15, 32], f32>
  func.return %y : !graph.tensor<[15, 32], f32>
}

// -----

// Rows of floats are three numbers of bf16 each and weights two, of which five products matter, if
// the greatest number of each row is of a usual size; otherwise, and of fewer rows, floats are
// multiplied.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: loop.for %k = 0 to 64 reduction(max) {
// CHECK: loop.if %{{[0-9]+}} {
// CHECK: loop.store %{{[0-9]+}}, %words[%m{{.*}}, %g, 2, %i, %w]
// CHECK: loop.store %{{[0-9]+}}, %words[%m{{.*}}, %g, 1, %i, %w]
// CHECK: loop.store %{{[0-9]+}}, %words[%m{{.*}}, %g, 0, %i, %w]
// CHECK: %panel = loop.alloc scratch : !loop.buffer<[1, 2, 32, 32], i32>
// CHECK: loop.for %s = 0 to 5 reduction(add) {
// CHECK: loop.load %panel[0, {{.*}}((%s floordiv 2) mod 2), 16 * %g{{.*}} + %w{{.*}}, %l{{.*}}]
// CHECK: loop.load %words[%m{{.*}}, %g{{.*}}, min(((%s + 1) floordiv 2), 2), %i{{.*}}, %w{{.*}}]
// CHECK: loop.dot_bf16
// CHECK: loop.if %{{[0-9]+}} {
// CHECK-NOT: loop.dot_bf16
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK-NOT: loop.pack_bf16
func.func @main(%x: !graph.tensor<[64, 64], f32>, %few: !graph.tensor<[63, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f16>) -> (!graph.tensor<[64, 32], f32>, !graph.tensor<[63, 32], f32>) {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "parts"} : (!graph.tensor<[64, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f16>) -> !graph.tensor<[64, 32], f32>
  %z = graph.block_quantized_matmul %few, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "parts"} : (!graph.tensor<[63, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f16>) -> !graph.tensor<[63, 32], f32>
  func.return %y, %z : !graph.tensor<[64, 32], f32>, !graph.tensor<[63, 32], f32>
}

// -----

// Of codes of 8 bits or scales of 24 it takes three numbers, and six products.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: %panel = loop.alloc scratch : !loop.buffer<[1, 3, 32, 32], i32>
// CHECK: loop.for %s = 0 to 6 reduction(add) {
// CHECK: loop.dot_bf16
func.func @main(%x: !graph.tensor<[64, 64], f32>, %c: !graph.tensor<[1, 8, 32], ui32>, %s: !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[64, 32], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, activations = "parts"} : (!graph.tensor<[64, 64], f32>, !graph.tensor<[1, 8, 32], ui32>, !graph.tensor<[1, 2, 32], f32>) -> !graph.tensor<[64, 32], f32>
  func.return %y : !graph.tensor<[64, 32], f32>
}

// -----

// Of several panels the next one's words are unpacked behind the products of tiles with this one: of
// two tiles of rows each has half of the 32 words.
// CHECK-LABEL: loop.kernel @block_quantized_matmul
// CHECK: %panel = loop.alloc scratch : !loop.buffer<[2, 1, 128, 32], i32>
// CHECK: loop.for %c = 0 to 2 {
// CHECK-NEXT: loop.for %m{{.*}} = 0 to 2 {
// CHECK: loop.load %panel[(%c mod 2), 0, 16 * %g{{.*}} + %w{{.*}}, %l{{.*}}]
// CHECK: loop.for %[[G:.*]] = 0 to 16 {
// CHECK: loop.load %a1[%t, 32 * %c + 16 * %m{{.*}} + %[[G]] + 32, %l{{.*}}]
// CHECK: loop.store %{{.*}}, %panel[((%c + 1) mod 2), 0, {{.*}}, %l{{.*}}]
func.func @main(%x: !graph.tensor<[64, 768], f32>, %c: !graph.tensor<[2, 96, 32], ui32>, %s: !graph.tensor<[2, 24, 32], f16>) -> !graph.tensor<[64, 64], f32> {
  %y = graph.block_quantized_matmul %x, %c, %s {bits = 4 : i64, block = 32 : i64, columns = 64 : i64, activations = "bf16"} : (!graph.tensor<[64, 768], f32>, !graph.tensor<[2, 96, 32], ui32>, !graph.tensor<[2, 24, 32], f16>) -> !graph.tensor<[64, 64], f32>
  func.return %y : !graph.tensor<[64, 64], f32>
}
