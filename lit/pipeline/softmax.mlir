// RUN: weft-opt %s -p weft-fold-constants,weft-cse-dce,weft-fuse,weft-graph-to-loop,weft-schedule,weft-hoist-workspace,weft-plan-memory | filecheck %s

// Attention scores with any number of rows: scale, mask and softmax are one pass over each row, rows in parallel.
// CHECK-LABEL: loop.kernel @mul_add_softmax_
// CHECK: parallel
// CHECK-NOT: parallel
// CHECK: reduction(max)
// CHECK: reduction(add)
// CHECK: arith.divf
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.call
// CHECK-NOT: loop.call
func.func @main(%x: !graph.tensor<[n, 64], f32>, %mask: !graph.tensor<[64], f32>) -> !graph.tensor<[n, 64], f32> {
  %scale = graph.constant {literal = #graph.literal<[0.125]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.mul %x, %scale : (!graph.tensor<[n, 64], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n, 64], f32>
  %b = graph.add %a, %mask : (!graph.tensor<[n, 64], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[n, 64], f32>
  %y = graph.softmax %b {axis = 1 : i64} : (!graph.tensor<[n, 64], f32>) -> !graph.tensor<[n, 64], f32>
  func.return %y : !graph.tensor<[n, 64], f32>
}
