// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// The row's greatest element, the exponentials, their sum, the quotients.
// CHECK-LABEL: loop.kernel @softmax_
// CHECK: loop.for %k = 0 to n0 reduction(max) {
// CHECK: arith.maxnumf
// CHECK: %[[D:[a-z_0-9]+]] = arith.subf
// CHECK: %[[SMALL:[a-z_0-9]+]] = arith.cmpf olt, %[[D]]
// CHECK: %[[P:[a-z_0-9]+]] = math.exp %[[D]]
// CHECK: %[[Q:[a-z_0-9]+]] = arith.select %[[SMALL]], %{{.*}}, %[[P]]
// CHECK-NEXT: loop.store %[[Q]], %power[
// CHECK: loop.for %{{.*}} = 0 to n0 reduction(add) {
// CHECK-NEXT: %{{.*}} = loop.load %total
// CHECK: %[[E:[a-z_0-9]+]] = loop.load %power[
// CHECK-NEXT: arith.addf
// CHECK: %[[INVERSE:[a-z_0-9]+]] = arith.divf
// CHECK-NEXT: loop.store %[[INVERSE]], %inverse[%{{.*}}, 0]
// CHECK: %[[P:[a-z_0-9]+]] = loop.load %power[
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = loop.load %inverse[%{{.*}}, 0]
// CHECK-NEXT: arith.mulf %[[P]], %[[Q]]
func.func @main(%x: !graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n], f32> {
  %y = graph.softmax %x {axis = -1 : i64} : (!graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n], f32>
  func.return %y : !graph.tensor<[2, n], f32>
}

// -----

// Two passes: the variance is taken of what is left of the mean.
// CHECK-LABEL: loop.kernel @layer_norm_
// CHECK: reduction(add)
// CHECK: %mean = loop.alloc workspace : !loop.buffer<[2], f32>
// CHECK: reduction(add)
// CHECK: loop.load %mean[
// CHECK-NEXT: %[[D:[a-z_0-9]+]] = arith.subf
// CHECK: arith.mulf %[[D]], %[[D]]
// CHECK: %inverse = loop.alloc workspace : !loop.buffer<[2], f32>
// CHECK: math.sqrt
// CHECK: loop.load %inverse[
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: loop.load %a1[
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: loop.load %a2[
// CHECK-NEXT: arith.addf
func.func @main(%x: !graph.tensor<[2, 8], f32>, %s: !graph.tensor<[8], f32>, %b: !graph.tensor<[8], f32>) -> !graph.tensor<[2, 8], f32> {
  %y = graph.layer_norm %x, %s, %b {axis = -1 : i64, epsilon = 1.0e-5 : f64} : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[2, 8], f32>
  func.return %y : !graph.tensor<[2, 8], f32>
}

// -----

// Groups of channels are loops of their own.
// CHECK-LABEL: loop.kernel @group_norm_
// CHECK: loop.load %a0[%[[N:[a-z_0-9]+]], 3 * %[[G:[a-z_0-9]+]] + %[[R:[a-z_0-9]+]], %[[S:[a-z_0-9]+]]]
// CHECK: loop.load %mean[%{{.*}}, %[[G:[a-z_0-9]+]]]
// CHECK: loop.load %a1[3 * %[[G:[a-z_0-9]+]] + %[[C:[a-z_0-9]+]]]
func.func @main(%x: !graph.tensor<[2, 6, 4], f32>, %s: !graph.tensor<[6], f32>, %b: !graph.tensor<[6], f32>) -> !graph.tensor<[2, 6, 4], f32> {
  %y = graph.group_norm %x, %s, %b {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (!graph.tensor<[2, 6, 4], f32>, !graph.tensor<[6], f32>, !graph.tensor<[6], f32>) -> !graph.tensor<[2, 6, 4], f32>
  func.return %y : !graph.tensor<[2, 6, 4], f32>
}

// -----

// The root is taken once a channel.
// CHECK-LABEL: loop.kernel @batch_norm_
// CHECK: loop.for %c = 0 to 3 {
// CHECK: math.sqrt
// CHECK: loop.store %{{.*}}, %factor[%c]
// CHECK: loop.for %{{.*}} = 0 to 4 {
// CHECK-NOT: math.sqrt
// CHECK: loop.load %factor[
func.func @main(%x: !graph.tensor<[2, 3, 4], f32>, %p: !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3, 4], f32> {
  %y = graph.batch_norm %x, %p, %p, %p, %p {epsilon = 1.0e-5 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3, 4], f32>
  func.return %y : !graph.tensor<[2, 3, 4], f32>
}
