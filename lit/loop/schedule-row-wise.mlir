// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Nests over the same rows become one nest; a number that belongs to a row stays in a register.
// CHECK-LABEL: loop.kernel @reduce_sum_sub_{{[0-9a-f]+}}[n0]
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 parallel {
// CHECK: %[[SUM:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1, 1], f32>
// CHECK: %[[PARTS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[32], f32>
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 32 unroll vector(8) {
// CHECK: loop.store %{{.*}}, %[[PARTS]][%[[KI]]]
// CHECK: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
// CHECK: loop.for %{{.*}} = 0 to 2 unroll vector(2) {
// CHECK: loop.for %{{.*}} = 0 to 1 unroll {
// CHECK: loop.store %{{.*}}, %[[SUM]][0, 0]
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 64 vector(8) {
// CHECK: loop.load %[[SUM]][0, 0]
// CHECK: loop.store %{{.*}}, %a1[%[[I]], %[[J]]]
// CHECK-NOT: loop.for
func.func @main(%x: !graph.tensor<[n, 64], f32>) -> !graph.tensor<[n, 64], f32> {
  %y = graph.fused(%a = %x) : (!graph.tensor<[n, 64], f32>) -> !graph.tensor<[n, 64], f32> {
    %s = graph.reduce_sum %a {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[n, 64], f32>) -> !graph.tensor<[n, 1], f32>
    %d = graph.sub %a, %s : (!graph.tensor<[n, 64], f32>, !graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 64], f32>
    graph.yield %d : !graph.tensor<[n, 64], f32>
  }
  func.return %y : !graph.tensor<[n, 64], f32>
}

// -----

// The second nest reads a row that the first has yet to make: they stay apart.
// CHECK-LABEL: loop.kernel @pad_slice_
// CHECK: loop.load %a0[(%{{[a-z_0-9]+}} floordiv 8),
// CHECK-NEXT: loop.store %{{.*}}, %a1[
// CHECK-NEXT: }
// CHECK-NEXT: loop.for
// CHECK-NEXT: loop.load %a1[{{.*}} + 1,
func.func @main(%x: !graph.tensor<[7, 8], f32>) -> (!graph.tensor<[8, 8], f32>, !graph.tensor<[7, 8], f32>) {
  %t, %y = graph.fused(%a = %x) : (!graph.tensor<[7, 8], f32>) -> (!graph.tensor<[8, 8], f32>, !graph.tensor<[7, 8], f32>) {
    %b = graph.pad %a {pads = #graph.shape<[0, 0, 1, 0]>, mode = "constant"} : (!graph.tensor<[7, 8], f32>) -> !graph.tensor<[8, 8], f32>
    %c = graph.slice %b {starts = #graph.shape<[1, 0]>, sizes = #graph.shape<[7, 8]>, steps = array<i64: 1, 1>} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[7, 8], f32>
    graph.yield %b, %c : !graph.tensor<[8, 8], f32>, !graph.tensor<[7, 8], f32>
  }
  func.return %t, %y : !graph.tensor<[8, 8], f32>, !graph.tensor<[7, 8], f32>
}

// -----

// A single sum of very many elements: sums of blocks in parallel, as many as the extent says, and their sum. A block is
// read at four places in turn, which the machine follows, as vectors are shorter than a line.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: %[[PARTS:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[8], f32>
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to 8 parallel {
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 1024 reduction(add) {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[64 * %[[B]] + 16 * (%[[L]] floordiv 8) + (%[[K]] floordiv 64),
// CHECK-NOT: loop.prefetch
// CHECK: loop.store %{{.*}}, %[[PARTS]][%[[B]]]
// CHECK: loop.store %{{.*}}, %a1[]
func.func @main(%x: !graph.tensor<[512, 512], f32>) -> !graph.tensor<[], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = false} : (!graph.tensor<[512, 512], f32>) -> !graph.tensor<[], f32>
  func.return %y : !graph.tensor<[], f32>
}

// -----

// The last pass over a row has the next row brought near.
// CHECK-LABEL: loop.kernel @reduce_sum_sub_
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NOT: loop.prefetch
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 256 vector(32) {
// CHECK-NEXT: loop.prefetch %a0[%[[I]] + 1, %[[J]]]
// CHECK-NEXT: loop.load %a0[%[[I]], %[[J]]]
// CHECK-NOT: loop.prefetch
func.func @main(%x: !graph.tensor<[64, 256], f32>) -> !graph.tensor<[64, 256], f32> {
  %y = graph.fused(%a = %x) : (!graph.tensor<[64, 256], f32>) -> !graph.tensor<[64, 256], f32> {
    %s = graph.reduce_sum %a {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[64, 256], f32>) -> !graph.tensor<[64, 1], f32>
    %d = graph.sub %a, %s : (!graph.tensor<[64, 256], f32>, !graph.tensor<[64, 1], f32>) -> !graph.tensor<[64, 256], f32>
    graph.yield %d : !graph.tensor<[64, 256], f32>
  }
  func.return %y : !graph.tensor<[64, 256], f32>
}

// -----

// What two sums over a row share is computed once, in one loop with both; nothing of it goes through memory.
// CHECK-LABEL: loop.kernel @sqrt_reduce_sum_mul_reduce_sum_
// CHECK: loop.for %{{.*}} = 0 to 4 parallel {
// CHECK: loop.for %{{.*}} = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: math.sqrt
// CHECK-NOT: math.sqrt
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK-NOT: %t
func.func @main(%x: !graph.tensor<[4, 64], f32>, %y: !graph.tensor<[4, 64], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %t = graph.sqrt %x : (!graph.tensor<[4, 64], f32>) -> !graph.tensor<[4, 64], f32>
  %a = graph.reduce_sum %t {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 64], f32>) -> !graph.tensor<[4], f32>
  %p = graph.mul %t, %y : (!graph.tensor<[4, 64], f32>, !graph.tensor<[4, 64], f32>) -> !graph.tensor<[4, 64], f32>
  %b = graph.reduce_sum %p {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 64], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %b : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// What is copied from columns to rows beside other loops over a row of blocks is turned in registers.
// CHECK-LABEL: loop.kernel @transpose_slice_add_
// CHECK:      loop.for %[[B:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK:      loop.for %[[IO:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: %[[V:[a-z_0-9]+]] = loop.load %a0[%[[B]], 8 * %{{.*}} + %[[J]], 8 * %[[IO]] + %[[I]]]
// CHECK-NEXT: loop.store %[[V]], %a1[%[[B]], 8 * %[[IO]] + %[[I]], 8 * %{{.*}} + %[[J]]]
func.func @main(%x: !graph.tensor<[4, 16, 24], f32>) -> (!graph.tensor<[4, 24, 16], f32>, !graph.tensor<[4, 24, 16], f32>) {
  %t, %y = graph.fused(%a = %x) : (!graph.tensor<[4, 16, 24], f32>) -> (!graph.tensor<[4, 24, 16], f32>, !graph.tensor<[4, 24, 16], f32>) {
    %b = graph.transpose %a {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[4, 16, 24], f32>) -> !graph.tensor<[4, 24, 16], f32>
    %r = graph.slice %b {starts = #graph.shape<[0, 23, 0]>, sizes = #graph.shape<[4, 24, 16]>, steps = array<i64: 1, -1, 1>} : (!graph.tensor<[4, 24, 16], f32>) -> !graph.tensor<[4, 24, 16], f32>
    %c = graph.add %r, %b : (!graph.tensor<[4, 24, 16], f32>, !graph.tensor<[4, 24, 16], f32>) -> !graph.tensor<[4, 24, 16], f32>
    graph.yield %b, %c : !graph.tensor<[4, 24, 16], f32>, !graph.tensor<[4, 24, 16], f32>
  }
  func.return %t, %y : !graph.tensor<[4, 24, 16], f32>, !graph.tensor<[4, 24, 16], f32>
}

// -----

// Of a batch that a call counts there may be one: its rows run in parallel with those of others. An address is the merged index again.
// CHECK-LABEL: loop.kernel @reduce_sum_{{[0-9a-f]+}}[n0, n1]
// CHECK-NEXT: loop.for %[[BI:[a-z_0-9]+]] = 0 to n0 * n1 parallel {
// CHECK-NOT: parallel
// CHECK: loop.load %a0[(%[[BI]] floordiv n1), (%[[BI]] mod n1),
func.func @main(%x: !graph.tensor<[b, n, 64], f32>) -> !graph.tensor<[b, n], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 2>, keepdims = false} : (!graph.tensor<[b, n, 64], f32>) -> !graph.tensor<[b, n], f32>
  func.return %y : !graph.tensor<[b, n], f32>
}

// -----

// Three vectors of a short row become two, then one, which is folded.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %{{.*}} = 0 to 24 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 1 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 24 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 1 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
func.func @main(%x: !graph.tensor<[64, 25], f32>) -> !graph.tensor<[64], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[64, 25], f32>) -> !graph.tensor<[64], f32>
  func.return %y : !graph.tensor<[64], f32>
}

// -----

// A row of less than two vectors is one, which the other elements join, or a narrower one.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %{{.*}} = 0 to 1 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
func.func @main(%x: !graph.tensor<[64, 12], f32>) -> !graph.tensor<[64], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[64, 12], f32>) -> !graph.tensor<[64], f32>
  func.return %y : !graph.tensor<[64], f32>
}

// -----

// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %{{.*}} = 0 to 4 unroll vector(4) {
// CHECK: loop.for %{{.*}} = 0 to 2 unroll vector(4) {
// CHECK: loop.for %{{.*}} = 0 to 2 unroll vector(2) {
func.func @main(%x: !graph.tensor<[64, 6], f32>) -> !graph.tensor<[64], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[64, 6], f32>) -> !graph.tensor<[64], f32>
  func.return %y : !graph.tensor<[64], f32>
}

