// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-mark-stages | filecheck %s

// What reads the results of a named node is in the next stage; inside of the node nothing changes.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = graph.add %x, %x
// CHECK: %[[B:.*]] = graph.exp %[[A]]
// CHECK: %[[S:.*]] = graph.stage %[[B]] {index = 1 : i64}
// CHECK: graph.neg %[[S]]
builtin.module attributes {weft.options = {mesh = "stage=2", stage = ["softplus=1"]}} {
  func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
    %a = graph.add %x, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> loc("softplus")
    %b = graph.exp %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> loc("softplus")
    %y = graph.neg %b : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    func.return %y : !graph.tensor<[4], f32>
  }
}

// -----

// CHECK: stages require names of nodes, got relu
builtin.module attributes {weft.options = {mesh = "stage=2", stage = ["relu=1"]}} {
  func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
    func.return %x : !graph.tensor<[4], f32>
  }
}

// -----

// A weight that a sharding names is cut before anything is computed of it.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = graph.constant {key = "w"
// CHECK-NEXT: %[[S:.*]] = graph.shard %[[W]] {sharding = #graph.sharding<[["model"], []]>}
// CHECK-NEXT: graph.transpose %[[S]]
builtin.module attributes {weft.options = {mesh = "model=2", shard = ["w=model"]}} {
  func.func @main() -> !graph.tensor<[3, 4], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[4, 3]>, element = f32} : () -> !graph.tensor<[4, 3], f32>
    %y = graph.transpose %w {permutation = array<i64: 1, 0>} : (!graph.tensor<[4, 3], f32>) -> !graph.tensor<[3, 4], f32>
    func.return %y : !graph.tensor<[3, 4], f32>
  }
}

// -----

// CHECK: the sharding of w requires a dim that is a multiple of 2 (model), got 3
builtin.module attributes {weft.options = {mesh = "model=2", shard = ["w=,model"]}} {
  func.func @main() -> !graph.tensor<[4, 3], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[4, 3]>, element = f32} : () -> !graph.tensor<[4, 3], f32>
    func.return %w : !graph.tensor<[4, 3], f32>
  }
}
