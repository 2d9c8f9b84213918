// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-graph-to-loop | filecheck %s

// A stored constant is a weight, a value between operators lies in the workspace, the last kernel writes the output itself.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-SAME: attributes {weights = [#builtin.int<1>]}
// CHECK-LABEL: loop.program @main[n]
// CHECK-SAME: inputs 1
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.weight "w" : !loop.buffer<[4, 4], f32>
// CHECK-NEXT: %[[H:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[n, 4], f32>
// CHECK-NEXT: loop.call @matmul_{{[0-9a-f]+}}[n](%x, %[[W]], %[[H]])
// CHECK-NEXT: loop.call @relu_{{[0-9a-f]+}}[n](%[[H]], %y)
func.func @main(%x: !graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 4], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[4, 4]>, element = f32} : () -> !graph.tensor<[4, 4], f32>
  %h = graph.matmul %x, %w : (!graph.tensor<[n, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[n, 4], f32>
  %y = graph.relu %h : (!graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 4], f32>
  func.return %y : !graph.tensor<[n, 4], f32>
}

// -----

// Kernels that differ in the names of their sizes alone are one kernel.
// CHECK: loop.kernel @relu_
// CHECK-NOT: loop.kernel
// CHECK-LABEL: loop.program @main[a, b]
// CHECK: loop.call @[[RELU:relu_[0-9a-f]+]][a](%x, %y)
// CHECK-NEXT: loop.call @[[RELU]][b](%z, %v)
func.func @main(%x: !graph.tensor<[a], f32>, %z: !graph.tensor<[b], f32>) -> (!graph.tensor<[a], f32>, !graph.tensor<[b], f32>) {
  %y = graph.relu %x : (!graph.tensor<[a], f32>) -> !graph.tensor<[a], f32>
  %v = graph.relu %z : (!graph.tensor<[b], f32>) -> !graph.tensor<[b], f32>
  func.return %y, %v : !graph.tensor<[a], f32>, !graph.tensor<[b], f32>
}

// -----

// A reshape is a view, here one of the output that the kernel before it fills.
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %[[V:[a-z_0-9]+]] = loop.view %y : !loop.buffer<[12], f32> to !loop.buffer<[2, 6], f32>
// CHECK-NEXT: loop.call @exp_{{[0-9a-f]+}}(%x, %[[V]])
func.func @main(%x: !graph.tensor<[2, 6], f32>) -> !graph.tensor<[12], f32> {
  %a = graph.exp %x : (!graph.tensor<[2, 6], f32>) -> !graph.tensor<[2, 6], f32>
  %y = graph.reshape %a {shape = #graph.shape<[12]>} : (!graph.tensor<[2, 6], f32>) -> !graph.tensor<[12], f32>
  func.return %y : !graph.tensor<[12], f32>
}

// -----

// An input that is returned is copied.
// CHECK-LABEL: loop.kernel @copy_
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: loop.call @copy_{{[0-9a-f]+}}(%x, %{{.*}})
func.func @main(%x: !graph.tensor<[2, 6], f32>) -> !graph.tensor<[2, 6], f32> {
  func.return %x : !graph.tensor<[2, 6], f32>
}

// -----

// Sizes that have to be equal for the graph to make sense are noted, for every call to check them.
// CHECK: loop.program @main[a, b]
// CHECK-SAME: equal_sizes = [#loop.exprs<[b, a]>]
func.func @main(%x: !graph.tensor<[a], f32>, %y: !graph.tensor<[b], f32>) -> !graph.tensor<[a], f32> {
  %z = graph.add %x, %y : (!graph.tensor<[a], f32>, !graph.tensor<[b], f32>) -> !graph.tensor<[a], f32>
  func.return %z : !graph.tensor<[a], f32>
}

// -----

// A size that no input has could not be known when the program is called.
// CHECK: graph function requires sizes that its inputs decide, got m
func.func @main(%x: !graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32> {
  %y = graph.expand %x {shape = #graph.shape<[m, 2]>} : (!graph.tensor<[2], f32>) -> !graph.tensor<[m, 2], f32>
  func.return %y : !graph.tensor<[m, 2], f32>
}

// -----

// An input whose size is known to be another one is a view of what the caller hands over.
// CHECK-LABEL: loop.program @main[n, m](%x: !loop.buffer<[n], f32>, %z: !loop.buffer<[m], f32>
// CHECK-SAME: equal_sizes = [#loop.exprs<[m, n]>]
// CHECK-NEXT: %[[V:[a-z0-9]+]] = loop.view %z : !loop.buffer<[m], f32> to !loop.buffer<[n], f32>
// CHECK-NEXT: loop.call @add_{{[0-9a-f]+}}[n](%x, %[[V]], %
func.func @main(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> attributes {equal_sizes = [#loop.exprs<[m, n]>], input_types = [!graph.tensor<[n], f32>, !graph.tensor<[m], f32>]} {
  %y = graph.add %x, %z : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// What has to be four times something is that in kernels: nothing is rounded.
// CHECK-LABEL: loop.kernel @slice_{{[0-9a-f]+}}[n0](%a0: !loop.buffer<[4 * n0], f32>, %a1: !loop.buffer<[n0], f32>)
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.call @slice_{{[0-9a-f]+}}[(n floordiv 4)](%x, %
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[((n + 3) floordiv 4)], f32> attributes {equal_sizes = [#loop.exprs<[n, 2 * ((n + 1) floordiv 2)]>, #loop.exprs<[((n + 1) floordiv 2), 2 * ((n + 3) floordiv 4)]>]} {
  %y = graph.slice %x {starts = #graph.shape<[0]>, sizes = #graph.shape<[((n + 3) floordiv 4)]>, steps = array<i64: 4>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[((n + 3) floordiv 4)], f32>
  func.return %y : !graph.tensor<[((n + 3) floordiv 4)], f32>
}

// -----

// A sum of sizes of which one alone is even is no multiple of anything.
// CHECK-LABEL: loop.kernel @relu_{{[0-9a-f]+}}[n0](%a0: !loop.buffer<[n0], f32>
func.func @main(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32> attributes {equal_sizes = [#loop.exprs<[n, m + 2]>]} {
  %y = graph.relu %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}
