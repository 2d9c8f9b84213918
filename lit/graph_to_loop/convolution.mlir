// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Without padding a convolution is one contraction over channels and taps.
// CHECK-LABEL: loop.kernel @conv_
// CHECK-NOT: loop.alloc
// CHECK: loop.for %n = 0 to n0 {
// CHECK-NEXT: loop.for %o = 0 to 8 {
// CHECK-NEXT: loop.for %h = 0 to 3 {
// CHECK-NEXT: loop.for %w = 0 to 2 {
// CHECK-NEXT: loop.for %c = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %r = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %s = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.load %a0[%n, %c, 2 * %h + %r, %w + 2 * %s]
// CHECK-NEXT: loop.load %a1[%o, %c, %r, %s]
// CHECK-NEXT: loop.load %a2[%n, %o, %h, %w]
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %a2[%n, %o, %h, %w]
func.func @main(%x: !graph.tensor<[n, 4, 7, 6], f32>, %f: !graph.tensor<[8, 4, 3, 3], f32>) -> !graph.tensor<[n, 8, 3, 2], f32> {
  %y = graph.conv %x, %f {group = 1 : i64, strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>} : (!graph.tensor<[n, 4, 7, 6], f32>, !graph.tensor<[8, 4, 3, 3], f32>) -> !graph.tensor<[n, 8, 3, 2], f32>
  func.return %y : !graph.tensor<[n, 8, 3, 2], f32>
}

// -----

// Dims that might be negative are sizes of the kernel: the rows of the result, of which the operand has two more, and its columns beside the operand's.
// CHECK-LABEL: loop.kernel @conv_
// CHECK-SAME: [n0, n1, n2](%a0: !loop.buffer<[1, 4, n1 + 2, n0], f32>, %a1: !loop.buffer<[8, 4, 3, 3], f32>, %a2: !loop.buffer<[1, 8, n1, n2], f32>)
// CHECK: loop.for %h = 0 to n1 {
// CHECK-NEXT: loop.for %w = 0 to n2 {
// CHECK: loop.program @main[h, w]
// CHECK: loop.call @conv_{{[0-9a-f]+}}[w, h - 2, ((w + 1) floordiv 2) - 1](
func.func @main(%x: !graph.tensor<[1, 4, h, w], f32>, %f: !graph.tensor<[8, 4, 3, 3], f32>) -> !graph.tensor<[1, 8, h - 2, ((w + 1) floordiv 2) - 1], f32> {
  %y = graph.conv %x, %f {group = 1 : i64, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>} : (!graph.tensor<[1, 4, h, w], f32>, !graph.tensor<[8, 4, 3, 3], f32>) -> !graph.tensor<[1, 8, h - 2, ((w + 1) floordiv 2) - 1], f32>
  func.return %y : !graph.tensor<[1, 8, h - 2, ((w + 1) floordiv 2) - 1], f32>
}

// -----

// Padding is a nest of its own; of a depthwise convolution the group is the channel. The bias comes last.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: %padded = loop.alloc workspace : !loop.buffer<[1, 4, 10], f32>
// CHECK: loop.for %{{.*}} = 0 to 8 {
// CHECK-NEXT: loop.load %a0[0, %[[C:[a-z_0-9]+]], %[[W:[a-z_0-9]+]]]
// CHECK-NEXT: loop.store %{{.*}}, %padded[0, %[[C]], %[[W]] + 1]
// CHECK: loop.for %g = 0 to 4 {
// CHECK-NEXT: loop.for %w = 0 to 8 {
// CHECK-NEXT: loop.for %s = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.load %padded[0, %g, %w + %s]
// CHECK-NEXT: loop.load %a1[%g, 0, %s]
// CHECK: loop.for %o = 0 to 4 {
// CHECK: loop.load %a2[%o]
// CHECK-NEXT: arith.addf
func.func @main(%x: !graph.tensor<[1, 4, 8], f32>, %f: !graph.tensor<[4, 1, 3], f32>, %b: !graph.tensor<[4], f32>) -> !graph.tensor<[1, 4, 8], f32> {
  %y = graph.conv %x, %f, %b {group = 4 : i64, pads = array<i64: 1, 1>} : (!graph.tensor<[1, 4, 8], f32>, !graph.tensor<[4, 1, 3], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[1, 4, 8], f32>
  func.return %y : !graph.tensor<[1, 4, 8], f32>
}

// -----

// Groups of several channels have a loop each; a kernel of one tap has none.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.for %g = 0 to 2 {
// CHECK-NEXT: loop.for %o = 0 to 3 {
// CHECK-NEXT: loop.for %w = 0 to 8 {
// CHECK-NEXT: loop.for %c = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.load %a0[0, 2 * %g + %c, %w]
// CHECK-NEXT: loop.load %a1[3 * %g + %o, %c, 0]
func.func @main(%x: !graph.tensor<[1, 4, 8], f32>, %f: !graph.tensor<[6, 2, 1], f32>) -> !graph.tensor<[1, 6, 8], f32> {
  %y = graph.conv %x, %f {group = 2 : i64} : (!graph.tensor<[1, 4, 8], f32>, !graph.tensor<[6, 2, 1], f32>) -> !graph.tensor<[1, 6, 8], f32>
  func.return %y : !graph.tensor<[1, 6, 8], f32>
}

// -----

// Where its strides do not divide the filter, a transposed convolution spreads the image by its strides and reads the filter backwards.
// CHECK-LABEL: loop.kernel @conv_transpose_
// CHECK: %spread = loop.alloc workspace : !loop.buffer<[1, 2, 11], f32>
// CHECK: loop.load %a0[0, %[[C:[a-z_0-9]+]], %[[W:[a-z_0-9]+]]]
// CHECK-NEXT: loop.store %{{.*}}, %spread[0, %[[C]], 2 * %[[W]] + 2]
// CHECK: loop.load %spread[0, %c, %w + %s]
// CHECK-NEXT: loop.load %a1[%c, %o, -%s + 2]
func.func @main(%x: !graph.tensor<[1, 2, 4], f32>, %f: !graph.tensor<[2, 3, 3], f32>) -> !graph.tensor<[1, 3, 9], f32> {
  %y = graph.conv_transpose %x, %f {group = 1 : i64, strides = array<i64: 2>} : (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[2, 3, 3], f32>) -> !graph.tensor<[1, 3, 9], f32>
  func.return %y : !graph.tensor<[1, 3, 9], f32>
}

// -----

// Where they do, each phase of the strides is a convolution with every other tap, and no zeros are multiplied.
// CHECK-LABEL: loop.kernel @conv_transpose_
// CHECK-NOT: spread
// CHECK: %total = loop.alloc workspace : !loop.buffer<[1, 3, 4, 2], f32>
// CHECK: loop.for %c = 0 to 2 reduction(add)
// CHECK: loop.load %padded[0, %c, %w - %s + ((%u + 1) floordiv 2) + 1]
// CHECK-NEXT: loop.load %a1[%c, %o, 2 * %s + ((%u + 1) mod 2)]
// CHECK: loop.store %{{.*}}, %a2[0, %o_1, 2 * %w_1 + %u_1]
func.func @main(%x: !graph.tensor<[1, 2, 4], f32>, %f: !graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[1, 3, 8], f32> {
  %y = graph.conv_transpose %x, %f {group = 1 : i64, strides = array<i64: 2>, pads = #graph.shape<[1, 1]>} : (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[1, 3, 8], f32>
  func.return %y : !graph.tensor<[1, 3, 8], f32>
}
