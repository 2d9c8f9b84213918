// RUN: weft-opt %s --split-input-file --verify-diagnostics -p "weft-probe{labels=h,s}" | filecheck %s

// A value becomes a result under its label, one of a loop with an element an iteration.
// CHECK-LABEL: func.func @main
// CHECK-SAME: output_names = ["y0", "h", "s"]
// CHECK: %r, %[[ALL:.*]] = graph.for
// CHECK: graph.yield %q, %p :
// CHECK: func.return %r, %e, %[[ALL]]
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %h = graph.watch %e {label = "h"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %r = graph.for %h {count = #graph.shape<[4]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %s = graph.watch %p {label = "s"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    %q = graph.neg %s : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %r : !graph.tensor<[n], f32>
}

// -----

// CHECK: watch requires values that every call computes, got s inside graph.if
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %h = graph.watch %x {label = "h"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
    %s = graph.watch %x {label = "s"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %s : !graph.tensor<[n], f32>
  } else {
    graph.yield %h : !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// CHECK: watch requires names of values (h), got s
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %h = graph.watch %x {label = "h"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %h : !graph.tensor<[n], f32>
}

// -----

// What an inner loop stacks in each iteration, as often as it goes on, stands behind one another;
// the loop carries it. What else is stacked keeps its readers, also those that were added before.
// CHECK-LABEL: func.func @main
// CHECK: %[[H:.*]] = graph.expand %{{.*}} {shape = #graph.shape<[0, 2]>}
// CHECK: %r, %[[ROWS:.*]], %all, %[[STATES:.*]] = graph.for %h, %[[H]] {{.*}}sizes = ["rows_0"]
// CHECK: ^{{.*}}(%p: {{.*}}, %[[BEFORE:.*]]: !graph.tensor<[rows_0, 2], f32>):
// CHECK: %q, %[[STACK:.*]] = graph.while
// CHECK: %[[LONGER:.*]] = graph.concat %[[BEFORE]], %[[STACK]] {axis = 0
// CHECK: graph.yield %q, %[[LONGER]], %q, %p
// CHECK: func.return %r, %all, %[[STATES]], %[[ROWS]]
func.func @main(%x: !graph.tensor<[2], f32>, %c: !graph.tensor<[], i1>) -> (!graph.tensor<[2], f32>, !graph.tensor<[4, 2], f32>) {
  %h = graph.watch %x {label = "g"} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  %r, %all = graph.for %h {count = #graph.shape<[4]>, index = "i"} : (!graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[4, 2], f32>) {
  ^body(%p: !graph.tensor<[2], f32>):
    %o = graph.watch %p {label = "h"} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    %q = graph.while %o {index = "j", count = "n"} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
    ^condition(%t: !graph.tensor<[2], f32>):
      graph.condition %c : !graph.tensor<[], i1>
    } do {
    ^inner(%t: !graph.tensor<[2], f32>):
      %s = graph.watch %t {label = "s"} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
      graph.yield %s : !graph.tensor<[2], f32>
    }
    graph.yield %q, %q : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
  }
  func.return %r, %all : !graph.tensor<[2], f32>, !graph.tensor<[4, 2], f32>
}

// -----

// CHECK: watch requires values of one shape, but for the first dim of those in loops, got [2, i] f32 of s inside graph.for
func.func @main(%x: !graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, 4], f32> {
  %h = graph.watch %x {label = "h"} : (!graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, 4], f32>
  %r = graph.for %h {count = #graph.shape<[4]>, index = "i"} : (!graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, 4], f32> {
  ^body(%p: !graph.tensor<[2, 4], f32>):
    %part = graph.slice %p {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[2, i]>, steps = array<i64: 1, 1>} : (!graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, i], f32>
    %s = graph.watch %part {label = "s"} : (!graph.tensor<[2, i], f32>) -> !graph.tensor<[2, i], f32>
    graph.yield %p : !graph.tensor<[2, 4], f32>
  }
  func.return %r : !graph.tensor<[2, 4], f32>
}
