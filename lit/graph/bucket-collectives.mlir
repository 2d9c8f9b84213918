// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-bucket-collectives | filecheck %s

// Two sums are one of both; one of a greatest value, one over other ranks and a large one stay.
// CHECK-LABEL: func.func @main
// CHECK: graph.all_reduce %x {axes = ["data"], {{.*}}reduction = "max"}
// CHECK: graph.all_reduce %x {axes = ["model"]
// CHECK: graph.all_reduce %w {axes = ["data"], {{.*}}reduction = "sum"}
// CHECK: %[[ALL:.*]] = graph.concat
// CHECK: %[[SUM:.*]] = graph.all_reduce %[[ALL]] {axes = ["data"], {{.*}} : !graph.tensor<[10], f32>
// CHECK: graph.slice %[[SUM]] {starts = #graph.shape<[0]>, sizes = #graph.shape<[4]>
// CHECK: graph.slice %[[SUM]] {starts = #graph.shape<[4]>, sizes = #graph.shape<[6]>
func.func @main(%x: !graph.tensor<[4], f32>, %z: !graph.tensor<[2, 3], f32>, %w: !graph.tensor<[65536], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[65536], f32>) {
  %a = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %m = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "max"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %o = graph.all_reduce %x {axes = ["model"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %l = graph.all_reduce %w {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum"} : !graph.tensor<[65536], f32> -> !graph.tensor<[65536], f32>
  %b = graph.all_reduce %z {axes = ["data"], mesh = #graph.mesh<data = 2, model = 2>, reduction = "sum"} : !graph.tensor<[2, 3], f32> -> !graph.tensor<[2, 3], f32>
  func.return %a, %b, %m, %o, %l : !graph.tensor<[4], f32>, !graph.tensor<[2, 3], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[65536], f32>
}

// -----

// A sum that is read in front of the next one does not wait for it.
// CHECK-LABEL: func.func @read_between
// CHECK: graph.all_reduce %x
// CHECK: graph.exp
// CHECK: graph.all_reduce
// CHECK-NOT: graph.concat
func.func @read_between(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %a = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %e = graph.exp %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.all_reduce %e {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  func.return %a, %b : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// Small tensors that follow from a sum, and no other sum does, move behind the sum of both.
// CHECK-LABEL: func.func @statistics
// CHECK: %[[SUM:.*]] = graph.all_reduce {{.*}} : !graph.tensor<[8], f32>
// CHECK: %[[A:.*]] = graph.reshape
// CHECK: graph.mul %m, %[[A]]
// CHECK-NEXT: graph.exp
// CHECK-NOT: graph.all_reduce
func.func @statistics(%x: !graph.tensor<[4], f32>, %m: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %a = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %n = graph.mul %m, %a : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %e = graph.exp %n : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.all_reduce %m {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  func.return %e, %b : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// A large one stays where it is.
// CHECK-LABEL: func.func @large
// CHECK: graph.all_reduce %x
// CHECK: graph.expand
// CHECK: graph.all_reduce %m
func.func @large(%x: !graph.tensor<[4], f32>, %m: !graph.tensor<[4], f32>) -> (!graph.tensor<[65536, 4], f32>, !graph.tensor<[4], f32>) {
  %a = graph.all_reduce %x {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  %e = graph.expand %a {shape = #graph.shape<[65536, 4]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[65536, 4], f32>
  %b = graph.all_reduce %m {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum"} : !graph.tensor<[4], f32> -> !graph.tensor<[4], f32>
  func.return %e, %b : !graph.tensor<[65536, 4], f32>, !graph.tensor<[4], f32>
}
