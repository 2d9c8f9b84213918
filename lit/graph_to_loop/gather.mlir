// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Indices below zero count from the end, and each is moved into the axis before it is used.
// CHECK-LABEL: loop.kernel @gather_
// CHECK: %[[P:[a-z_0-9]+]] = loop.load %a1[%i] : !loop.buffer<[3], i32>
// CHECK-NEXT: arith.extsi %[[P]] : i32 to i64
// CHECK: %[[N:[a-z_0-9]+]] = loop.index n0
// CHECK: arith.cmpi slt
// CHECK: arith.select
// CHECK: arith.minsi
// CHECK: %[[C:[a-z_0-9]+]] = arith.maxsi
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = arith.index_cast %[[C]] : i64 to index
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[S]], %j]
// CHECK-NEXT: loop.store %[[X]], %a2[%i, %j]
func.func @main(%x: !graph.tensor<[n, 4], f32>, %i: !graph.tensor<[3], i32>) -> !graph.tensor<[3, 4], f32> {
  %y = graph.gather %x, %i {axis = 0 : i64} : (!graph.tensor<[n, 4], f32>, !graph.tensor<[3], i32>) -> !graph.tensor<[3, 4], f32>
  func.return %y : !graph.tensor<[3, 4], f32>
}

// -----

// The operand is copied, then the updates are added in order.
// CHECK-LABEL: loop.kernel @scatter_nd_
// CHECK: loop.for %{{.*}} = 0 to 8 {
// CHECK: loop.store %{{.*}}, %a3
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: loop.load %a1[%[[I]], 0]
// CHECK: %[[U:[a-z_0-9]+]] = loop.load %a2[%[[I]]]
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a3[%[[P:[a-z_0-9]+]]]
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = arith.addf %[[X]], %[[U]] : f32
// CHECK-NEXT: loop.store %[[S]], %a3[%[[P]]]
func.func @main(%x: !graph.tensor<[8], f32>, %i: !graph.tensor<[3, 1], i64>, %u: !graph.tensor<[3], f32>) -> !graph.tensor<[8], f32> {
  %y = graph.scatter_nd %x, %i, %u {reduction = "add"} : (!graph.tensor<[8], f32>, !graph.tensor<[3, 1], i64>, !graph.tensor<[3], f32>) -> !graph.tensor<[8], f32>
  func.return %y : !graph.tensor<[8], f32>
}

// -----

// Each new element is a weighted sum of elements whose places a table lists.
// CHECK-LABEL: loop.kernel @resample_
// CHECK: loop.store %{{.*}}, %a3
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 5 {
// CHECK: loop.for %[[T:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.load %a1[%[[I]], %[[T]]]
// CHECK: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[P:[a-z_0-9]+]]]
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %a2[%[[I]], %[[T]]]
// CHECK-NEXT: %[[M:[a-z_0-9]+]] = arith.mulf %[[X]], %[[W]] : f32
func.func @main(%x: !graph.tensor<[3], f32>, %i: !graph.tensor<[5, 2], i64>, %w: !graph.tensor<[5, 2], f32>) -> !graph.tensor<[5], f32> {
  %y = graph.resample %x, %i, %w {axis = 0 : i64, batch_dims = 0 : i64} : (!graph.tensor<[3], f32>, !graph.tensor<[5, 2], i64>, !graph.tensor<[5, 2], f32>) -> !graph.tensor<[5], f32>
  func.return %y : !graph.tensor<[5], f32>
}