// -----

// Polynomials of a row are computed for 4 vectors side by side, or for fewer where those would be empty in good part; of what
// takes few steps only long passes are.
// CHECK-LABEL: loop.kernel @exp_log_neg_neg_
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 120 vector(32) {
// CHECK: math.exp
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 40 vector(8) {
// CHECK: math.log
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 96 vector(8) {
// CHECK: arith.negf
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 256 vector(32) {
// CHECK: arith.negf
func.func @main(%x: !graph.tensor<[4, 120], f32>, %a: !graph.tensor<[4, 40], f32>, %c: !graph.tensor<[4, 96], f32>, %d: !graph.tensor<[4, 256], f32>) -> (!graph.tensor<[4, 120], f32>, !graph.tensor<[4, 40], f32>, !graph.tensor<[4, 96], f32>, !graph.tensor<[4, 256], f32>) {
  %y, %b, %e, %f = graph.fused(%g = %x, %h = %a, %i = %c, %j = %d) : (!graph.tensor<[4, 120], f32>, !graph.tensor<[4, 40], f32>, !graph.tensor<[4, 96], f32>, !graph.tensor<[4, 256], f32>) -> (!graph.tensor<[4, 120], f32>, !graph.tensor<[4, 40], f32>, !graph.tensor<[4, 96], f32>, !graph.tensor<[4, 256], f32>) {
    %k = graph.exp %g : (!graph.tensor<[4, 120], f32>) -> !graph.tensor<[4, 120], f32>
    %l = graph.log %h : (!graph.tensor<[4, 40], f32>) -> !graph.tensor<[4, 40], f32>
    %m = graph.neg %i : (!graph.tensor<[4, 96], f32>) -> !graph.tensor<[4, 96], f32>
    %o = graph.neg %j : (!graph.tensor<[4, 256], f32>) -> !graph.tensor<[4, 256], f32>
    graph.yield %k, %l, %m, %o : !graph.tensor<[4, 120], f32>, !graph.tensor<[4, 40], f32>, !graph.tensor<[4, 96], f32>, !graph.tensor<[4, 256], f32>
  }
  func.return %y, %b, %e, %f : !graph.tensor<[4, 120], f32>, !graph.tensor<[4, 40], f32>, !graph.tensor<[4, 96], f32>, !graph.tensor<[4, 256], f32>
}

// -----

// Loops over all dims become one, though only the call knows their sizes.
// CHECK-LABEL: loop.kernel @reduce_max_{{[0-9a-f]+}}[n0, n1, n2]
// CHECK: loop.for %{{.*}} = 0 to ((n0 * n1 * n2) floordiv 32768) parallel {
// CHECK: loop.for %{{.*}} unroll vector(8) {
func.func @main(%x: !graph.tensor<[n, m, k], f32>) -> !graph.tensor<[], f32> {
  %y = graph.reduce_max %x {axes = array<i64: 0, 1, 2>, keepdims = false} : (!graph.tensor<[n, m, k], f32>) -> !graph.tensor<[], f32>
  func.return %y : !graph.tensor<[], f32>
}

// -----

// Both operands of a square in a reduction are one value, so what computes it moves to where it is read.
// CHECK-LABEL: loop.kernel @sub_mul_reduce_sum_
// CHECK-NOT: loop.alloc :
// CHECK: loop.for %{{.*}} = 0 to 31 reduction(add) {
// CHECK: %[[ONE:[a-z_0-9]+]] = arith.subf
// CHECK: %[[OTHER:[a-z_0-9]+]] = arith.subf
// CHECK-NEXT: arith.mulf %[[ONE]], %[[OTHER]]
func.func @main(%x: !graph.tensor<[64, 1000], f32>, %m: !graph.tensor<[64, 1], f32>) -> !graph.tensor<[64], f32> {
  %t = graph.sub %x, %m : (!graph.tensor<[64, 1000], f32>, !graph.tensor<[64, 1], f32>) -> !graph.tensor<[64, 1000], f32>
  %s = graph.mul %t, %t : (!graph.tensor<[64, 1000], f32>, !graph.tensor<[64, 1000], f32>) -> !graph.tensor<[64, 1000], f32>
  %y = graph.reduce_sum %s {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[64, 1000], f32>) -> !graph.tensor<[64], f32>
  func.return %y : !graph.tensor<[64], f32>
}

// -----

// Windows of stride 3 are added up in rows by phases; the rows are shuffled together in whole turns of three vectors.
// CHECK-LABEL: loop.kernel @fold_
// CHECK: loop.alloc scratch : !loop.buffer<[1, 1, 6, 3, 20], f32>
// CHECK: loop.for %[[LANE:[a-z_0-9]+]] = 0 to 24 unroll vector(8) {
// CHECK-NEXT: loop.load %{{.*}}[0, 0, %{{.*}}, (%[[LANE]] mod 3), 8 * %{{.*}} + (%[[LANE]] floordiv 3)]
// CHECK: loop.for %{{.*}} = 0 to 12 unroll vector(8) {
func.func @main(%x: !graph.tensor<[4, 1, 3, 3, 2, 20], f32>) -> !graph.tensor<[4, 1, 6, 60], f32> {
  %y = graph.fold %x {spatial = #graph.shape<[6, 60]>, strides = array<i64: 3, 3>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (!graph.tensor<[4, 1, 3, 3, 2, 20], f32>) -> !graph.tensor<[4, 1, 6, 60], f32>
  func.return %y : !graph.tensor<[4, 1, 6, 60], f32>
}

// -----

// Logarithms of short rows are computed for as many rows at a time as a vector has lanes.
// CHECK-LABEL: loop.kernel @log_softmax_
// CHECK-NEXT: loop.for %[[BLOCK:[a-z_0-9]+]] = 0 to 13 parallel {
// CHECK: %[[SUM:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[8, 1], f32>
// CHECK: loop.for %{{.*}} = 0 to min(-8 * %[[BLOCK]] + 100, 8) {
// CHECK: reduction(add)
// CHECK: loop.for %[[ROW:[a-z_0-9]+]] = 0 to min(-8 * %[[BLOCK]] + 100, 8) vector(8) {
// CHECK: math.log
// CHECK-NEXT: loop.store %{{.*}}[%[[ROW]], 0]
// CHECK-NEXT: }
func.func @main(%x: !graph.tensor<[100, 24], f32>) -> !graph.tensor<[100, 24], f32> {
  %y = graph.log_softmax %x {axis = 1 : i64} : (!graph.tensor<[100, 24], f32>) -> !graph.tensor<[100, 24], f32>
  func.return %y : !graph.tensor<[100, 24], f32>
}

// -----

// Of longer rows L1 would not keep so many between two passes over them.
// CHECK-LABEL: loop.kernel @log_softmax_
// CHECK-NEXT: loop.for %{{.*}} = 0 to 100 parallel {
// CHECK: loop.alloc registers
// CHECK-NOT: vector(8) {{.*}}math.log
// CHECK: math.log
func.func @main(%x: !graph.tensor<[100, 3000], f32>) -> !graph.tensor<[100, 3000], f32> {
  %y = graph.log_softmax %x {axis = 1 : i64} : (!graph.tensor<[100, 3000], f32>) -> !graph.tensor<[100, 3000], f32>
  func.return %y : !graph.tensor<[100, 3000], f32>
}

// -----

// A single long row keeps its exponentials where the result goes, and no memory of their size.
// CHECK-LABEL: loop.kernel @softmax_
// CHECK-NOT: loop.alloc workspace : !loop.buffer<[200000], f32>
// CHECK: math.exp
// CHECK: loop.store %[[POWER:[a-z_0-9]+]], %a1[
// CHECK: loop.load %a1[
func.func @main(%x: !graph.tensor<[200000], f32>) -> !graph.tensor<[200000], f32> {
  %y = graph.softmax %x {axis = 0 : i64} : (!graph.tensor<[200000], f32>) -> !graph.tensor<[200000], f32>
  func.return %y : !graph.tensor<[200000], f32>
}
