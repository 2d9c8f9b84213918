// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-decompose-collectives | filecheck %s

// A slice is a gather at the rank's index; parts that are joined along an inner axis are put in order by a transpose.
// CHECK-LABEL: func.func @inner
// CHECK: %[[R:.*]] = graph.rank_index {axes = ["data"]
// CHECK: %[[B:.*]] = graph.reshape %x {shape = #graph.shape<[4, 2, 3]>}
// CHECK: %[[P:.*]] = graph.gather %[[B]], %[[R]] {axis = 1 : i64}
// CHECK: %[[G:.*]] = graph.all_gather {{.*}} {axes = ["data"], axis = 0 : i64
// CHECK: graph.transpose {{.*}} {permutation = array<i64: 1, 0, 2>}
func.func @inner(%x: !graph.tensor<[4, 6], f32>) -> !graph.tensor<[4, 6], f32> {
  %p = graph.shard_slice %x {axes = ["data"], axis = 1 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4, 6], f32> -> !graph.tensor<[4, 3], f32>
  %e = graph.exp %p : (!graph.tensor<[4, 3], f32>) -> !graph.tensor<[4, 3], f32>
  %y = graph.all_gather %e {axes = ["data"], axis = 1 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4, 3], f32> -> !graph.tensor<[4, 6], f32>
  func.return %y : !graph.tensor<[4, 6], f32>
}

// -----

// Floats of 16 bits are added up in 32; what is along the first axis already stays as it is.
// CHECK-LABEL: func.func @halves
// CHECK: %[[W:.*]] = graph.cast %x {to = f32}
// CHECK: %[[S:.*]] = graph.all_reduce %[[W]]
// CHECK: %[[N:.*]] = graph.cast %[[S]] {to = bf16}
// CHECK-NEXT: graph.all_gather %[[N]]
func.func @halves(%x: !graph.tensor<[4], bf16>) -> !graph.tensor<[8], bf16> {
  %s = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum"} : !graph.tensor<[4], bf16> -> !graph.tensor<[4], bf16>
  %y = graph.all_gather %s {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4], bf16> -> !graph.tensor<[8], bf16>
  func.return %y : !graph.tensor<[8], bf16>
}
