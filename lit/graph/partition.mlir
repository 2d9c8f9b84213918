// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-propagate-shardings,weft-partition | filecheck %s

// A product over a cut dim is partial on each rank, and added up; the output is whole, so its rows are gathered.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %x: !graph.tensor<[2, 3], f32>, %w: !graph.tensor<[3, 8], f32>) -> !graph.tensor<[4, 8], f32>
// CHECK-SAME: inputs_cut = ["data,model", "model,"]
// CHECK-SAME: ranks = #builtin.int<4>
// CHECK: %[[PART:.*]] = graph.matmul %x, %w : (!graph.tensor<[2, 3], f32>, !graph.tensor<[3, 8], f32>) -> !graph.tensor<[2, 8], f32>
// CHECK: %[[SUM:.*]] = graph.all_reduce %[[PART]] {axes = ["model"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum", replicated}
// CHECK: %[[ALL:.*]] = graph.all_gather %[[SUM]] {axes = ["data"], axis = 0 : i64
// CHECK: func.return %[[ALL]]
builtin.module attributes {weft.options = {mesh = "data=2,model=2", shard = ["x=data,model", "w=model,"]}} {
  func.func @main(%x: !graph.tensor<[4, 6], f32>, %w: !graph.tensor<[6, 8], f32>) -> !graph.tensor<[4, 8], f32> attributes {input_names = ["x", "w"], output_names = ["y"]} {
    %y = graph.matmul %x, %w : (!graph.tensor<[4, 6], f32>, !graph.tensor<[6, 8], f32>) -> !graph.tensor<[4, 8], f32>
    func.return %y : !graph.tensor<[4, 8], f32>
  }
}

// -----

