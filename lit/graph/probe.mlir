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
