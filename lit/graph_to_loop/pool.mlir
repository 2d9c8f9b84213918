// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// The padding of a maximum is the lowest value.
// CHECK-LABEL: loop.kernel @max_pool_
// CHECK: %padded = loop.alloc workspace : !loop.buffer<[1, 2, 6], f32>
// CHECK: arith.constant 0xff800000 : f32
// CHECK: loop.for %c = 0 to 2 {
// CHECK-NEXT: loop.for %w = 0 to 2 {
// CHECK-NEXT: loop.for %s = 0 to 3 reduction(max) {
// CHECK-NEXT: loop.load %padded[0, %c, 2 * %w + %s]
// CHECK: arith.maximumf
func.func @main(%x: !graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 2], f32> {
  %y = graph.max_pool %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 1, 1>, ceil_mode = false} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 2], f32>
  func.return %y : !graph.tensor<[1, 2, 2], f32>
}

// -----

// Where padding does not count, the divisor is the number of taps inside.
// CHECK-LABEL: loop.kernel @average_pool_
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: reduction(add)
// CHECK: arith.addf
// CHECK: %[[T:[a-z_0-9]+]] = loop.load %total[0, %{{.*}}, %[[W:[a-z_0-9]+]]]
// CHECK-NEXT: loop.index -max(-%[[W]] + 1, 0) + min(-%[[W]] + 5, 3)
// CHECK: arith.divf %[[T]]
func.func @main(%x: !graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 4], f32> {
  %y = graph.average_pool %x {kernel = array<i64: 3>, pads = array<i64: 1, 1>, ceil_mode = false, count_include_pad = false} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 4], f32>
  func.return %y : !graph.tensor<[1, 2, 4], f32>
}

// -----

// Without padding it is the size of the kernel.
// CHECK-LABEL: loop.kernel @average_pool_
// CHECK-NOT: loop.index
// CHECK: %[[N:[a-z_0-9]+]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: arith.divf %{{.*}}, %[[N]]
func.func @main(%x: !graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 3], f32> {
  %y = graph.average_pool %x {kernel = array<i64: 2>, ceil_mode = false, count_include_pad = false} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 3], f32>
  func.return %y : !graph.tensor<[1, 2, 3], f32>
}

// -----

// The search for a position looks at one tap after the other, in order, for all the windows in which that is inside.
// CHECK-LABEL: loop.kernel @max_pool_indices_
// CHECK-NOT: reduction
// CHECK: loop.for %s = 0 to 3 {
// CHECK-NEXT: loop.for %w = 0 to max(-max(-((%s + 1) floordiv 2) + 1, 0) + min(-((%s + 1) floordiv 2) + 3, 2), 0) {
// CHECK-NEXT: loop.load %a0[0, %c, %s + 2 * %w + 2 * max(-((%s + 1) floordiv 2) + 1, 0) - 1]
// CHECK: arith.ori
func.func @main(%x: !graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 2], i64> {
  %y = graph.max_pool_indices %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 1, 1>, ceil_mode = false, column_major = false} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 2], i64>
  func.return %y : !graph.tensor<[1, 2, 2], i64>
}

// -----

// Windows are added up within the padding, which is cut off at the end.
// CHECK-LABEL: loop.kernel @fold_
// CHECK: loop.for %[[S:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[W:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[0, 0, %[[S]], %[[W]]]
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = loop.load %[[P:[a-z_0-9]+]][0, 0, %[[W]] + %[[S]]]
// CHECK-NEXT: arith.addf %[[T]], %[[X]] : f32
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.load %[[P]][0, 0, %[[I]] + 1]
func.func @main(%x: !graph.tensor<[1, 1, 2, 4], f32>) -> !graph.tensor<[1, 1, 4], f32> {
  %y = graph.fold %x {spatial = #graph.shape<[4]>, pads = array<i64: 1, 0>} : (!graph.tensor<[1, 1, 2, 4], f32>) -> !graph.tensor<[1, 1, 4], f32>
  func.return %y : !graph.tensor<[1, 1, 4], f32>
}

// -----

// Windows of positions that only a call knows are as many as fit the image: the call checks it.
// CHECK-LABEL: loop.kernel @fold_
// CHECK: equal_sizes = [#loop.exprs<[p, 2]>]
func.func @main(%x: !graph.tensor<[1, 1, 2, p], f32>) -> !graph.tensor<[1, 1, 3], f32> {
  %y = graph.fold %x {spatial = #graph.shape<[3]>} : (!graph.tensor<[1, 1, 2, p], f32>) -> !graph.tensor<[1, 1, 3], f32>
  func.return %y : !graph.tensor<[1, 1, 3], f32>
}
