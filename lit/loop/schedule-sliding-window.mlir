// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// A row of few vectors shares the tile with its neighbours, and the borders around a channel are written on the
// thread's stack right before the windows over it; what lies inside, right before the rows of windows that need it.
// CHECK-LABEL: loop.kernel @max_pool_
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 1, 30, 30], f32>
// CHECK:      loop.for %{{.*}} = 0 to 1 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 30 vector(8)
// CHECK:      loop.for %{{.*}} = 0 to 28 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 1 {
// CHECK:      loop.for %{{.*}} = 0 to 1 {
// CHECK:      loop.for %[[W:[a-z_0-9]+]] = 0 to 28 vector(8) {
// CHECK-NEXT: loop.prefetch %a0[0, %[[C]], %[[H:[a-z_0-9]+]] + 36, %[[W]]]
// CHECK-NEXT: loop.load %a0[0, %[[C]], %[[H]], %[[W]]]
// CHECK-NEXT: loop.store %{{.*}}, %[[P]][0, 0, %[[H]] + 1, %[[W]] + 1]
// CHECK:      loop.for %[[O:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to min(-7 * %[[O]] + 27, 7) {
// CHECK:      loop.store %{{.*}}, %[[P]][0, 0, 7 * %[[O]] + %[[I]] + 2, %{{.*}} + 1]
// CHECK:      loop.for %{{.*}} = 0 to 3 {
// CHECK:      loop.alloc registers : !loop.buffer<[1, 1, 7, 8], f32
// CHECK-NOT:  parallel
func.func @main(%x: !graph.tensor<[1, 64, 28, 28], f32>) -> !graph.tensor<[1, 64, 28, 28], f32> {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, ceil_mode = false} : (!graph.tensor<[1, 64, 28, 28], f32>) -> !graph.tensor<[1, 64, 28, 28], f32>
  func.return %y : !graph.tensor<[1, 64, 28, 28], f32>
}

// -----

// Rows of many vectors keep the units busy alone.
// CHECK-LABEL: loop.kernel @max_pool_
// CHECK: loop.alloc registers : !loop.buffer<[1, 1, 64], f32
func.func @main(%x: !graph.tensor<[1, 30, 66], f32>) -> !graph.tensor<[1, 30, 64], f32> {
  %y = graph.max_pool %x {kernel = array<i64: 3>, ceil_mode = false} : (!graph.tensor<[1, 30, 66], f32>) -> !graph.tensor<[1, 30, 64], f32>
  func.return %y : !graph.tensor<[1, 30, 64], f32>
}

// -----

// The rows of a tile overlap where a window moves down: its steps down are written out inside of those across, so that
// a row that several windows share is loaded once.
// CHECK-LABEL: loop.kernel @max_pool_
// CHECK: loop.for %s = 0 to 3 reduction(max) {
// CHECK-NEXT: loop.for %r = 0 to 3 unroll reduction(max) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to {{[0-9]+}} unroll {
// CHECK-NEXT: loop.for %{{.*}} unroll vector(8) {
func.func @main(%x: !graph.tensor<[1, 4, 34, 10], f32>) -> !graph.tensor<[1, 4, 32, 8], f32> {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, ceil_mode = false} : (!graph.tensor<[1, 4, 34, 10], f32>) -> !graph.tensor<[1, 4, 32, 8], f32>
  func.return %y : !graph.tensor<[1, 4, 32, 8], f32>
}

// -----

// Wide rows that have elements in common share a tile too, and the tiles along a row come one after the other: what
// they read is near then. Four channels are few for threads: these share them together with the tiles of rows.
// CHECK-LABEL: loop.kernel @conv_
// CHECK:      loop.for %[[CI:[a-z_0-9]+]] = 0 to 16 parallel {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[1, 1, 8, 8], f32
// CHECK:      loop.for %s = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %r = 0 to 3 unroll reduction(add) {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[0, (%[[CI]] floordiv 4), %[[R]] + %r + 8 * (%[[CI]] mod 4), 8 * %[[J]] + %[[L]] + %s]
func.func @main(%x: !graph.tensor<[1, 4, 34, 66], f32>) -> !graph.tensor<[1, 4, 32, 64], f32> {
  %f = graph.constant {key = "f", shape = #graph.shape<[4, 1, 3, 3]>, element = f32} : () -> !graph.tensor<[4, 1, 3, 3], f32>
  %y = graph.conv %x, %f {group = 4 : i64} : (!graph.tensor<[1, 4, 34, 66], f32>, !graph.tensor<[4, 1, 3, 3], f32>) -> !graph.tensor<[1, 4, 32, 64], f32>
  func.return %y : !graph.tensor<[1, 4, 32, 64], f32>
}

// -----

// Where lanes load every second element, a row is filled with its even elements first and the odd ones behind them.
// CHECK-LABEL: loop.kernel @max_pool_
// CHECK:      %[[P:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 1, 34, 34], f32, [d0, d1, d2, (d3 mod 2), (d3 floordiv 2)] in [1, 1, 34, 2, 17]>
// CHECK:      loop.for %{{.*}} = 0 to 16 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 unroll {
// CHECK-NEXT: loop.for %[[O:[a-z_0-9]+]] = 0 to 16 vector(8) {
// CHECK-NEXT: loop.load %a0[0, {{.*}}, 2 * %[[O]] + %[[I]]]
// CHECK-NEXT: loop.store %{{.*}}, %[[P]][0, 0, {{.*}}, 2 * %[[O]] + %[[I]] + 1]
// CHECK:      loop.for %r = 0 to 3 unroll reduction(max) {
// CHECK:      loop.for %[[L:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %[[P]][0, 0, {{.*}}, 16 * %{{.*}} + 2 * %[[L]] + %s]
func.func @main(%x: !graph.tensor<[1, 4, 32, 32], f32>) -> !graph.tensor<[1, 4, 16, 16], f32> {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, ceil_mode = false} : (!graph.tensor<[1, 4, 32, 32], f32>) -> !graph.tensor<[1, 4, 16, 16], f32>
  func.return %y : !graph.tensor<[1, 4, 16, 16], f32>
}

// -----

// Channels are around a batch that is too small for many threads; what pads an image's channel is right in front of the
// windows over it.
// CHECK-LABEL: loop.kernel @max_pool_
// CHECK-NEXT: loop.for %j = 0 to 40 parallel {
// CHECK-NEXT: loop.for %i = 0 to 2 {
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 1, 34, 34], f32, [d0, d1, d2, (d3 mod 2), (d3 floordiv 2)] in [1, 1, 34, 2, 17]>
// CHECK:      loop.load %a0[%i, %j, {{.*}}]
// CHECK:      loop.load %[[P]][
// CHECK-NOT:  parallel
func.func @main(%x: !graph.tensor<[2, 40, 32, 32], f32>) -> !graph.tensor<[2, 40, 16, 16], f32> {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, ceil_mode = false} : (!graph.tensor<[2, 40, 32, 32], f32>) -> !graph.tensor<[2, 40, 16, 16], f32>
  func.return %y : !graph.tensor<[2, 40, 16, 16], f32>
}
