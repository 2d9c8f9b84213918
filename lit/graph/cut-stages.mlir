// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-cut-stages | filecheck %s

// Each rank has its stage: what another reads is sent as soon as it is computed, and received when it is read. The
// value that skips a stage goes to its reader alone. An output is on the rank that computes it, and zeros on others.
// CHECK-LABEL: func.func @main
// CHECK-SAME: output_ranks = {{\[\[}}#builtin.int<2>]], input_ranks = {{\[\[}}#builtin.int<0>]]
// CHECK: %[[RANK:.*]] = graph.rank_index {axes = ["stage"], mesh = #graph.mesh<stage = 3>}
// CHECK: graph.case %[[RANK]]
// CHECK: %[[A:.*]] = graph.exp %x
// CHECK: graph.send %[[A]] {axes = ["stage"], mesh = #graph.mesh<stage = 3>, number = 0 : i64, peer = 1 : i64}
// CHECK: graph.send %[[A]] {{.*}}number = 1 : i64, peer = 2 : i64}
// CHECK: %[[ZERO:.*]] = graph.expand
// CHECK: graph.yield %[[ZERO]]
// CHECK: %[[A1:.*]] = graph.recv {{.*}}number = 0 : i64, peer = 0 : i64}
// CHECK: %[[B:.*]] = graph.neg %[[A1]]
// CHECK: graph.send %[[B]] {{.*}}number = 2 : i64, peer = 2 : i64}
// CHECK: %[[B2:.*]] = graph.recv {{.*}}number = 2 : i64, peer = 1 : i64}
// CHECK: %[[A2:.*]] = graph.recv {{.*}}number = 1 : i64, peer = 0 : i64}
// CHECK: %[[Y:.*]] = graph.mul %[[B2]], %[[A2]]
// CHECK: graph.yield %[[Y]]
builtin.module attributes {weft.options = {mesh = "stage=3"}} {
  func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
    %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %a1 = graph.stage %a {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %b = graph.neg %a1 : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %b2 = graph.stage %b {index = 2 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %y = graph.mul %b2, %a : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    func.return %y : !graph.tensor<[4], f32>
  }
}

// -----

// Of two batches the first rank computes both forwards before the derivative of the first comes back. A donated
// parameter stays on its rank; the other has what it was given.
// CHECK-LABEL: func.func @main
// CHECK-SAME: output_ranks = {{\[\[}}#builtin.int<0>]], input_ranks = {{\[\[}}#builtin.int<0>], [#builtin.int<0>], [#builtin.int<0>]], messages_back
// CHECK: %[[A:.*]] = graph.mul %w, %x
// CHECK: graph.send %[[A]]
// CHECK: %[[B:.*]] = graph.mul %w, %y
// CHECK: graph.send %[[B]]
// CHECK: %[[CA:.*]] = graph.recv
// CHECK: %[[DA:.*]] = graph.mul %[[CA]], %x
// CHECK: %[[CB:.*]] = graph.recv
// CHECK: %[[DB:.*]] = graph.mul %[[CB]], %y
// CHECK: %[[D:.*]] = graph.add %[[DA]], %[[DB]]
// CHECK: graph.yield %[[D]]
// CHECK: graph.recv
// CHECK: graph.exp
// CHECK: graph.send
// CHECK: graph.recv
// CHECK: graph.exp
// CHECK: graph.send
// CHECK: graph.yield %w
builtin.module attributes {weft.options = {mesh = "stage=2"}} {
  func.func @main(%w: !graph.tensor<[4], f32>, %x: !graph.tensor<[4], f32>, %y: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
    %a = graph.mul %w, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %a1 = graph.stage %a {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %ca = graph.exp %a1 : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %ca0 = graph.stage_of %ca, %a : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %da = graph.mul %ca0, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %b = graph.mul %w, %y : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %b1 = graph.stage %b {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %cb = graph.exp %b1 : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %cb0 = graph.stage_of %cb, %b : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %db = graph.mul %cb0, %y : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %d = graph.add %da, %db : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    func.return %d : !graph.tensor<[4], f32>
  }
}

// -----

// CHECK: a mesh (stage = 3) requires stages 0 to 2 or more for the 3 ranks along its axis stage, got 0 to 1
builtin.module attributes {weft.options = {mesh = "stage=3"}} {
  func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
    %y = graph.stage %x {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    func.return %y : !graph.tensor<[4], f32>
  }
}

// -----

// CHECK: stages require no value that is cut along the axis stage, got graph.all_reduce
builtin.module attributes {weft.options = {mesh = "stage=2"}} {
  func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
    %y = graph.stage %x {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %z = graph.all_reduce %y {axes = ["stage"], mesh = #graph.mesh<stage = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
    func.return %z : !graph.tensor<[4], f32>
  }
}

// -----

// CHECK: graph.stage requires a value outside of branches and loops, got one inside
builtin.module attributes {weft.options = {mesh = "stage=2"}} {
  func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
    %s = graph.stage %x {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[4], f32> {
      %z = graph.stage %s {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
      graph.yield %z : !graph.tensor<[4], f32>
    } else {
      graph.yield %s : !graph.tensor<[4], f32>
    }
    func.return %y : !graph.tensor<[4], f32>
  }
}
