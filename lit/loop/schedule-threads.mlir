// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// A convolution of many pixels and few weights: threads share rows, so that each reads what it has written as the kernel
// before, and both read the weight. A batch may have a single image, so that its loop and the rows are one.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.for %[[T:[a-z_0-9]+]] = 0 to 49 * n0 parallel {
// CHECK-NEXT: loop.for %jo = 0 to 18 {
func.func @main(%x: !graph.tensor<[n, 128, 28, 28], f32>) -> !graph.tensor<[n, 128, 28, 28], f32> {
  %f = graph.constant {key = "f", shape = #graph.shape<[128, 128, 1, 1]>, element = f32} : () -> !graph.tensor<[128, 128, 1, 1], f32>
  %y = graph.conv %x, %f {group = 1 : i64} : (!graph.tensor<[n, 128, 28, 28], f32>, !graph.tensor<[128, 128, 1, 1], f32>) -> !graph.tensor<[n, 128, 28, 28], f32>
  func.return %y : !graph.tensor<[n, 128, 28, 28], f32>
}

// -----

// Of few pixels and many weights threads share the columns: each reads half of the weight.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.for %joo = 0 to 8 parallel {
func.func @main(%x: !graph.tensor<[1, 512, 7, 7], f32>) -> !graph.tensor<[1, 512, 7, 7], f32> {
  %f = graph.constant {key = "f", shape = #graph.shape<[512, 512, 1, 1]>, element = f32} : () -> !graph.tensor<[512, 512, 1, 1], f32>
  %y = graph.conv %x, %f {group = 1 : i64} : (!graph.tensor<[1, 512, 7, 7], f32>, !graph.tensor<[512, 512, 1, 1], f32>) -> !graph.tensor<[1, 512, 7, 7], f32>
  func.return %y : !graph.tensor<[1, 512, 7, 7], f32>
}

// -----

// Three channels are few for threads: these share them together with the rows. Of what is padded only the border is
// filled besides, in nests of its own.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.for %{{.*}} = 0 to 3 parallel {
// CHECK-NOT: loop.load
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 672 parallel {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 224 vector(8) {
// CHECK-NEXT: loop.load %a0[0, (%[[R]] floordiv 224), (%[[R]] mod 224), %[[L]]]
func.func @main(%x: !graph.tensor<[1, 3, 224, 224], f32>) -> !graph.tensor<[1, 32, 112, 112], f32> {
  %f = graph.constant {key = "f", shape = #graph.shape<[32, 3, 3, 3]>, element = f32} : () -> !graph.tensor<[32, 3, 3, 3], f32>
  %y = graph.conv %x, %f {group = 1 : i64, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 3, 224, 224], f32>, !graph.tensor<[32, 3, 3, 3], f32>) -> !graph.tensor<[1, 32, 112, 112], f32>
  func.return %y : !graph.tensor<[1, 32, 112, 112], f32>
}

// -----

// What is too little for two threads keeps its loops.
// CHECK-LABEL: loop.kernel @relu_
// CHECK: loop.for %{{.*}} = 0 to 3 parallel {
// CHECK-NEXT: loop.for
func.func @main(%x: !graph.tensor<[3, 20, 16], f32>) -> !graph.tensor<[3, 16, 20], f32> {
  %t = graph.relu %x : (!graph.tensor<[3, 20, 16], f32>) -> !graph.tensor<[3, 20, 16], f32>
  %y = graph.transpose %t {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[3, 20, 16], f32>) -> !graph.tensor<[3, 16, 20], f32>
  func.return %y : !graph.tensor<[3, 16, 20], f32>
}

// -----

// A batch of any size may be one image: whole tiles of columns and what is left are nests of their own, which threads share.
// CHECK-LABEL: loop.kernel @reduce_max_
// CHECK: loop.for %{{.*}} = 0 to 3 * n0 parallel {
// CHECK: loop.for %{{.*}} = 0 to n0 parallel {
// CHECK-NOT: parallel
func.func @main(%x: !graph.tensor<[n, 4, 198], f32>) -> !graph.tensor<[n, 198], f32> {
  %y = graph.reduce_max %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 4, 198], f32>) -> !graph.tensor<[n, 198], f32>
  func.return %y : !graph.tensor<[n, 198], f32>
}

// -----

// Rows of a depthwise convolution are computed one after the other, whole tiles and what is left.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 24 parallel {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 {
// CHECK-NEXT: loop.for %[[K:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[LO:[a-z_0-9]+]] = 0 to 3 {
// CHECK: loop.load %a0[%[[I]], %[[J]], {{.*}}8 * %[[LO]]
// CHECK: loop.for %[[REST:[a-z_0-9]+]] = 0 to 1 {
// CHECK: loop.load %a0[%[[I]], %[[J]],
// CHECK-NOT: loop.for %{{.*}} = 0 to n0
func.func @main(%x: !graph.tensor<[n, 24, 18, 29], f32>, %w: !graph.tensor<[24, 1, 3, 3], f32>) -> !graph.tensor<[n, 24, 16, 27], f32> {
  %y = graph.conv %x, %w {group = 24 : i64} : (!graph.tensor<[n, 24, 18, 29], f32>, !graph.tensor<[24, 1, 3, 3], f32>) -> !graph.tensor<[n, 24, 16, 27], f32>
  func.return %y : !graph.tensor<[n, 24, 16, 27], f32>
}
