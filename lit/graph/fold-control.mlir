// RUN: weft-opt %s --split-input-file -p weft-fold-constants,weft-cse-dce | filecheck %s

// A branch inside of one on the same condition is decided, and so is one on its negation.
// CHECK-LABEL: func.func @nested
// CHECK: graph.if %c
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.exp %x
// CHECK-NEXT: graph.yield %[[A]]
// CHECK-NEXT: } else {
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.neg %x
// CHECK-NEXT: graph.yield %[[B]]
func.func @nested(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
  %not = graph.logical_not %c : (!graph.tensor<[], i1>) -> !graph.tensor<[], i1>
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
    %p = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
      %a = graph.exp %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
      graph.yield %a : !graph.tensor<[2], f32>
    } else {
      graph.yield %x : !graph.tensor<[2], f32>
    }
    graph.yield %p : !graph.tensor<[2], f32>
  } else {
    %q = graph.if %not : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
      %b = graph.neg %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
      graph.yield %b : !graph.tensor<[2], f32>
    } else {
      graph.yield %x : !graph.tensor<[2], f32>
    }
    graph.yield %q : !graph.tensor<[2], f32>
  }
  func.return %y : !graph.tensor<[2], f32>
}

// -----

// A branch on another condition is not, nor one behind a branch on the same.
// CHECK-LABEL: func.func @other_conditions
// CHECK-COUNT-3: graph.if
func.func @other_conditions(%c: !graph.tensor<[], i1>, %d: !graph.tensor<[], i1>, %x: !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
    %p = graph.if %d : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
      %a = graph.exp %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
      graph.yield %a : !graph.tensor<[2], f32>
    } else {
      graph.yield %x : !graph.tensor<[2], f32>
    }
    graph.yield %p : !graph.tensor<[2], f32>
  } else {
    graph.yield %x : !graph.tensor<[2], f32>
  }
  %z = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
    %b = graph.neg %y : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %b : !graph.tensor<[2], f32>
  } else {
    graph.yield %y : !graph.tensor<[2], f32>
  }
  func.return %z : !graph.tensor<[2], f32>
}

// -----

// Branches that do the same are no branch, also where they act; those that differ in a number are.
// CHECK-LABEL: func.func @equal
// CHECK-NEXT: graph.assert %d
// CHECK-NEXT: %[[E:[a-z_0-9]+]] = graph.exp %x
// CHECK-NEXT: graph.if %c
func.func @equal(%c: !graph.tensor<[], i1>, %d: !graph.tensor<[], i1>, %x: !graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
    graph.assert %d "holds" : !graph.tensor<[], i1>
    %e = graph.exp %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %e : !graph.tensor<[2], f32>
  } else {
    graph.assert %d "holds" : !graph.tensor<[], i1>
    %f = graph.exp %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %f : !graph.tensor<[2], f32>
  }
  %z = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
    %s = graph.softmax %x {axis = 0 : i64} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %s : !graph.tensor<[2], f32>
  } else {
    %t = graph.softmax %x {axis = -1 : i64} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %t : !graph.tensor<[2], f32>
  }
  func.return %y, %z : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
}
