// RUN: weft-opt %s -p 'weft-set-target{cpu=x86-64-v4},weft-fuse,weft-graph-to-loop,weft-schedule' | filecheck %s

// Of an operand that no cache holds both sizes of tiles of rows read a panel one after the other, also of one that a call brings.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %[[IJ:[a-z_0-9]+]] = 0 to {{[0-9]+}} parallel {
// CHECK: loop.alloc registers : !loop.buffer<[1, 8, 48]
// CHECK: loop.load %a1[{{.*}}%[[IJ]]
// CHECK: loop.alloc registers : !loop.buffer<[1, 7, 48]
// CHECK: loop.load %a1[{{.*}}%[[IJ]]
// CHECK-NOT: parallel
func.func @main(%x: !graph.tensor<[2, 23, 896], f32>, %w: !graph.tensor<[2, 896, 1200], f32>) -> !graph.tensor<[2, 23, 1200], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[2, 23, 896], f32>, !graph.tensor<[2, 896, 1200], f32>) -> !graph.tensor<[2, 23, 1200], f32>
  func.return %y : !graph.tensor<[2, 23, 1200], f32>
}
