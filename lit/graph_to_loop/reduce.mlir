// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Totals start from zero, then the reduced axis runs innermost and is marked.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.store %{{.*}}, %a1[%[[I]]]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to n0 reduction(add) {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[I]], %[[R]]]
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = loop.load %a1[%[[I]]]
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = arith.addf %[[T]], %[[X]] : f32
// CHECK-NEXT: loop.store %[[S]], %a1[%[[I]]]
func.func @main(%x: !graph.tensor<[2, n], f32>) -> !graph.tensor<[2], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[2, n], f32>) -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}

// -----

// A mean is finished in a nest of its own, here by a count that is known when it runs.
// CHECK-LABEL: loop.kernel @reduce_mean_
// CHECK: %total = loop.alloc workspace
// CHECK: reduction(add)
// CHECK: loop.for %{{.*}} = 0 to 3 {
// CHECK: %[[T:[a-z_0-9]+]] = loop.load %total
// CHECK: %[[N:[a-z_0-9]+]] = loop.index n0
// CHECK: %[[C:[a-z_0-9]+]] = arith.sitofp
// CHECK: arith.divf %[[T]], %[[C]] : f32
func.func @main(%x: !graph.tensor<[n, 3], f32>) -> !graph.tensor<[1, 3], f32> {
  %y = graph.reduce_mean %x {axes = array<i64: -2>, keepdims = true} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[1, 3], f32>
  func.return %y : !graph.tensor<[1, 3], f32>
}

// -----

// Totals of f16 are f32 and are rounded once.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: %total = loop.alloc workspace : !loop.buffer<[], f32>
// CHECK: reduction(add)
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @main(%x: !graph.tensor<[8], f16>) -> !graph.tensor<[], f16> {
  %y = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[8], f16>) -> !graph.tensor<[], f16>
  func.return %y : !graph.tensor<[], f16>
}

// -----

// The greatest element is found before anything is exponentiated.
// CHECK-LABEL: loop.kernel @reduce_log_sum_exp_
// CHECK: reduction(max)
// CHECK: arith.maximumf
// CHECK: reduction(add)
// CHECK: arith.subf
// CHECK-NEXT: math.exp
// CHECK: math.log
func.func @main(%x: !graph.tensor<[2, 8], f32>) -> !graph.tensor<[2], f32> {
  %y = graph.reduce_log_sum_exp %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[2, 8], f32>) -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}

// -----

// A search is two reductions in any order: the extremum, and the least index at which it stands.
// CHECK-LABEL: loop.kernel @arg_max_
// CHECK: loop.for %{{.*}} = 0 to 80 reduction(max) {
// CHECK: arith.maximumf
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 80 reduction(min) {
// CHECK: arith.cmpf oeq
// CHECK: loop.index %[[K]]
// CHECK: arith.minsi
// CHECK: arith.extsi
func.func @main(%x: !graph.tensor<[2, 80], f32>) -> !graph.tensor<[2], i64> {
  %y = graph.arg_max %x {axis = -1 : i64, keepdims = false, select_last_index = false} : (!graph.tensor<[2, 80], f32>) -> !graph.tensor<[2], i64>
  func.return %y : !graph.tensor<[2], i64>
}

// -----

// Of short lines several are searched at once, one element after the other.
// CHECK-LABEL: loop.kernel @arg_min_
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 200 {
// CHECK-COUNT-3: loop.load
// CHECK: arith.cmpf olt
// CHECK: arith.cmpf olt
// CHECK: loop.store %{{.*}}, %a1[%[[I]]]
func.func @main(%x: !graph.tensor<[200, 3], f32>) -> !graph.tensor<[200], i64> {
  %y = graph.arg_min %x {axis = -1 : i64, keepdims = false, select_last_index = false} : (!graph.tensor<[200, 3], f32>) -> !graph.tensor<[200], i64>
  func.return %y : !graph.tensor<[200], i64>
}

// -----

// A few positions are kept in order: an element enters where it precedes the last that is kept.
// CHECK-LABEL: loop.kernel @argsort_
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to n0 {
// CHECK: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[K]]]
// CHECK: loop.load %best[1]
// CHECK: loop.if
// CHECK: loop.for %[[S:[a-z_0-9]+]] = 0 to %{{.*}} {
// CHECK: loop.store %{{.*}}, %best
// CHECK: loop.store %[[X]], %best
func.func @main(%x: !graph.tensor<[n], i32>) -> !graph.tensor<[2], i64> {
  %y = graph.argsort %x {axis = 0 : i64, descending = true, count = #graph.shape<[2]>} : (!graph.tensor<[n], i32>) -> !graph.tensor<[2], i64>
  func.return %y : !graph.tensor<[2], i64>
}

// -----

// A walk in order counts what is true, and notes where it is as long as there is room.
// CHECK-LABEL: loop.kernel @nonzero_
// CHECK: loop.for %i = 0 to n0 {
// CHECK-NEXT: loop.load %found[]
// CHECK: loop.if
// CHECK: loop.store %{{.*}}, %a1[0, %{{.*}}]
// CHECK: loop.store %{{.*}}, %found[]
func.func @main(%x: !graph.tensor<[n], i1>) -> !graph.tensor<[1, 4], i64> {
  %y = graph.nonzero %x {count = #graph.shape<[4]>} : (!graph.tensor<[n], i1>) -> !graph.tensor<[1, 4], i64>
  func.return %y : !graph.tensor<[1, 4], i64>
}
