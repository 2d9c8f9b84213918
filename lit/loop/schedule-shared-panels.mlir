// RUN: weft-opt %s -p 'weft-set-target{cpu=x86-64-v4},weft-fuse,weft-graph-to-loop,weft-schedule' | filecheck %s

// Of an operand that a call brings all sizes of tiles of rows, whose number only the call knows, read a panel one after the other.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 18 parallel {
// CHECK: loop.alloc registers : !loop.buffer<[6, 64]
// CHECK: loop.load %a1[{{.*}}%[[JO]]
// CHECK: loop.alloc registers : !loop.buffer<[3, 64]
// CHECK: loop.load %a1[{{.*}}%[[JO]]
// CHECK-NOT: parallel
func.func @main(%x: !graph.tensor<[n, 896], f32>, %w: !graph.tensor<[896, 1152], f32>) -> !graph.tensor<[n, 1152], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[n, 896], f32>, !graph.tensor<[896, 1152], f32>) -> !graph.tensor<[n, 1152], f32>
  func.return %y : !graph.tensor<[n, 1152], f32>
}
