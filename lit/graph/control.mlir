// RUN: weft-opt %s --split-input-file | weft-opt --split-input-file | filecheck %s

// A branch reads the values around it; a dim that differs has a name of its own.
// CHECK-LABEL: func.func @branch
// CHECK: %y = graph.if %c {sizes = ["m"]} : (!graph.tensor<[], i1>) -> !graph.tensor<[m], f32> {
// CHECK: } else {
// CHECK: graph.yield %z : !graph.tensor<[k], f32>
func.func @branch(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[n], f32>, %z: !graph.tensor<[k], f32>) {
  %y = graph.if %c {sizes = ["m"]} : (!graph.tensor<[], i1>) -> !graph.tensor<[m], f32> {
    %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %e : !graph.tensor<[n], f32>
  } else {
    graph.yield %z : !graph.tensor<[k], f32>
  }
  func.return
}

// -----

// A case has any number of regions.
// CHECK-LABEL: func.func @case
// CHECK: %y = graph.case %i : (!graph.tensor<[], i64>) -> !graph.tensor<[n], f32> {
// CHECK: } or {
// CHECK: } or {
func.func @case(%i: !graph.tensor<[], i64>, %x: !graph.tensor<[n], f32>) {
  %y = graph.case %i : (!graph.tensor<[], i64>) -> !graph.tensor<[n], f32> {
    graph.yield %x : !graph.tensor<[n], f32>
  } or {
    graph.yield %x : !graph.tensor<[n], f32>
  } or {
    graph.yield %x : !graph.tensor<[n], f32>
  }
  func.return
}

// -----

// Loops yield what they carry, and behind it what is stacked; iterations have a number and a count.
// CHECK-LABEL: func.func @loops
// CHECK: graph.bind_sizes %k {sizes = ["m"]} : !graph.tensor<[], i64>
// CHECK: %s, %all = graph.for %x {count = #graph.shape<[m]>, index = "i"} : (!graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[m, n], f32>) {
// CHECK-NEXT: ^{{.*}}(%p: !graph.tensor<[n], f32>):
// CHECK: %w = graph.while %x {index = "j", count = "rounds"}
// CHECK: graph.condition
// CHECK: } do {
func.func @loops(%k: !graph.tensor<[], i64>, %x: !graph.tensor<[n], f32>) {
  graph.bind_sizes %k {sizes = ["m"]} : !graph.tensor<[], i64>
  %s, %all = graph.for %x {count = #graph.shape<[m]>, index = "i"} : (!graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[m, n], f32>) {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.neg %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q, %p : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
  }
  %w = graph.while %x {index = "j", count = "rounds"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^condition(%r: !graph.tensor<[n], f32>):
    %j = graph.dims {values = #graph.shape<[j]>, scalar} : () -> !graph.tensor<[], i64>
    %l = graph.less %j, %k : (!graph.tensor<[], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[], i1>
    graph.condition %l : !graph.tensor<[], i1>
  } do {
  ^again(%t: !graph.tensor<[n], f32>):
    graph.yield %t : !graph.tensor<[n], f32>
  }
  func.return
}

// -----

// Regions that are there for derivatives: one that is computed again, and one with a rule of its own.
// CHECK-LABEL: func.func @derivatives
// CHECK: %c = graph.checkpoint : () -> !graph.tensor<[n], f32> {
// CHECK: %y, %kept = graph.custom_vjp %c {residuals = #builtin.int<1>} : (!graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) {
// CHECK-NEXT: ^{{.*}}(%a: !graph.tensor<[n], f32>):
// CHECK: } vjp {
// CHECK-NEXT: ^{{.*}}(%saved: !graph.tensor<[n], f32>, %dy: !graph.tensor<[n], f32>):
func.func @derivatives(%x: !graph.tensor<[n], f32>) {
  %c = graph.checkpoint : () -> !graph.tensor<[n], f32> {
    graph.yield %x : !graph.tensor<[n], f32>
  }
  %y, %kept = graph.custom_vjp %c {residuals = #builtin.int<1>} : (!graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) {
  ^body(%a: !graph.tensor<[n], f32>):
    graph.yield %a, %a : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
  } vjp {
  ^derivative(%saved: !graph.tensor<[n], f32>, %dy: !graph.tensor<[n], f32>):
    graph.yield %dy : !graph.tensor<[n], f32>
  }
  func.return
}