// A mean over parts is the mean of their means. Shapes among attributes are those of a part.
// CHECK-LABEL: func.func @main
// CHECK: %[[E:.*]] = graph.expand %x {shape = #graph.shape<[2, 6]>} : (!graph.tensor<[2, 1], f32>) -> !graph.tensor<[2, 6], f32>
// CHECK: %[[M:.*]] = graph.reduce_mean %[[E]]
// CHECK: %[[HALF:.*]] = graph.constant {{.*}}#graph.literal<[0.5]>
// CHECK: %[[S:.*]] = graph.mul %[[M]], %[[HALF]]
// CHECK: graph.all_reduce %[[S]] {axes = ["data"]
builtin.module attributes {weft.options = {mesh = "data=2", shard = ["x=data"]}} {
  func.func @main(%x: !graph.tensor<[4, 1], f32>) -> !graph.tensor<[6], f32> attributes {input_names = ["x"], output_names = ["y"]} {
    %e = graph.expand %x {shape = #graph.shape<[4, 6]>} : (!graph.tensor<[4, 1], f32>) -> !graph.tensor<[4, 6], f32>
    %y = graph.reduce_mean %e {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[4, 6], f32>) -> !graph.tensor<[6], f32>
    func.return %y : !graph.tensor<[6], f32>
  }
}

// -----

// What has no rule, such as a branch and what it reads, has whole tensors: they are gathered in front of it.
// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = graph.neg %x : (!graph.tensor<[2], f32>)
// CHECK: %[[ALL:.*]] = graph.all_gather %[[N]]
// CHECK: graph.if %c
// CHECK: graph.exp %[[ALL]] : (!graph.tensor<[4], f32>)
// CHECK-NOT: graph.all
builtin.module attributes {weft.options = {mesh = "data=2", shard = ["x=data"]}} {
  func.func @main(%x: !graph.tensor<[4], f32>, %c: !graph.tensor<[], i1>) -> !graph.tensor<[4], f32> attributes {input_names = ["x", "c"], output_names = ["y"]} {
    %n = graph.neg %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[4], f32> {
      %e = graph.exp %n : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
      graph.yield %e : !graph.tensor<[4], f32>
    } else {
      graph.yield %n : !graph.tensor<[4], f32>
    }
    func.return %y : !graph.tensor<[4], f32>
  }
}

// -----

// A constraint on a value becomes a slice, of rows by two axes.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = graph.shard_slice %x {axes = ["data", "model"], axis = 0 : i64
// CHECK: graph.exp %[[P]] : (!graph.tensor<[2], f32>)
// CHECK-NOT: graph.shard %
builtin.module attributes {weft.options = {mesh = "data=2,model=2"}} {
  func.func @main(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {input_names = ["x"], output_names = ["y"]} {
    %s = graph.shard %x {sharding = #graph.sharding<[["data", "model"]]>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
    %y = graph.exp %s : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
    func.return %y : !graph.tensor<[8], f32>
  }
}

// -----

// Without a mesh a constraint is its operand.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: func.return %x
func.func @main(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> {
  %s = graph.shard %x {sharding = #graph.sharding<[["data"]]>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  func.return %s : !graph.tensor<[8], f32>
}

// -----

// CHECK: graph.shard requires a value outside of branches and loops, in which ranks hold whole tensors, got one inside
builtin.module attributes {weft.options = {mesh = "data=2"}} {
  func.func @main(%x: !graph.tensor<[4], f32>, %c: !graph.tensor<[], i1>) -> !graph.tensor<[4], f32> attributes {input_names = ["x", "c"], output_names = ["y"]} {
    %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[4], f32> {
      %s = graph.shard %x {sharding = #graph.sharding<[["data"]]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
      graph.yield %s : !graph.tensor<[4], f32>
    } else {
      graph.yield %x : !graph.tensor<[4], f32>
    }
    func.return %y : !graph.tensor<[4], f32>
  }
}

// -----

// A gradient over a cut batch, of a parameter whose optimiser's state is cut along the same axis: adding up what each rank
// has of it moves fewer bytes than bringing the batch together.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   graph.all_gather
// CHECK:       graph.all_reduce
builtin.module attributes {weft.options = {mesh = "data=2", shard = ["a=,data", "b=data,", "s=data,", "n=data,"]}} {
  func.func @main(%a: !graph.tensor<[4, 64], f32>, %b: !graph.tensor<[64, 4], f32>, %s: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> attributes {input_names = ["a", "b", "s"], output_names = ["n"]} {
    %g = graph.matmul %a, %b : (!graph.tensor<[4, 64], f32>, !graph.tensor<[64, 4], f32>) -> !graph.tensor<[4, 4], f32>
    %n = graph.add %s, %g : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
    func.return %n : !graph.tensor<[4, 4], f32>
  }
}

// -----

// Of a small batch the other way round.
// CHECK-LABEL: func.func @main
// CHECK:       graph.all_gather
// CHECK-NOT:   graph.all_reduce
// CHECK:       func.return
builtin.module attributes {weft.options = {mesh = "data=2", shard = ["a=,data", "b=data,", "s=data,", "n=data,"]}} {
  func.func @main(%a: !graph.tensor<[4, 2], f32>, %b: !graph.tensor<[2, 4], f32>, %s: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> attributes {input_names = ["a", "b", "s"], output_names = ["n"]} {
    %g = graph.matmul %a, %b : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[4, 4], f32>
    %n = graph.add %s, %g : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
    func.return %n : !graph.tensor<[4, 4], f32>
  }
}

// -----

// Random bits of a part are those of its place in the whole: no rank draws more than it needs.
// CHECK-LABEL: func.func @main
// CHECK: %[[RANK:.*]] = graph.rank_index {axes = ["data"], mesh = #graph.mesh<data = 2>}
// CHECK: %[[ROW:.*]] = graph.mul %[[RANK]], %{{.*}} : (!graph.tensor<[], i64>
// CHECK: %[[START:.*]] = graph.mul %[[ROW]], %{{.*}} : (!graph.tensor<[], i64>
// CHECK: %[[BITS:.*]] = graph.random_bits %key, %[[START]] {seed = 0 : i64, shape = #graph.shape<[2, 6]>, stream = 1 : i64, whole = #graph.shape<[4, 6]>}
// CHECK: graph.bitwise_xor %x, %[[BITS]] : (!graph.tensor<[2, 6], ui64>
builtin.module attributes {weft.options = {mesh = "data=2", shard = ["x=data", "y=data"]}} {
  func.func @main(%x: !graph.tensor<[4, 6], ui64>, %key: !graph.tensor<[], ui64>) -> !graph.tensor<[4, 6], ui64> attributes {input_names = ["x", "key"], output_names = ["y"]} {
    %b = graph.random_bits %key {seed = 0 : i64, shape = #graph.shape<[4, 6]>, stream = 1 : i64} : (!graph.tensor<[], ui64>) -> !graph.tensor<[4, 6], ui64>
    %y = graph.bitwise_xor %x, %b : (!graph.tensor<[4, 6], ui64>, !graph.tensor<[4, 6], ui64>) -> !graph.tensor<[4, 6], ui64>
    func.return %y : !graph.tensor<[4, 6], ui64>
  }
}
