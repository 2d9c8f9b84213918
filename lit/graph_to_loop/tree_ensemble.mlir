// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop | filecheck %s

// Rows of a block go down a tree together: as many steps as its depth says, each to where the answer
// leads. Lanes behind the last row repeat it, and are not stored.
// CHECK-LABEL: loop.kernel @tree_ensemble
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.for %[[T:[a-z_0-9]+]] = 0 to 2 {
// CHECK: %[[DEPTH:[0-9]+]] = loop.load %a5[%[[T]]]
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: loop.load %leaf[%[[L]]]
// CHECK: %[[CODE:[0-9]+]] = loop.load %a1[%[[NODE:[0-9]+]]]
// CHECK: %[[X:[0-9]+]] = loop.load %a0[min(99, %[[L]] + 64 * %[[I]]), %{{.*}}]
// CHECK-NEXT: %[[SPLIT:[0-9]+]] = loop.load %a2[%[[NODE]]]
// CHECK-NEXT: %[[YES:[0-9]+]] = arith.cmpf ole, %[[X]], %[[SPLIT]]
// CHECK: %[[NO:[0-9]+]] = arith.shrsi %[[CODE]]
// CHECK-NEXT: %[[NEXT:[0-9]+]] = arith.select %[[YES]], %{{.*}}, %[[NO]]
// CHECK-NEXT: loop.store %[[NEXT]], %leaf[%[[L]]]
// CHECK: loop.load %a3[
// CHECK: arith.addf
// CHECK: loop.for %[[OUT:[a-z_0-9]+]] = 0 to min(-64 * %[[I]] + 100, 64) {
// CHECK: loop.store %{{.*}}, %a8[64 * %[[I]] + %[[OUT]], 0]
func.func @main(%x: !graph.tensor<[100, 3], f32>, %c: !graph.tensor<[7], i32>, %t: !graph.tensor<[7], f32>, %l: !graph.tensor<[7], i32>, %r: !graph.tensor<[2], i32>, %d: !graph.tensor<[2], i32>, %w: !graph.tensor<[4, 1], f32>, %k: !graph.tensor<[2], i32>) -> !graph.tensor<[100, 1], f32> {
  %y = graph.tree_ensemble %x, %c, %t, %l, %r, %d, %w, %k {count = 1 : i64, combiner = "add", missing = false, bits = 3 : i64} : (!graph.tensor<[100, 3], f32>, !graph.tensor<[7], i32>, !graph.tensor<[7], f32>, !graph.tensor<[7], i32>, !graph.tensor<[2], i32>, !graph.tensor<[2], i32>, !graph.tensor<[4, 1], f32>, !graph.tensor<[2], i32>) -> !graph.tensor<[100, 1], f32>
  func.return %y : !graph.tensor<[100, 1], f32>
}

// -----

// Of a single row the trees go down together, as far as the deepest; what they have is added up in
// their order. NaN is a yes where a code says so, and a tree has its numbers for targets of its own.
// CHECK-LABEL: loop.kernel @tree_ensemble
// CHECK: loop.for %[[L:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.load %a4[min(1, %[[L]])]
// CHECK: reduction(max)
// CHECK: loop.load %a0[0, %{{.*}}]
// CHECK: %[[NAN:[0-9]+]] = arith.cmpf uno
// CHECK: %[[MISSING:[0-9]+]] = arith.andi %[[NAN]]
// CHECK: arith.ori %{{.*}}, %[[MISSING]]
// CHECK: loop.load %a7[
// CHECK: %[[TOTAL:[0-9]+]] = loop.load %a8[0, %[[TARGET:[0-9]+]]]
// CHECK: %[[MORE:[0-9]+]] = arith.addf %[[TOTAL]]
// CHECK: loop.store %[[MORE]], %a8[0, %[[TARGET]]]
func.func @main(%x: !graph.tensor<[1, 3], f32>, %c: !graph.tensor<[7], i32>, %t: !graph.tensor<[7], f32>, %l: !graph.tensor<[7], i32>, %r: !graph.tensor<[2], i32>, %d: !graph.tensor<[2], i32>, %w: !graph.tensor<[4, 1], f32>, %k: !graph.tensor<[2], i32>) -> !graph.tensor<[1, 5], f32> {
  %y = graph.tree_ensemble %x, %c, %t, %l, %r, %d, %w, %k {count = 5 : i64, combiner = "add", missing = true, bits = 3 : i64} : (!graph.tensor<[1, 3], f32>, !graph.tensor<[7], i32>, !graph.tensor<[7], f32>, !graph.tensor<[7], i32>, !graph.tensor<[2], i32>, !graph.tensor<[2], i32>, !graph.tensor<[4, 1], f32>, !graph.tensor<[2], i32>) -> !graph.tensor<[1, 5], f32>
  func.return %y : !graph.tensor<[1, 5], f32>
}

// -----

// With masks, each question is asked of all rows of a block, along its column, and takes leaves out
// of those that are left; the first of these has a row's numbers.
// CHECK-LABEL: loop.kernel @tree_ensemble
// CHECK: loop.store %{{.*}}, %columns[%{{.*}}, %{{.*}}]
// CHECK: %[[COUNT:[0-9]+]] = loop.load %a10[%[[T:[a-z_0-9]+]], 1]
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK: loop.load %a9[%[[Q:[0-9]+]]]
// CHECK: %[[MASK:[0-9]+]] = loop.load %a8[%[[Q]]]
// CHECK: loop.for %[[L:[a-z_0-9]+]] = 0 to 64 {
// CHECK: loop.load %columns[%{{.*}}, %[[L]]]
// CHECK: %[[STAYS:[0-9]+]] = arith.select %{{.*}}, %{{.*}}, %[[MASK]]
// CHECK: arith.andi %{{.*}}, %[[STAYS]]
// CHECK: math.cttz
// CHECK: loop.load %a6[
func.func @main(%x: !graph.tensor<[100, 3], f32>, %c: !graph.tensor<[7], i32>, %t: !graph.tensor<[7], f32>, %l: !graph.tensor<[7], i32>, %r: !graph.tensor<[2], i32>, %d: !graph.tensor<[2], i32>, %w: !graph.tensor<[4, 1], f32>, %k: !graph.tensor<[2], i32>, %m: !graph.tensor<[3], i32>, %p: !graph.tensor<[3], i32>, %s: !graph.tensor<[2, 3], i32>) -> !graph.tensor<[100, 1], f32> {
  %y = graph.tree_ensemble %x, %c, %t, %l, %r, %d, %w, %k, %m, %p, %s {count = 1 : i64, combiner = "add", missing = false, bits = 3 : i64} : (!graph.tensor<[100, 3], f32>, !graph.tensor<[7], i32>, !graph.tensor<[7], f32>, !graph.tensor<[7], i32>, !graph.tensor<[2], i32>, !graph.tensor<[2], i32>, !graph.tensor<[4, 1], f32>, !graph.tensor<[2], i32>, !graph.tensor<[3], i32>, !graph.tensor<[3], i32>, !graph.tensor<[2, 3], i32>) -> !graph.tensor<[100, 1], f32>
  func.return %y : !graph.tensor<[100, 1], f32>
}
