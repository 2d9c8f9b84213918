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


// -----

// Dims of an einsum that one operand alone has side by side are computed as one where ranks add up what it computes; not
// those that are apart, or that two operands share, and nothing for what others read as well.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[C:.*]] = graph.reshape %x {shape = #graph.shape<[2, 12, 5]>}
// CHECK-NEXT: %[[E:.*]] = graph.einsum %s, %[[C]] {equation = "nop,ncp->oc"}
// CHECK-NEXT: %[[R:.*]] = graph.reshape %[[E]] {shape = #graph.shape<[4, 3, 4]>}
// CHECK-NEXT: graph.all_reduce %[[R]]
func.func @gradient(%s: !graph.tensor<[2, 4, 5], f32>, %x: !graph.tensor<[2, 3, 4, 5], f32>) -> !graph.tensor<[4, 3, 4], f32> {
  %e = graph.einsum %s, %x {equation = "nop,nctp->oct"} : (!graph.tensor<[2, 4, 5], f32>, !graph.tensor<[2, 3, 4, 5], f32>) -> !graph.tensor<[4, 3, 4], f32>
  %y = graph.all_reduce %e {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum", replicated} : !graph.tensor<[4, 3, 4], f32> -> !graph.tensor<[4, 3, 4], f32>
  func.return %y : !graph.tensor<[4, 3, 4], f32>
}

// -----

// CHECK-LABEL: func.func @others
// CHECK-NOT: graph.reshape
// CHECK: {equation = "nop,ntcp->oct"}
// CHECK-NOT: graph.reshape
// CHECK: {equation = "noc,noct->oct"}
// CHECK-NOT: graph.reshape
// CHECK: {equation = "no,nct->oct"}
// CHECK-NOT: graph.reshape
func.func @others(%a: !graph.tensor<[2, 4, 5], f32>, %b: !graph.tensor<[2, 4, 3, 5], f32>, %c: !graph.tensor<[2, 4, 3], f32>, %d: !graph.tensor<[2, 4, 3, 4], f32>, %f: !graph.tensor<[2, 4], f32>, %g: !graph.tensor<[2, 3, 4], f32>) -> (!graph.tensor<[4, 3, 4], f32>, !graph.tensor<[4, 3, 4], f32>, !graph.tensor<[4, 3, 4], f32>, !graph.tensor<[4, 3, 4], f32>) {
  %0 = graph.einsum %a, %b {equation = "nop,ntcp->oct"} : (!graph.tensor<[2, 4, 5], f32>, !graph.tensor<[2, 4, 3, 5], f32>) -> !graph.tensor<[4, 3, 4], f32>
  %1 = graph.all_reduce %0 {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum", replicated} : !graph.tensor<[4, 3, 4], f32> -> !graph.tensor<[4, 3, 4], f32>
  %2 = graph.einsum %c, %d {equation = "noc,noct->oct"} : (!graph.tensor<[2, 4, 3], f32>, !graph.tensor<[2, 4, 3, 4], f32>) -> !graph.tensor<[4, 3, 4], f32>
  %3 = graph.all_reduce %2 {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum", replicated} : !graph.tensor<[4, 3, 4], f32> -> !graph.tensor<[4, 3, 4], f32>
  %4 = graph.einsum %f, %g {equation = "no,nct->oct"} : (!graph.tensor<[2, 4], f32>, !graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[4, 3, 4], f32>
  %5 = graph.all_reduce %4 {axes = ["data"], mesh = #graph.mesh<data = 2>, reduction = "sum", replicated} : !graph.tensor<[4, 3, 4], f32> -> !graph.tensor<[4, 3, 4], f32>
  func.return %1, %3, %5, %4 : !graph.tensor<[4, 3, 4], f32>, !graph.tensor<[4, 3, 4], f32>, !graph.tensor<[4, 3, 4], f32>, !graph.tensor<[4, 3, 4], f32>
}

// -----

// The part of a weight is the rank's row of all parts; that of a part the row of more of them.
// CHECK-LABEL: func.func @weight
// CHECK: %[[W:.*]] = graph.constant {key = "w"
// CHECK-NEXT: graph.reshape %[[W]] {shape = #graph.shape<[1, 4, 3, 2]>}
// CHECK-NEXT: graph.transpose {{.*}} {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: %[[R:.*]] = graph.reshape {{.*}} {shape = #graph.shape<[3, 4, 2]>}
// CHECK-NEXT: graph.shard_row %[[R]] {axes = ["model"], {{.*}} -> !graph.tensor<[4, 2], f32>
// CHECK-NOT: graph.transpose
// CHECK: %[[R:.*]] = graph.reshape {{.*}} {shape = #graph.shape<[6, 2, 2]>}
// CHECK-NEXT: %[[P:.*]] = graph.shard_row %[[R]] {axes = ["model", "data"], {{.*}} -> !graph.tensor<[2, 2], f32>
// CHECK-NEXT: func.return %[[P]]
func.func @weight() -> !graph.tensor<[2, 2], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[4, 6]>, element = f32} : () -> !graph.tensor<[4, 6], f32>
  %p = graph.shard_slice %w {axes = ["model"], axis = 1 : i64, mesh = #graph.mesh<data = 2, model = 3>} : !graph.tensor<[4, 6], f32> -> !graph.tensor<[4, 2], f32>
  %q = graph.shard_slice %p {axes = ["data"], axis = 0 : i64, mesh = #graph.mesh<data = 2, model = 3>} : !graph.tensor<[4, 2], f32> -> !graph.tensor<[2, 2], f32>
  func.return %q : !graph.tensor<[2, 2], f32>
}
