// RUN: weft-opt %s --split-input-file -p 'weft-set-options{max_iterations=10},weft-graph-to-loop' | filecheck %s

// A loop that goes on as long as a condition holds is checked in every iteration.
// CHECK-LABEL: loop.program @main
// CHECK: loop.while {
// CHECK: } do {
// CHECK: loop.bind_symbol "i" =
// CHECK-NEXT: %[[I:[0-9]+]] = loop.index i + 1
// CHECK-NEXT: %[[N:[0-9]+]] = arith.index_cast %[[I]] : index to i64
// CHECK-NEXT: %[[MOST:[0-9a-z_]+]] = arith.constant 10 : i64
// CHECK-NEXT: %[[HELD:[0-9]+]] = arith.cmpi sle, %[[N]], %[[MOST]] : i64
// CHECK-NEXT: loop.assert %[[HELD]] "run requires loops of at most 10 iterations, got {}"(%[[N]]) : i1, i64
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y = graph.while %x {index = "i", count = "n"} : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  ^condition(%v: !graph.tensor<[], f32>):
    graph.condition %c : !graph.tensor<[], i1>
  } do {
  ^body(%w: !graph.tensor<[], f32>):
    %z = graph.add %w, %w : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %z : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// A number of iterations is checked in front of its loop, unless it is known to be small.
// CHECK-LABEL: loop.program @main
// CHECK-NOT: loop.assert
// CHECK: loop.for %{{[0-9]+}} = 0 to 10 {
// CHECK: loop.assert %{{[0-9]+}} "run requires loops of at most 10 iterations, got {}"
// CHECK: loop.for %{{[0-9]+}} = 0 to n {
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.for %x {count = #graph.shape<[10]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%v: !graph.tensor<[n], f32>):
    %w = graph.add %v, %v : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %w : !graph.tensor<[n], f32>
  }
  %z = graph.for %y {count = #graph.shape<[n]>, index = "j"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%v: !graph.tensor<[n], f32>):
    %w = graph.add %v, %v : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %w : !graph.tensor<[n], f32>
  }
  func.return %z : !graph.tensor<[n], f32>
}
