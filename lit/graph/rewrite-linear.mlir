// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// Known parameters are a factor and a shift of each channel: 1/2, 2/4 and 1 - 1/2, 3 - 4/2.
// CHECK-LABEL: func.func @anywhere
// CHECK: %[[FACTOR:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[2, 1, 1]>
// CHECK-NEXT: %[[SHIFT:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, 1.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.mul %x, %[[FACTOR]]
// CHECK-NEXT: graph.add %[[P]], %[[SHIFT]]
// CHECK-NOT: graph.batch_norm
func.func @anywhere(%x: !graph.tensor<[n, 2, 4, 4], f32>) -> !graph.tensor<[n, 2, 4, 4], f32> {
  %scale = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %bias = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %mean = graph.constant {literal = #graph.literal<[1.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %variance = graph.constant {literal = #graph.literal<[4.0, 16.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %y = graph.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2, 4, 4], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 4, 4], f32>
  func.return %y : !graph.tensor<[n, 2, 4, 4], f32>
}

// -----

// Behind a convolution both go into the filter and the bias, which keeps its attributes.
// CHECK-LABEL: func.func @behind_convolution
// CHECK: %[[FILTER:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, 5.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK: %[[BIAS:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.5, 3.0]>
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.conv %x, %[[FILTER]], %[[BIAS]] {group = 1 : i64, strides = array<i64: 2>}
// CHECK-NEXT: func.return %[[Y]]
func.func @behind_convolution(%x: !graph.tensor<[n, 1, 4], f32>) -> !graph.tensor<[n, 2, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 10.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %b = graph.constant {literal = #graph.literal<[2.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %scale = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %bias = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %mean = graph.constant {literal = #graph.literal<[1.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %variance = graph.constant {literal = #graph.literal<[4.0, 16.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %c = graph.conv %x, %w, %b {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[n, 1, 4], f32>, !graph.tensor<[2, 1, 1], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 2], f32>
  %y = graph.batch_norm %c, %scale, %bias, %mean, %variance {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2, 2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 2], f32>
  func.return %y : !graph.tensor<[n, 2, 2], f32>
}

// -----

// A convolution that somebody else reads keeps its filter.
// CHECK-LABEL: func.func @shared_convolution
// CHECK: %[[C:[a-z_0-9]+]] = graph.conv %x, %w {
// CHECK: graph.mul %[[C]],
// CHECK: graph.add
func.func @shared_convolution(%x: !graph.tensor<[n, 1, 8], f32>) -> (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2, 4], f32>) {
  %w = graph.constant {literal = #graph.literal<[1.0, 10.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %p = graph.constant {literal = #graph.literal<[4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %c = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[n, 1, 8], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %y = graph.batch_norm %c, %p, %p, %p, %p {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 4], f32>
  func.return %c, %y : !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2, 4], f32>
}

// -----

// Parameters that arrive at run time stay an operator.
// CHECK-LABEL: func.func @unknown
// CHECK: graph.batch_norm
func.func @unknown(%x: !graph.tensor<[n, 2], f32>, %p: !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32> {
  %y = graph.batch_norm %x, %p, %p, %p, %p {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %y : !graph.tensor<[n, 2], f32>
}

// -----

// Constants for each channel go into weights and biases; of a transposed filter channels are dim 1
// in each group.
// CHECK-LABEL: func.func @beside_products
// CHECK: %[[F:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[2.0, 6.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK: %[[P:[a-z_0-9]+]] = graph.conv %x, %[[F]] {group = 1 : i64, strides = array<i64: 2>}
// CHECK: %[[G:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.0, 6.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK: %[[Q:[a-z_0-9]+]] = graph.conv_transpose %z, %[[G]] {group = 2 : i64}
// CHECK: %[[H:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[12.0, -5.0]>, shape = #graph.shape<[2]>
// CHECK: %[[R:[a-z_0-9]+]] = graph.gemm %m, %v, %[[H]] {{.*}}beta = 1.0
// CHECK: func.return %[[P]], %[[Q]], %[[R]]
func.func @beside_products(%x: !graph.tensor<[n, 1, 8], f32>, %z: !graph.tensor<[n, 2, 4], f32>, %m: !graph.tensor<[n, 2], f32>) -> (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2], f32>) {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %u = graph.constant {literal = #graph.literal<[2.0, 3.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %v = graph.constant {literal = #graph.literal<[1.0, 1.0, 3.0, 3.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %b = graph.constant {literal = #graph.literal<[1.0, -2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %by = graph.constant {literal = #graph.literal<[2.0, 3.0]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %two = graph.constant {literal = #graph.literal<[10.0, -1.0]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %over = graph.constant {literal = #graph.literal<[2.0, 0.5]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %c = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[n, 1, 8], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %p = graph.mul %by, %c : (!graph.tensor<[2, 1], f32>, !graph.tensor<[n, 2, 4], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %d = graph.conv_transpose %z, %u {group = 2 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %q = graph.div %d, %over : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %e = graph.gemm %m, %v, %b {alpha = 1.0 : f64, beta = 2.0 : f64, transpose_a = false, transpose_b = true} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %r = graph.add %e, %two : (!graph.tensor<[n, 2], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %p, %q, %r : !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[n, 2], f32>
}

// -----

// Behind a product the shift of a normalisation is a sum, of which constants are one.
// CHECK-LABEL: func.func @behind_matmul
// CHECK: %[[W:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, 5.0]>, shape = #graph.shape<[1, 2]>
// CHECK: %[[P:[a-z_0-9]+]] = graph.matmul %x, %[[W]]
// CHECK: %[[B:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.5, 3.0]>, shape = #graph.shape<[2]>
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.add %[[P]], %[[B]]
// CHECK-NEXT: func.return %[[Y]]
func.func @behind_matmul(%x: !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 10.0]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %b = graph.constant {literal = #graph.literal<[2.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %scale = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %bias = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %mean = graph.constant {literal = #graph.literal<[1.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %variance = graph.constant {literal = #graph.literal<[4.0, 16.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %c = graph.matmul %x, %w : (!graph.tensor<[n, 1], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %d = graph.add %c, %b : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %y = graph.batch_norm %d, %scale, %bias, %mean, %variance {epsilon = 0.0 : f64} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %y : !graph.tensor<[n, 2], f32>
}

// -----

// Constants that vary along other dims, products that others read, those
// whose weights would be no numbers any more, and products of integers over a number stay.
// CHECK-LABEL: func.func @beside_others
// CHECK: graph.conv
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.div
func.func @beside_others(%x: !graph.tensor<[n, 1, 4], f32>, %m: !graph.tensor<[n, 1], f32>, %k: !graph.tensor<[n, 1], i32>) -> (!graph.tensor<[n, 2, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], i32>) {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %v = graph.constant {literal = #graph.literal<[1.0, 3.0e+38]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %u = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %i = graph.constant {literal = #graph.literal<[1, 2]>, shape = #graph.shape<[1, 2]>, element = i32} : () -> !graph.tensor<[1, 2], i32>
  %by = graph.constant {literal = #graph.literal<[2.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %two = graph.constant {literal = #graph.literal<[2]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %c = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[n, 1, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 2, 2], f32>
  %p = graph.mul %c, %by : (!graph.tensor<[n, 2, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2, 2], f32>
  %d = graph.matmul %m, %v : (!graph.tensor<[n, 1], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %q = graph.mul %d, %by : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %e = graph.matmul %m, %u : (!graph.tensor<[n, 1], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %r = graph.mul %e, %by : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %g = graph.matmul %k, %i : (!graph.tensor<[n, 1], i32>, !graph.tensor<[1, 2], i32>) -> !graph.tensor<[n, 2], i32>
  %s = graph.div %g, %two : (!graph.tensor<[n, 2], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[n, 2], i32>
  func.return %p, %q, %e, %r, %s : !graph.tensor<[n, 2, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[n, 2], i32>
}

// -----

// Rows and columns of constants stay, for a matrix would take more memory than both.
// CHECK-LABEL: func.func @outer
// CHECK: graph.add %x
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.gemm
// CHECK-NEXT: graph.add
func.func @outer(%x: !graph.tensor<[3, 3], f32>, %m: !graph.tensor<[3, 1], f32>) -> (!graph.tensor<[3, 3], f32>, !graph.tensor<[3, 3], f32>) {
  %row = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0]>, shape = #graph.shape<[3]>, element = f32} : () -> !graph.tensor<[3], f32>
  %column = graph.constant {literal = #graph.literal<[4.0, 5.0, 6.0]>, shape = #graph.shape<[3, 1]>, element = f32} : () -> !graph.tensor<[3, 1], f32>
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0]>, shape = #graph.shape<[1, 3]>, element = f32} : () -> !graph.tensor<[1, 3], f32>
  %p = graph.add %x, %row : (!graph.tensor<[3, 3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[3, 3], f32>
  %a = graph.add %p, %column : (!graph.tensor<[3, 3], f32>, !graph.tensor<[3, 1], f32>) -> !graph.tensor<[3, 3], f32>
  %q = graph.gemm %m, %w, %column {alpha = 1.0 : f64, beta = 1.0 : f64, transpose_a = false, transpose_b = false} : (!graph.tensor<[3, 1], f32>, !graph.tensor<[1, 3], f32>, !graph.tensor<[3, 1], f32>) -> !graph.tensor<[3, 3], f32>
  %b = graph.add %q, %row : (!graph.tensor<[3, 3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[3, 3], f32>
  func.return %a, %b : !graph.tensor<[3, 3], f32>, !graph.tensor<[3, 3], f32>
}

// -----

// What a loop would compute in every iteration stays in front of it.
// CHECK-LABEL: func.func @outside
// CHECK: graph.matmul
// CHECK-NEXT: graph.for
// CHECK: graph.mul
func.func @outside(%m: !graph.tensor<[2, 1], f32>) -> !graph.tensor<[2, 2], f32> {
  %w = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %by = graph.constant {literal = #graph.literal<[2.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %p = graph.matmul %m, %w : (!graph.tensor<[2, 1], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %y = graph.for %zero {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32> {
  ^body(%s: !graph.tensor<[2, 2], f32>):
    %q = graph.mul %p, %by : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2, 2], f32>
    %t = graph.sub %q, %s : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
    graph.yield %t : !graph.tensor<[2, 2], f32>
  }
  func.return %y : !graph.tensor<[2, 2], f32>
}

// -----

// Constants for each channel of the operand go into weights too: those of a convolution by groups,
// of a transposed convolution along dim 0. Sums stay in front, for what they cancel would be lost.
// CHECK-LABEL: func.func @in_front
// CHECK: %[[F:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[2.0, 1.5]>, shape = #graph.shape<[2, 1, 1]>
// CHECK: %[[P:[a-z_0-9]+]] = graph.conv %x, %[[F]] {group = 2 : i64, pads = array<i64: 1, 1>}
// CHECK: %[[G:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, 2.0]>, shape = #graph.shape<[2, 1, 1]>
// CHECK: %[[Q:[a-z_0-9]+]] = graph.conv_transpose %x, %[[G]] {group = 1 : i64}
// CHECK: %[[B:[a-z_0-9]+]] = graph.add %m, %row
// CHECK: %[[R:[a-z_0-9]+]] = graph.gemm %[[B]], %v
// CHECK: %[[C:[a-z_0-9]+]] = graph.sub %m, %two
// CHECK: %[[S:[a-z_0-9]+]] = graph.matmul %[[C]], %k
// CHECK: func.return %[[P]], %[[Q]], %[[R]], %[[S]]
func.func @in_front(%x: !graph.tensor<[n, 2, 4], f32>, %m: !graph.tensor<[n, 2], f32>) -> (!graph.tensor<[n, 2, 6], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1], f32>, !graph.tensor<[n, 2], f32>) {
  %w = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %u = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %v = graph.constant {literal = #graph.literal<[1.0, 4.0]>, shape = #graph.shape<[1, 2]>, element = f32} : () -> !graph.tensor<[1, 2], f32>
  %k = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 5.0]>, shape = #graph.shape<[2, 2]>, element = f32} : () -> !graph.tensor<[2, 2], f32>
  %by = graph.constant {literal = #graph.literal<[2.0, 0.5]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %row = graph.constant {literal = #graph.literal<[2.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %two = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.mul %by, %x : (!graph.tensor<[2, 1], f32>, !graph.tensor<[n, 2, 4], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %p = graph.conv %a, %w {group = 2 : i64, pads = array<i64: 1, 1>} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 2, 6], f32>
  %b = graph.div %x, %by : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %q = graph.conv_transpose %b, %u {group = 1 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 1, 4], f32>
  %c = graph.add %m, %row : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 2], f32>
  %r = graph.gemm %c, %v {alpha = 2.0 : f64, beta = 1.0 : f64, transpose_a = false, transpose_b = true} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[1, 2], f32>) -> !graph.tensor<[n, 1], f32>
  %d = graph.sub %m, %two : (!graph.tensor<[n, 2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, 2], f32>
  %s = graph.matmul %d, %k : (!graph.tensor<[n, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %p, %q, %r, %s : !graph.tensor<[n, 2, 6], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1], f32>, !graph.tensor<[n, 2], f32>
}

// -----

// Constants that vary along other dims or make the operand larger stay, and so do those beside weights
// or an operand that others read, and sums.
// CHECK-LABEL: func.func @in_front_of_others
// CHECK: graph.add %x, %by
// CHECK-NEXT: graph.conv
// CHECK-NEXT: graph.sub %x, %by
// CHECK-NEXT: graph.conv_transpose
// CHECK-NEXT: graph.mul %x, %each
// CHECK-NEXT: graph.conv
// CHECK-NEXT: graph.mul %one, %by
// CHECK-NEXT: graph.conv_transpose
// CHECK-NEXT: graph.mul %x, %by
// CHECK-NEXT: graph.conv_transpose
// CHECK-NEXT: graph.div %x, %by
// CHECK-NEXT: graph.conv_transpose
// CHECK-NEXT: graph.add %h
// CHECK-NEXT: graph.matmul
func.func @in_front_of_others(%x: !graph.tensor<[n, 2, 4], f32>, %one: !graph.tensor<[n, 1, 4], f32>, %h: !graph.tensor<[n, 2], f16>) -> (!graph.tensor<[n, 1, 6], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1], f16>, !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) {
  %w1 = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[1, 2, 1]>, element = f32} : () -> !graph.tensor<[1, 2, 1], f32>
  %w2 = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[1, 2, 1]>, element = f32} : () -> !graph.tensor<[1, 2, 1], f32>
  %u1 = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %u2 = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %u3 = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %u4 = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1, 1]>, element = f32} : () -> !graph.tensor<[2, 1, 1], f32>
  %k = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1]>, element = f16} : () -> !graph.tensor<[2, 1], f16>
  %by = graph.constant {literal = #graph.literal<[1.0, 3.0]>, shape = #graph.shape<[2, 1]>, element = f32} : () -> !graph.tensor<[2, 1], f32>
  %each = graph.constant {literal = #graph.literal<[2.0, 0.5, 1.0, 4.0]>, shape = #graph.shape<[4]>, element = f32} : () -> !graph.tensor<[4], f32>
  %half = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f16} : () -> !graph.tensor<[], f16>
  %a = graph.add %x, %by : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %p = graph.conv %a, %w1 {group = 1 : i64, pads = array<i64: 1, 1>} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[n, 1, 6], f32>
  %b = graph.sub %x, %by : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %q = graph.conv_transpose %b, %u1 {group = 1 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 1, 4], f32>
  %c = graph.mul %x, %each : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %r = graph.conv %c, %w2 {group = 1 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[n, 1, 4], f32>
  %d = graph.mul %one, %by : (!graph.tensor<[n, 1, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %s = graph.conv_transpose %d, %u2 {group = 1 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 1, 4], f32>
  %e = graph.mul %x, %by : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %t = graph.conv_transpose %e, %u3 {group = 1 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 1, 4], f32>
  %f = graph.div %x, %by : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[n, 2, 4], f32>
  %v = graph.conv_transpose %f, %u4 {group = 1 : i64} : (!graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>) -> !graph.tensor<[n, 1, 4], f32>
  %g = graph.add %h, %half : (!graph.tensor<[n, 2], f16>, !graph.tensor<[], f16>) -> !graph.tensor<[n, 2], f16>
  %o = graph.matmul %g, %k : (!graph.tensor<[n, 2], f16>, !graph.tensor<[2, 1], f16>) -> !graph.tensor<[n, 1], f16>
  func.return %p, %q, %r, %s, %t, %v, %o, %f, %u3 : !graph.tensor<[n, 1, 6], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1, 4], f32>, !graph.tensor<[n, 1], f16>, !graph.tensor<[n, 2, 4], f32>, !graph.tensor<[2, 1, 1], f32>
}
