// RUN: weft-opt %s --split-input-file -p weft-cse-dce | filecheck %s

// A result that nobody reads goes, with what is carried for it alone; a value that every iteration
// hands on is the one in front of the loop.
// CHECK-LABEL: func.func @carried
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.for %x {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
// CHECK-NEXT: ^{{.*}}(%[[P:[a-z_0-9]+]]: !graph.tensor<[2], f32>):
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = graph.mul %[[P]], %s
// CHECK-NEXT: graph.yield %[[Q]] : !graph.tensor<[2], f32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %[[Y]], %s
func.func @carried(%x: !graph.tensor<[2], f32>, %s: !graph.tensor<[2], f32>, %z: !graph.tensor<[n], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  %y, %same, %dead, %all = graph.for %x, %s, %x {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[n, 2], f32>) {
  ^body(%p: !graph.tensor<[2], f32>, %k: !graph.tensor<[2], f32>, %d: !graph.tensor<[2], f32>):
    %q = graph.mul %p, %k : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    %e = graph.exp %d : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %q, %k, %e, %e : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
  }
  func.return %y, %same : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
}

// -----

// What another result, a condition, an effect or a named size hangs on stays.
// CHECK-LABEL: func.func @needed
// CHECK: graph.for %x, %x {
// CHECK: graph.while %x, %x {
// CHECK: graph.for %c {
// CHECK: graph.assert
// CHECK: graph.for %z, %x {
func.func @needed(%x: !graph.tensor<[2], f32>, %c: !graph.tensor<[], i1>, %z: !graph.tensor<[n], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  %y, %d = graph.for %x, %x {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  ^body(%p: !graph.tensor<[2], f32>, %k: !graph.tensor<[2], f32>):
    %q = graph.mul %p, %k : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    %e = graph.exp %k : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %q, %e : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
  }
  %w, %v = graph.while %x, %x {index = "j", count = "rounds"} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  ^condition(%r: !graph.tensor<[2], f32>, %s: !graph.tensor<[2], f32>):
    %t = graph.reduce_sum %s {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2], f32>) -> !graph.tensor<[], f32>
    %l = graph.less %t, %t : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], i1>
    graph.condition %l : !graph.tensor<[], i1>
  } do {
  ^again(%r: !graph.tensor<[2], f32>, %s: !graph.tensor<[2], f32>):
    %u = graph.exp %r : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    %o = graph.exp %s : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %u, %o : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
  }
  %g = graph.for %c {count = #graph.shape<[n]>, index = "h"} : (!graph.tensor<[], i1>) -> !graph.tensor<[], i1> {
  ^body(%h: !graph.tensor<[], i1>):
    graph.assert %h "a condition" : !graph.tensor<[], i1>
    %m = graph.logical_and %h, %h : (!graph.tensor<[], i1>, !graph.tensor<[], i1>) -> !graph.tensor<[], i1>
    graph.yield %m : !graph.tensor<[], i1>
  }
  %b, %a = graph.for %z, %x {count = #graph.shape<[n]>, index = "f", sizes = ["k"]} : (!graph.tensor<[n], f32>, !graph.tensor<[2], f32>) -> (!graph.tensor<[k], f32>, !graph.tensor<[2], f32>) {
  ^body(%h: !graph.tensor<[k], f32>, %m: !graph.tensor<[2], f32>):
    %more = graph.concat %h, %m {axis = 0 : i64} : (!graph.tensor<[k], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[k + 2], f32>
    %i = graph.exp %m : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %more, %i : !graph.tensor<[k + 2], f32>, !graph.tensor<[2], f32>
  }
  func.return %y, %w, %a, %x : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
}

// -----

// What both branches yield from outside is read there, and what nobody reads goes.
// CHECK-LABEL: func.func @branches
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[2], f32> {
// CHECK-NEXT: graph.exp %x
// CHECK-NEXT: graph.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: graph.yield %x : !graph.tensor<[2], f32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %[[Y]], %x
func.func @branches(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  %y, %same, %dead = graph.if %c : (!graph.tensor<[], i1>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
    %e = graph.exp %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    %f = graph.neg %x : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
    graph.yield %e, %x, %f : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
  } else {
    graph.yield %x, %x, %x : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
  }
  func.return %y, %same : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
}
