// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Sums by index: indices of a block are brought into range in vectors, then four elements at a time are added.
// CHECK-LABEL: loop.kernel @scatter_nd_
// CHECK: loop.for %[[IO:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[256], i64>
// CHECK-NEXT: loop.for %[[II:[a-z_0-9]+]] = 0 to 256 vector({{4|8}}) {
// CHECK-NEXT: loop.load %a1[256 * %[[IO]] + %[[II]], 0]
// CHECK: loop.store %{{.*}}, %[[T]][%[[II]]]
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 4 unroll {
// CHECK-NEXT: %[[I:[a-z_0-9]+]] = loop.load %[[T]][4 * %[[JO]] + %[[JI]]]
// CHECK-NEXT: %[[AT:[a-z_0-9]+]] = arith.index_cast %[[I]]
// CHECK: loop.store %{{.*}}, %a3[%[[AT]]]
// CHECK: loop.for %{{.*}} = 0 to 32 {
func.func @main(%y: !graph.tensor<[10], f32>, %i: !graph.tensor<[800, 1], i64>, %v: !graph.tensor<[800], f32>) -> !graph.tensor<[10], f32> {
  %z = graph.scatter_nd %y, %i, %v {reduction = "add"} : (!graph.tensor<[10], f32>, !graph.tensor<[800, 1], i64>, !graph.tensor<[800], f32>) -> !graph.tensor<[10], f32>
  func.return %z : !graph.tensor<[10], f32>
}

// -----

// Few elements, and rows, whose indices take no time beside them, are left to other schedules.
// CHECK-LABEL: loop.kernel @scatter_nd_
// CHECK-NOT: loop.alloc scratch
func.func @main(%y: !graph.tensor<[10], f32>, %i: !graph.tensor<[300, 1], i64>, %v: !graph.tensor<[300], f32>) -> !graph.tensor<[10], f32> {
  %z = graph.scatter_nd %y, %i, %v {reduction = "add"} : (!graph.tensor<[10], f32>, !graph.tensor<[300, 1], i64>, !graph.tensor<[300], f32>) -> !graph.tensor<[10], f32>
  func.return %z : !graph.tensor<[10], f32>
}

// -----

// CHECK-LABEL: loop.kernel @scatter_nd_
// CHECK-NOT: loop.alloc scratch
func.func @main(%y: !graph.tensor<[10, 16], f32>, %i: !graph.tensor<[800, 1], i64>, %v: !graph.tensor<[800, 16], f32>) -> !graph.tensor<[10, 16], f32> {
  %z = graph.scatter_nd %y, %i, %v {reduction = "add"} : (!graph.tensor<[10, 16], f32>, !graph.tensor<[800, 1], i64>, !graph.tensor<[800, 16], f32>) -> !graph.tensor<[10, 16], f32>
  func.return %z : !graph.tensor<[10, 16], f32>
}
