// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-graph-to-loop | filecheck %s

// A collective is started and waited for, with its number in the program; the rank is a number in memory.
// CHECK: loop.program @main(%x: !loop.buffer<[4], f32>, {{.*}}) inputs 1
// CHECK: %[[SUM:.*]] = loop.alloc
// CHECK: loop.start %x, %[[SUM]] {number = 0 : i64, operation = "all_reduce", reduction = "sum", sizes = array<i64: 2>, strides = array<i64: 3>} : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
// CHECK: loop.wait %x, %[[SUM]]
// CHECK: loop.start %[[SUM]], {{.*}} {number = 1 : i64, operation = "all_gather", reduction = "sum", sizes = array<i64: 3, 2>, strides = array<i64: 1, 3>} : !loop.buffer<[4], f32>, !loop.buffer<[24], f32>
// CHECK: %[[RANK:.*]] = loop.rank {sizes = array<i64: 3>, strides = array<i64: 1>} : i64
// CHECK: loop.store %[[RANK]]
func.func @main(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[24], f32>, !graph.tensor<[], i64>) {
  %s = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 3>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %g = graph.all_gather %s {axes = ["model", "data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 3>} : !graph.tensor<[4], f32> -> !graph.tensor<[24], f32>
  %r = graph.rank_index {axes = ["model"], mesh = #graph.mesh<data = 2, model = 3>} : !graph.tensor<[], i64>
  func.return %g, %r : !graph.tensor<[24], f32>, !graph.tensor<[], i64>
}

// -----

// CHECK: weft-graph-to-loop requires collectives along the first axis, as weft-decompose-collectives leaves them, got graph.all_gather
func.func @main(%x: !graph.tensor<[4, 2], f32>) -> !graph.tensor<[4, 4], f32> {
  %g = graph.all_gather %x {axes = ["data"], axis = 1 : i64, mesh = #graph.mesh<data = 2>} : !graph.tensor<[4, 2], f32> -> !graph.tensor<[4, 4], f32>
  func.return %g : !graph.tensor<[4, 4], f32>
}

// -----

// A message is sent out of the buffer that holds it, and received into one.
// CHECK: loop.program @main(%x: !loop.buffer<[4], f32>, %[[OUT:.*]]: !loop.buffer<[4], f32>) inputs 1
// CHECK: loop.send %x {number = 0 : i64, peer = 2 : i64, sizes = array<i64: 3>, strides = array<i64: 2>} : !loop.buffer<[4], f32>
// CHECK: loop.recv %[[OUT]] {number = 1 : i64, peer = 0 : i64, sizes = array<i64: 3>, strides = array<i64: 2>} : !loop.buffer<[4], f32>
func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  graph.send %x {axes = ["stage"], mesh = #graph.mesh<stage = 3, data = 2>, number = 0 : i64, peer = 2 : i64} : !graph.tensor<[4], f32>
  %y = graph.recv {axes = ["stage"], mesh = #graph.mesh<stage = 3, data = 2>, number = 1 : i64, peer = 0 : i64} : !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// The rank's row of a weight is read where it is.
// CHECK: %[[W:.*]] = loop.weight "w" : !loop.buffer<[3, 4], f32>
// CHECK-NEXT: %[[RANK:.*]] = loop.rank {sizes = array<i64: 3>, strides = array<i64: 1>} : i64
// CHECK-NEXT: %[[I:.*]] = arith.index_cast %[[RANK]]
// CHECK-NEXT: %[[ROW:.*]] = loop.subview %[[W]][%[[I]]] : !loop.buffer<[3, 4], f32> to !loop.buffer<[4], f32>
// CHECK-NEXT: loop.call @{{.*}}(%[[ROW]], {{.*}})
func.func @main() -> !graph.tensor<[4], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[3, 4]>, element = f32} : () -> !graph.tensor<[3, 4], f32>
  %r = graph.shard_row %w {axes = ["model"], mesh = #graph.mesh<data = 2, model = 3>} : !graph.tensor<[3, 4], f32> -> !graph.tensor<[4], f32>
  %y = graph.exp %r : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}
