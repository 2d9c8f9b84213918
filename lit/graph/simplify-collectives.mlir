// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-simplify-collectives | filecheck %s

// The slice of a sum is scattered; what is summed over the other axis stays.
// CHECK-LABEL: func.func @scatter
// CHECK: %[[P:.*]] = graph.reduce_scatter %x {axes = ["data"], axis = 0 : i64
// CHECK: graph.all_reduce %[[P]] {axes = ["model"]
// CHECK-NOT: graph.shard_slice
func.func @scatter(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[2], f32> {
  %s = graph.all_reduce %x {axes = ["data", "model"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %y = graph.shard_slice %s {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4], f32> -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}

// -----

// Not where something else reads the sum.
// CHECK-LABEL: func.func @read_twice
// CHECK: graph.all_reduce
// CHECK: graph.shard_slice
func.func @read_twice(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[4], f32>) {
  %s = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %y = graph.shard_slice %s {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4], f32> -> !graph.tensor<[2], f32>
  func.return %y, %s : !graph.tensor<[2], f32>, !graph.tensor<[4], f32>
}

// -----

// A sum of sums is the sum of what is added first; greatest values are not added.
// CHECK-LABEL: func.func @neighbours
// CHECK: %[[T:.*]] = graph.add %x, %z
// CHECK: %[[S:.*]] = graph.all_reduce %[[T]] {axes = ["data"]
// CHECK: %[[A:.*]] = graph.all_reduce %x {axes = ["data"], {{.*}}reduction = "max"
// CHECK: %[[B:.*]] = graph.all_reduce %z {axes = ["data"], {{.*}}reduction = "max"
// CHECK: graph.add %[[A]], %[[B]]
func.func @neighbours(%x: !graph.tensor<[4], f32>, %z: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %a = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %b = graph.all_reduce %z {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %s = graph.add %a, %b : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %c = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "max", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %d = graph.all_reduce %z {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "max", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %m = graph.add %c, %d : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %s, %m : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// Sums over one axis and then the other are one; a gather of slices is what was sliced, along one axis alone.
// CHECK-LABEL: func.func @nested
// CHECK: %[[S:.*]] = graph.all_reduce %x {axes = ["data", "model"]
// CHECK: %[[P:.*]] = graph.shard_slice %z {axes = ["data"], axis = 1
// CHECK: %[[G:.*]] = graph.all_gather %[[P]] {axes = ["data"], axis = 0
// CHECK: func.return %[[S]], %z, %[[G]]
func.func @nested(%x: !graph.tensor<[4], f32>, %z: !graph.tensor<[4, 4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4, 4], f32>, !graph.tensor<[8, 2], f32>) {
  %a = graph.all_reduce %x {axes = ["model"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %b = graph.all_reduce %a {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %c = graph.shard_slice %z {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4, 4], f32> -> !graph.tensor<[2, 4], f32>
  %d = graph.all_gather %c {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 2>, replicated} : !graph.tensor<[2, 4], f32> -> !graph.tensor<[4, 4], f32>
  %e = graph.shard_slice %z {axes = ["data"], axis = 1 : i64, mesh = #graph.mesh<data = 2, model = 2>} : !graph.tensor<[4, 4], f32> -> !graph.tensor<[4, 2], f32>
  %f = graph.all_gather %e {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 2>, replicated} : !graph.tensor<[4, 2], f32> -> !graph.tensor<[8, 2], f32>
  func.return %b, %d, %f : !graph.tensor<[4], f32>, !graph.tensor<[4, 4], f32>, !graph.tensor<[8, 2], f32>
}

// -----

// Groups of one rank have nothing to do.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: graph.all_reduce
// CHECK: func.return %x
func.func @alone(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %a = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 1>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  func.return %a : !graph.tensor<[4], f32>
}
