// RUN: weft-opt %s -p weft-fold-constants,weft-rewrite,weft-cse-dce,weft-fuse,weft-graph-to-loop,weft-schedule,weft-hoist-workspace,weft-drop-unused-weights,weft-plan-memory | filecheck %s

// A dense layer is one kernel: sums in registers, bias and activation applied as they leave them, nothing in the workspace.
// CHECK-LABEL: loop.kernel @matmul_add_relu_
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.alloc registers
// CHECK: loop.for %ko = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %a1[{{.*}}] : !loop.buffer<[64, 32], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [2, 64, 16]>
// CHECK: loop.load %a2[
// CHECK: arith.maximumf
// CHECK-NEXT: loop.store %{{.*}}, %a3[
// CHECK-LABEL: loop.program @main
// CHECK-SAME: workspace_bytes = #loop.exprs<[0]>
// CHECK-NOT: loop.alloc
// CHECK: loop.call @matmul_add_relu_{{[0-9a-f]+}}(%x, %{{.*}}, %bias, %y)
// CHECK-NOT: loop.call
func.func @main(%x: !graph.tensor<[12, 64], f32>, %bias: !graph.tensor<[32], f32>) -> !graph.tensor<[12, 32], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[64, 32]>, element = f32} : () -> !graph.tensor<[64, 32], f32>
  %p = graph.matmul %x, %w : (!graph.tensor<[12, 64], f32>, !graph.tensor<[64, 32], f32>) -> !graph.tensor<[12, 32], f32>
  %q = graph.add %p, %bias : (!graph.tensor<[12, 32], f32>, !graph.tensor<[32], f32>) -> !graph.tensor<[12, 32], f32>
  %y = graph.relu %q : (!graph.tensor<[12, 32], f32>) -> !graph.tensor<[12, 32], f32>
  func.return %y : !graph.tensor<[12, 32], f32>
}
