// RUN: weft-opt %s --split-input-file | weft-opt --split-input-file | filecheck %s
// RUN: weft-opt %s --split-input-file --print-op-generic | weft-opt --split-input-file | filecheck %s

// Operands, then attributes, then types; dims are expressions over named sizes.
// CHECK-LABEL: func.func @elementwise
// CHECK: %y = graph.add %x, %z : (!graph.tensor<[n, 2 * m], f32>, !graph.tensor<[1, 1], f32>) -> !graph.tensor<[n, 2 * m], f32>
// CHECK: graph.elu %y {alpha = 5.000000e-01 : f64}
func.func @elementwise(%x: !graph.tensor<[n, 2 * m], f32>, %z: !graph.tensor<[1, 1], f32>) {
  %y = graph.add %x, %z : (!graph.tensor<[n, 2 * m], f32>, !graph.tensor<[1, 1], f32>) -> !graph.tensor<[n, 2 * m], f32>
  %e = graph.elu %y {alpha = 0.5 : f64} : (!graph.tensor<[n, 2 * m], f32>) -> !graph.tensor<[n, 2 * m], f32>
  func.return
}

// -----

// An optional operand that is absent is `none`; at the end it is left out.
// CHECK-LABEL: func.func @optional
// CHECK: graph.clip %x, none, %high : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
// CHECK: graph.clip %x, %high : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
// CHECK: graph.clip %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
func.func @optional(%x: !graph.tensor<[4], f32>, %high: !graph.tensor<[], f32>) {
  %a = graph.clip %x, none, %high : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %b = graph.clip %x, %high : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %c = graph.clip %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// Several operands, several results.
// CHECK-LABEL: func.func @parts
// CHECK: %a, %b = graph.split %x {axis = 0 : i64, sizes = #graph.shape<[2, n]>}
// CHECK: graph.concat %a, %b {axis = 0 : i64}
func.func @parts(%x: !graph.tensor<[n + 2], i64>) {
  %a, %b = graph.split %x {axis = 0 : i64, sizes = #graph.shape<[2, n]>} : (!graph.tensor<[n + 2], i64>) -> (!graph.tensor<[2], i64>, !graph.tensor<[n], i64>)
  %y = graph.concat %a, %b {axis = 0 : i64} : (!graph.tensor<[2], i64>, !graph.tensor<[n], i64>) -> !graph.tensor<[n + 2], i64>
  func.return
}

// -----

// Unknown rank, and constants with every kind of number.
// CHECK-LABEL: func.func @unknown
// CHECK: graph.exp %x : (!graph.tensor<*, bf16>) -> !graph.tensor<*, bf16>
// CHECK: literal = #graph.literal<[1.5, -inf, nan]>
// CHECK: literal = #graph.literal<[true]>
func.func @unknown(%x: !graph.tensor<*, bf16>) {
  %y = graph.exp %x : (!graph.tensor<*, bf16>) -> !graph.tensor<*, bf16>
  %c = graph.constant {literal = #graph.literal<[1.5, -inf, nan]>, shape = #graph.shape<[3]>, element = f32} : () -> !graph.tensor<[3], f32>
  %t = graph.constant {literal = #graph.literal<[true]>, shape = #graph.shape<[2, 2]>, element = i1} : () -> !graph.tensor<[2, 2], i1>
  func.return
}

// -----

// Stages of a pipeline, and messages between them.
// CHECK-LABEL: func.func @stages
// CHECK: %y = graph.stage %x {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
// CHECK: %z = graph.stage_of %y, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
// CHECK: graph.send %z {axes = ["stage"], mesh = #graph.mesh<stage = 2>, number = 0 : i64, peer = 1 : i64} : !graph.tensor<[4], f32>
// CHECK: %r = graph.recv {axes = ["stage"], mesh = #graph.mesh<stage = 2>, number = 1 : i64, peer = 0 : i64} : !graph.tensor<[4], f32>
func.func @stages(%x: !graph.tensor<[4], f32>) {
  %y = graph.stage %x {index = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %z = graph.stage_of %y, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  graph.send %z {axes = ["stage"], mesh = #graph.mesh<stage = 2>, number = 0 : i64, peer = 1 : i64} : !graph.tensor<[4], f32>
  %r = graph.recv {axes = ["stage"], mesh = #graph.mesh<stage = 2>, number = 1 : i64, peer = 0 : i64} : !graph.tensor<[4], f32>
  func.return
}

// -----

// A value that waits for others.
// CHECK-LABEL: func.func @order
// CHECK: %y = graph.after %x, %n, %x : (!graph.tensor<[4], f32>, !graph.tensor<[], i64>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
func.func @order(%x: !graph.tensor<[4], f32>, %n: !graph.tensor<[], i64>) {
  %y = graph.after %x, %n, %x : (!graph.tensor<[4], f32>, !graph.tensor<[], i64>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return
}
