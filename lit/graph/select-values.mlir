// RUN: weft-opt %s --split-input-file -p weft-select-values | filecheck %s

// What few numbers both sides compute is computed, and one chosen; inner branches first.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.if
// CHECK: %[[N:.+]] = graph.neg %x
// CHECK: %[[E:.+]] = graph.exp %x
// CHECK: %[[I:.+]] = graph.where %d, %[[E]], %x
// CHECK: graph.where %c, %[[N]], %[[I]]
// CHECK-NOT: graph.if
func.func @main(%c: !graph.tensor<[], i1>, %d: !graph.tensor<[], i1>, %x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[], f32> {
    %n = graph.neg %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %n : !graph.tensor<[], f32>
  } else {
    %i = graph.if %d : (!graph.tensor<[], i1>) -> !graph.tensor<[], f32> {
      %e = graph.exp %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
      graph.yield %e : !graph.tensor<[], f32>
    } else {
      graph.yield %x : !graph.tensor<[], f32>
    }
    graph.yield %i : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// Tensors are computed on the side that is taken, elements read where the condition says that they are.
// CHECK-LABEL: func.func @main
// CHECK: graph.if
// CHECK: graph.if
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[1], f32>) {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[4], f32> {
    %n = graph.neg %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    graph.yield %n : !graph.tensor<[4], f32>
  } else {
    graph.yield %x : !graph.tensor<[4], f32>
  }
  %z = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[1], f32> {
    %a = graph.slice %x {starts = #graph.shape<[0]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[1], f32>
    graph.yield %a : !graph.tensor<[1], f32>
  } else {
    %b = graph.slice %x {starts = #graph.shape<[3]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[1], f32>
    graph.yield %b : !graph.tensor<[1], f32>
  }
  func.return %y, %z : !graph.tensor<[4], f32>, !graph.tensor<[1], f32>
}

// -----

// What is printed is so on the side that is taken.
// CHECK-LABEL: func.func @main
// CHECK: graph.if
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[], f32> {
    graph.print "{}" (%x) : !graph.tensor<[], f32>
    graph.yield %x : !graph.tensor<[], f32>
  } else {
    %n = graph.neg %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %n : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}
