// RUN: weft-opt %s --split-input-file -p weft-check-indices | filecheck %s
// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-fold-constants | filecheck %s --check-prefix=KNOWN

// What is furthest from the least index that may be is looked at, as an unsigned number: one pass
// finds what is below 0 and what is above the axis. Equal indices are checked once.
// CHECK-LABEL: func.func @main
// CHECK: %[[FAR:.*]] = graph.bitcast %{{.*}} {to = ui64}
// CHECK: %[[WORST:.*]] = graph.reduce_max %[[FAR]]
// CHECK: %[[HELD:.*]] = graph.less %[[WORST]]
// CHECK: graph.assert %[[HELD]] "run requires an index from {} to {} along axis 0 of {} elements, got {}"
// CHECK-NOT: graph.assert
// CHECK: graph.gather %x, %i
func.func @main(%x: !graph.tensor<[7, n], f32>, %i: !graph.tensor<[k], i64>) -> (!graph.tensor<[k, n], f32>, !graph.tensor<[k, n], f32>) {
  %y = graph.gather %x, %i {axis = 0 : i64} : (!graph.tensor<[7, n], f32>, !graph.tensor<[k], i64>) -> !graph.tensor<[k, n], f32>
  %z = graph.gather %x, %i {axis = 0 : i64} : (!graph.tensor<[7, n], f32>, !graph.tensor<[k], i64>) -> !graph.tensor<[k, n], f32>
  func.return %y, %z : !graph.tensor<[k, n], f32>, !graph.tensor<[k, n], f32>
}

// -----

// Of index vectors each component is checked against its own axis.
// CHECK-LABEL: func.func @vectors
// CHECK: graph.assert {{.*}}along axis 0
// CHECK: graph.assert {{.*}}along axis 1
// CHECK: graph.scatter_nd
func.func @vectors(%x: !graph.tensor<[7, 5], f32>, %i: !graph.tensor<[k, 2], i64>, %u: !graph.tensor<[k], f32>) -> !graph.tensor<[7, 5], f32> {
  %y = graph.scatter_nd %x, %i, %u {reduction = "add"} : (!graph.tensor<[7, 5], f32>, !graph.tensor<[k, 2], i64>, !graph.tensor<[k], f32>) -> !graph.tensor<[7, 5], f32>
  func.return %y : !graph.tensor<[7, 5], f32>
}

// -----

// Indices of a resampling are meant to be moved into the axis.
// CHECK-LABEL: func.func @resample
// CHECK-NOT: graph.assert
func.func @resample(%x: !graph.tensor<[7], f32>, %i: !graph.tensor<[3, 2], i64>, %w: !graph.tensor<[3, 2], f32>) -> !graph.tensor<[3], f32> {
  %y = graph.resample %x, %i, %w {axis = 0 : i64, batch_dims = 0 : i64} : (!graph.tensor<[7], f32>, !graph.tensor<[3, 2], i64>, !graph.tensor<[3, 2], f32>) -> !graph.tensor<[3], f32>
  func.return %y : !graph.tensor<[3], f32>
}

// -----

// Indices that are known are checked while compiling, without being asked for.
// KNOWN: graph.gather requires an index from -7 to 6 along axis 0 of 7 elements, got 9
func.func @known(%x: !graph.tensor<[7], f32>) -> !graph.tensor<[2], f32> {
  %i = graph.constant {literal = #graph.literal<[3, 9]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %y = graph.gather %x, %i {axis = 0 : i64} : (!graph.tensor<[7], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}
