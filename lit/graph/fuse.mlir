// RUN: weft-opt %s --split-input-file -p weft-fuse | filecheck %s

// Elementwise operators that follow each other are one kernel.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %y = graph.fused(%[[X:[a-z_0-9]+]] = %x)
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.exp %[[X]]
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.neg %[[A]]
// CHECK-NEXT: graph.yield %[[Y]]
// CHECK: func.return %y
func.func @chain(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %y = graph.neg %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// Bias, residual and activation go on from a contraction, each at the element that was just computed.
// CHECK-LABEL: func.func @epilogue
// CHECK-NEXT: %y = graph.fused(%{{.*}} = %x, %{{.*}} = %w, %{{.*}} = %bias, %{{.*}} = %residual)
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.relu
// CHECK-NEXT: graph.yield
func.func @epilogue(%x: !graph.tensor<[n, 8], f32>, %w: !graph.tensor<[8, 16], f32>, %bias: !graph.tensor<[16], f32>, %residual: !graph.tensor<[n, 16], f32>) -> !graph.tensor<[n, 16], f32> {
  %p = graph.matmul %x, %w : (!graph.tensor<[n, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[n, 16], f32>
  %q = graph.add %p, %bias : (!graph.tensor<[n, 16], f32>, !graph.tensor<[16], f32>) -> !graph.tensor<[n, 16], f32>
  %s = graph.add %q, %residual : (!graph.tensor<[n, 16], f32>, !graph.tensor<[n, 16], f32>) -> !graph.tensor<[n, 16], f32>
  %y = graph.relu %s : (!graph.tensor<[n, 16], f32>) -> !graph.tensor<[n, 16], f32>
  func.return %y : !graph.tensor<[n, 16], f32>
}

// -----

// A value that is read twice on the way to one element follows what reads it, whichever comes first.
// CHECK-LABEL: func.func @gated
// CHECK-NEXT: %y = graph.fused(%{{.*}} = %x, %{{.*}} = %w)
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.sigmoid
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.yield
func.func @gated(%x: !graph.tensor<[n, 8], f32>, %w: !graph.tensor<[8, 16], f32>) -> !graph.tensor<[n, 16], f32> {
  %p = graph.matmul %x, %w : (!graph.tensor<[n, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[n, 16], f32>
  %s = graph.sigmoid %p : (!graph.tensor<[n, 16], f32>) -> !graph.tensor<[n, 16], f32>
  %y = graph.mul %p, %s : (!graph.tensor<[n, 16], f32>, !graph.tensor<[n, 16], f32>) -> !graph.tensor<[n, 16], f32>
  func.return %y : !graph.tensor<[n, 16], f32>
}

// -----

// A movement is but another subscript where its elements are read.
// CHECK-LABEL: func.func @movement
// CHECK-NEXT: graph.fused
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.matmul
func.func @movement(%x: !graph.tensor<[4, 8], f32>, %w: !graph.tensor<[16, 8], f32>) -> !graph.tensor<[4, 16], f32> {
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[8, 16], f32>
  %y = graph.matmul %x, %t : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[4, 16], f32>
  func.return %y : !graph.tensor<[4, 16], f32>
}

// -----

// A reduction reads each element once, so that what makes it moves in.
// CHECK-LABEL: func.func @reduced
// CHECK-NEXT: graph.fused
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.reduce_sum
func.func @reduced(%x: !graph.tensor<[4, 8], f32>) -> !graph.tensor<[4], f32> {
  %a = graph.exp %x : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %y = graph.reduce_sum %a {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// A number goes where it is used.
// CHECK-LABEL: func.func @number
// CHECK: graph.fused(%{{.*}} = %x) :
// CHECK-NEXT: %[[TWO:[a-z_0-9]+]] = graph.constant
// CHECK-NEXT: graph.mul %{{.*}}, %[[TWO]]
func.func @number(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %two = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %y = graph.mul %x, %two : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// A contraction reads each element many times: a cheap operator before it stays a kernel.
// CHECK-LABEL: func.func @reused
// CHECK-NOT: graph.fused
// CHECK: graph.relu
// CHECK-NEXT: graph.matmul
func.func @reused(%x: !graph.tensor<[4, 8], f32>, %w: !graph.tensor<[8, 16], f32>) -> !graph.tensor<[4, 16], f32> {
  %a = graph.relu %x : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %y = graph.matmul %a, %w : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[4, 16], f32>
  func.return %y : !graph.tensor<[4, 16], f32>
}

// -----

// What two operators over the same elements read is computed once, with both.
// CHECK-LABEL: func.func @two_users
// CHECK: %y, %z = graph.fused
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.neg
// CHECK-NEXT: graph.log
func.func @two_users(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %y = graph.neg %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %z = graph.log %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %y, %z : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// A result of the function has to exist in memory, which the kernel that goes on writes as well.
// CHECK-LABEL: func.func @returned
// CHECK: %a, %y = graph.fused
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.neg
func.func @returned(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %y = graph.neg %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %y : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// Two operators that are more than elementwise are two kernels.
// CHECK-LABEL: func.func @two_anchors
// CHECK-NOT: graph.fused
// CHECK: graph.softmax
// CHECK-NEXT: graph.matmul
func.func @two_anchors(%x: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  %s = graph.softmax %x {axis = 1 : i64} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %y = graph.matmul %s, %x : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %y : !graph.tensor<[4, 4], f32>
}

// -----

// A sum that is spread over a row again is read at another index than it was computed at.
// CHECK-LABEL: func.func @spread
// CHECK-NOT: graph.fused
// CHECK: graph.reduce_sum
// CHECK-NEXT: graph.sub
func.func @spread(%x: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  %s = graph.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 1], f32>
  %y = graph.sub %x, %s : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 1], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %y : !graph.tensor<[4, 4], f32>
}

// -----

// A transposed matrix is read where it lies, but for a left operand with rows so far apart that its columns fall into
// few sets of a cache; the right operand is packed, which reads it once.
// CHECK-LABEL: func.func @transposed
// CHECK: graph.fused
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.matmul
// CHECK: %[[COPY:.*]] = graph.transpose %v
// CHECK: graph.matmul %[[COPY]], %y
func.func @transposed(%x: !graph.tensor<[8, 3072], f32>, %w: !graph.tensor<[64, 3072], f32>, %y: !graph.tensor<[64, 8], f32>, %v: !graph.tensor<[64, 3072], f32>) -> (!graph.tensor<[8, 64], f32>, !graph.tensor<[3072, 8], f32>) {
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (!graph.tensor<[64, 3072], f32>) -> !graph.tensor<[3072, 64], f32>
  %p = graph.matmul %x, %t : (!graph.tensor<[8, 3072], f32>, !graph.tensor<[3072, 64], f32>) -> !graph.tensor<[8, 64], f32>
  %u = graph.transpose %v {permutation = array<i64: 1, 0>} : (!graph.tensor<[64, 3072], f32>) -> !graph.tensor<[3072, 64], f32>
  %q = graph.matmul %u, %y : (!graph.tensor<[3072, 64], f32>, !graph.tensor<[64, 8], f32>) -> !graph.tensor<[3072, 8], f32>
  func.return %p, %q : !graph.tensor<[8, 64], f32>, !graph.tensor<[3072, 8], f32>
}

// -----

// What is read by two operators over the same elements is computed with both, in one kernel with two results.
// CHECK-LABEL: func.func @several_results
// CHECK-NEXT: %{{.*}}, %{{.*}} = graph.fused(%{{.*}} = %a, %{{.*}} = %b)
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.add
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.exp %[[S]]
// CHECK-NEXT: %[[Z:[a-z_0-9]+]] = graph.mul %[[S]], %[[Y]]
// CHECK-NEXT: graph.yield %[[Y]], %[[Z]]
func.func @several_results(%a: !graph.tensor<[4, 8], f32>, %b: !graph.tensor<[8], f32>) -> (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) {
  %s = graph.add %a, %b : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[4, 8], f32>
  %y = graph.exp %s : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %z = graph.mul %s, %y : (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  func.return %y, %z : !graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>
}

// -----

// Two sums over the same rows share what they add up; what goes on from the first stands behind the second.
// CHECK-LABEL: func.func @several_sums
// CHECK-NEXT: graph.fused(%{{.*}} = %a, %{{.*}} = %b)
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.reduce_sum
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.reduce_sum
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.yield
// CHECK-NEXT: }
// CHECK-NEXT: func.return
func.func @several_sums(%a: !graph.tensor<[4, 8], f32>, %b: !graph.tensor<[8], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %s = graph.add %a, %b : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[4, 8], f32>
  %t = graph.reduce_sum %s {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4], f32>
  %y = graph.exp %t : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %q = graph.mul %s, %s : (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %z = graph.reduce_sum %q {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4], f32>
  func.return %y, %z : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// An operator between the two reads the first's result: it stays a kernel of its own.
// CHECK-LABEL: func.func @between
// CHECK: %[[S:.*]] = graph.add
// CHECK-NEXT: %[[M:.*]] = graph.softmax %[[S]]
// CHECK-NEXT: graph.mul %[[S]], %[[M]]
func.func @between(%a: !graph.tensor<[4, 8], f32>, %b: !graph.tensor<[8], f32>) -> (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) {
  %s = graph.add %a, %b : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[4, 8], f32>
  %m = graph.softmax %s {axis = 1 : i64} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %z = graph.mul %s, %m : (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  func.return %m, %z : !graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>
}

// -----

// Each product reads the rows of a transposed matrix where they lie.
// CHECK-LABEL: func.func @shared_transpose
// CHECK: graph.fused
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.matmul
// CHECK: graph.fused
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.matmul
func.func @shared_transpose(%x: !graph.tensor<[8, 64], f32>, %a: !graph.tensor<[8, 16], f32>, %b: !graph.tensor<[8, 24], f32>) -> (!graph.tensor<[64, 16], f32>, !graph.tensor<[64, 24], f32>) {
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[8, 64], f32>) -> !graph.tensor<[64, 8], f32>
  %p = graph.matmul %t, %a : (!graph.tensor<[64, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[64, 16], f32>
  %q = graph.matmul %t, %b : (!graph.tensor<[64, 8], f32>, !graph.tensor<[8, 24], f32>) -> !graph.tensor<[64, 24], f32>
  func.return %p, %q : !graph.tensor<[64, 16], f32>, !graph.tensor<[64, 24], f32>
}

// -----

// What is computed for a box of a tensor is inserted at once, though one part of it is used twice.
// CHECK-LABEL: func.func @box
// CHECK-NEXT: graph.fused
// CHECK: graph.slice
// CHECK: graph.slice
// CHECK: graph.add
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.insert_slice
// CHECK-NEXT: graph.yield
// CHECK-NEXT: }
// CHECK-NEXT: func.return
func.func @box(%x: !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32> {
  %a = graph.slice %x {starts = #graph.shape<[0, 1]>, sizes = #graph.shape<[n, 6]>, steps = array<i64: 1, 1>} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 6], f32>
  %b = graph.slice %x {starts = #graph.shape<[0, 2]>, sizes = #graph.shape<[n, 6]>, steps = array<i64: 1, 1>} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 6], f32>
  %c = graph.add %a, %b : (!graph.tensor<[n, 6], f32>, !graph.tensor<[n, 6], f32>) -> !graph.tensor<[n, 6], f32>
  %d = graph.mul %c, %a : (!graph.tensor<[n, 6], f32>, !graph.tensor<[n, 6], f32>) -> !graph.tensor<[n, 6], f32>
  %y = graph.insert_slice %x, %d {starts = #graph.shape<[0, 1]>, steps = array<i64: 1, 1>} : (!graph.tensor<[n, 8], f32>, !graph.tensor<[n, 6], f32>) -> !graph.tensor<[n, 8], f32>
  func.return %y : !graph.tensor<[n, 8], f32>
}

// -----

// Bytes of a weight become floats where a product reads them, and so do floats of 16 bits.
// CHECK-LABEL: func.func @stored_weight
// CHECK: graph.fused
// CHECK-NEXT: graph.cast
// CHECK-NEXT: graph.cast
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.yield
func.func @stored_weight(%h: !graph.tensor<[m, 64], f16>) -> !graph.tensor<[m, 16], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[64, 16]>, element = i8} : () -> !graph.tensor<[64, 16], i8>
  %x = graph.cast %h {to = f32} : (!graph.tensor<[m, 64], f16>) -> !graph.tensor<[m, 64], f32>
  %f = graph.cast %w {to = f32} : (!graph.tensor<[64, 16], i8>) -> !graph.tensor<[64, 16], f32>
  %p = graph.matmul %x, %f : (!graph.tensor<[m, 64], f32>, !graph.tensor<[64, 16], f32>) -> !graph.tensor<[m, 16], f32>
  func.return %p : !graph.tensor<[m, 16], f32>
}

// -----

// Bytes that a call gives become floats once, in front of the product.
// CHECK-LABEL: func.func @bytes_of_a_call
// CHECK-NOT: graph.fused
// CHECK: graph.cast
// CHECK-NEXT: graph.matmul
func.func @bytes_of_a_call(%x: !graph.tensor<[m, 64], ui8>, %w: !graph.tensor<[64, 16], f32>) -> !graph.tensor<[m, 16], f32> {
  %f = graph.cast %x {to = f32} : (!graph.tensor<[m, 64], ui8>) -> !graph.tensor<[m, 64], f32>
  %p = graph.matmul %f, %w : (!graph.tensor<[m, 64], f32>, !graph.tensor<[64, 16], f32>) -> !graph.tensor<[m, 16], f32>
  func.return %p : !graph.tensor<[m, 16], f32>
}

// -----

// What products of bf16 extend is extended in each of them, and rounded where it is computed.
// CHECK-LABEL: func.func @halves
// CHECK: graph.fused{{.*}} -> !graph.tensor<[4, 8], bf16> {
// CHECK: graph.exp
// CHECK: graph.yield %{{[a-z_0-9]+}} : !graph.tensor<[4, 8], bf16>
// CHECK-COUNT-2: graph.fused{{.*}} -> !graph.tensor<[4, 8], f32> {
// CHECK: graph.yield
func.func @halves(%x: !graph.tensor<[4, 8], f32>, %v: !graph.tensor<[8, 8], bf16>, %w: !graph.tensor<[8, 8], bf16>) -> (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) {
  %0 = graph.exp %x : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %1 = graph.cast %0 {to = bf16} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], bf16>
  %2 = graph.cast %1 {to = f32} : (!graph.tensor<[4, 8], bf16>) -> !graph.tensor<[4, 8], f32>
  %3 = graph.cast %v {to = f32} : (!graph.tensor<[8, 8], bf16>) -> !graph.tensor<[8, 8], f32>
  %4 = graph.cast %w {to = f32} : (!graph.tensor<[8, 8], bf16>) -> !graph.tensor<[8, 8], f32>
  %5 = graph.matmul %2, %3 : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8, 8], f32>) -> !graph.tensor<[4, 8], f32>
  %6 = graph.matmul %2, %4 : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8, 8], f32>) -> !graph.tensor<[4, 8], f32>
  func.return %5, %6 : !graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>
}

// -----

// Elements of a table at indices that are computed, where the indices are results too.
// CHECK-LABEL: func.func @table
// CHECK: %{{.*}}, %{{.*}} = graph.fused
// CHECK: graph.add
// CHECK: graph.gather
// CHECK: graph.mul
// CHECK: graph.yield
func.func @table(%t: !graph.tensor<[64], f32>, %i: !graph.tensor<[n], i64>, %j: !graph.tensor<[n], i64>) -> (!graph.tensor<[n], i64>, !graph.tensor<[n], f32>) {
  %k = graph.add %i, %j : (!graph.tensor<[n], i64>, !graph.tensor<[n], i64>) -> !graph.tensor<[n], i64>
  %x = graph.gather %t, %k {axis = 0 : i64} : (!graph.tensor<[64], f32>, !graph.tensor<[n], i64>) -> !graph.tensor<[n], f32>
  %y = graph.mul %x, %x : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %k, %y : !graph.tensor<[n], i64>, !graph.tensor<[n], f32>
}

// -----

// A table that is computed has all elements before any is read, also where it has as many as indices.
// CHECK-LABEL: func.func @permuted
// CHECK: %t = graph.add
// CHECK: graph.gather
func.func @permuted(%x: !graph.tensor<[64], f32>, %i: !graph.tensor<[64], i64>) -> (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) {
  %t = graph.add %x, %x : (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  %y = graph.gather %t, %i {axis = 0 : i64} : (!graph.tensor<[64], f32>, !graph.tensor<[64], i64>) -> !graph.tensor<[64], f32>
  func.return %t, %y : !graph.tensor<[64], f32>, !graph.tensor<[64], f32>
}

// -----

// Running totals of the same elements are added up beside each other; along other lines they are not.

// CHECK-LABEL: func.func @totals
// CHECK: %{{.*}}, %{{.*}} = graph.fused(%{{.*}} = %x)
// CHECK-NEXT: graph.cumsum
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.cumsum
// CHECK-NEXT: graph.yield
// CHECK: graph.cumsum %x {axis = 0
func.func @totals(%x: !graph.tensor<[5, 6], f32>) -> (!graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>) {
  %a = graph.cumsum %x {axis = 1, exclusive = false, reverse = false} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %s = graph.mul %x, %x : (!graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %b = graph.cumsum %s {axis = 1, exclusive = false, reverse = false} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %c = graph.cumsum %x {axis = 0, exclusive = false, reverse = false} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  func.return %a, %b, %c : !graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>
}

// -----

// A total that is computed of what is made of another comes behind it, also where it begins before.

// CHECK-LABEL: func.func @totals_in_turn
// CHECK: %[[TOTAL:.*]] = graph.fused(%{{.*}} = %x)
// CHECK: graph.cumsum
// CHECK-NEXT: graph.yield
// CHECK: graph.fused
// CHECK-SAME: %[[TOTAL]]
// CHECK: graph.equal
// CHECK: graph.cumsum
func.func @totals_in_turn(%x: !graph.tensor<[5, 6], f32>) -> (!graph.tensor<[5, 6], i64>, !graph.tensor<[5, 6], i1>, !graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>) {
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %none = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[]>, element = i64} : () -> !graph.tensor<[], i64>
  %s = graph.mul %x, %x : (!graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %is = graph.equal %x, %zero : (!graph.tensor<[5, 6], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[5, 6], i1>
  %number = graph.cast %is {to = i64} : (!graph.tensor<[5, 6], i1>) -> !graph.tensor<[5, 6], i64>
  %a = graph.cumsum %number {axis = 1, exclusive = false, reverse = false} : (!graph.tensor<[5, 6], i64>) -> !graph.tensor<[5, 6], i64>
  %before = graph.equal %a, %none : (!graph.tensor<[5, 6], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[5, 6], i1>
  %kept = graph.where %before, %s, %zero : (!graph.tensor<[5, 6], i1>, !graph.tensor<[5, 6], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[5, 6], f32>
  %flipped = graph.slice %kept {starts = #graph.shape<[0, 5]>, sizes = #graph.shape<[5, 6]>, steps = array<i64: 1, -1>} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %b = graph.cumsum %flipped {axis = 1, exclusive = false, reverse = false} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %y = graph.slice %b {starts = #graph.shape<[0, 5]>, sizes = #graph.shape<[5, 6]>, steps = array<i64: 1, -1>} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %z = graph.where %before, %y, %zero : (!graph.tensor<[5, 6], i1>, !graph.tensor<[5, 6], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[5, 6], f32>
  func.return %a, %before, %b, %z : !graph.tensor<[5, 6], i64>, !graph.tensor<[5, 6], i1>, !graph.tensor<[5, 6], f32>, !graph.tensor<[5, 6], f32>
}

// -----

// A row is read where it lies in a matrix, by all that goes over its elements.

// CHECK-LABEL: func.func @row
// CHECK: %{{.*}}, %{{.*}} = graph.fused(%{{.*}} = %x, %{{.*}} = %y)
// CHECK-NEXT: graph.slice
// CHECK-NEXT: graph.reshape
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.yield
func.func @row(%x: !graph.tensor<[5, 6], f32>, %y: !graph.tensor<[6], f32>) -> (!graph.tensor<[6], f32>, !graph.tensor<[6], f32>) {
  %s = graph.slice %x {starts = #graph.shape<[2, 0]>, sizes = #graph.shape<[1, 6]>, steps = array<i64: 1, 1>} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[1, 6], f32>
  %r = graph.reshape %s {shape = #graph.shape<[6]>} : (!graph.tensor<[1, 6], f32>) -> !graph.tensor<[6], f32>
  %m = graph.mul %r, %y : (!graph.tensor<[6], f32>, !graph.tensor<[6], f32>) -> !graph.tensor<[6], f32>
  %e = graph.exp %m : (!graph.tensor<[6], f32>) -> !graph.tensor<[6], f32>
  func.return %m, %e : !graph.tensor<[6], f32>, !graph.tensor<[6], f32>
}

// -----

// A product with many columns reads long transposed rows from a copy, one with few as they lie.
// CHECK-LABEL: func.func @long_rows
// CHECK: %[[COPY:.*]] = graph.transpose %x
// CHECK-NEXT: graph.matmul %[[COPY]], %y
// CHECK: graph.fused(%{{.*}} = %v, %{{.*}} = %z)
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.matmul
func.func @long_rows(%x: !graph.tensor<[256, 96], f32>, %y: !graph.tensor<[256, 128], f32>, %v: !graph.tensor<[256, 96], f32>, %z: !graph.tensor<[256, 64], f32>) -> (!graph.tensor<[96, 128], f32>, !graph.tensor<[96, 64], f32>) {
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[256, 96], f32>) -> !graph.tensor<[96, 256], f32>
  %m = graph.matmul %t, %y : (!graph.tensor<[96, 256], f32>, !graph.tensor<[256, 128], f32>) -> !graph.tensor<[96, 128], f32>
  %u = graph.transpose %v {permutation = array<i64: 1, 0>} : (!graph.tensor<[256, 96], f32>) -> !graph.tensor<[96, 256], f32>
  %n = graph.matmul %u, %z : (!graph.tensor<[96, 256], f32>, !graph.tensor<[256, 64], f32>) -> !graph.tensor<[96, 64], f32>
  func.return %m, %n : !graph.tensor<[96, 128], f32>, !graph.tensor<[96, 64], f32>
}

// -----

// A scatter changes what another kernel padded: in one kernel that would be a buffer to copy.

// CHECK-LABEL: func.func @written
// CHECK: %[[WIDE:.*]] = graph.fused(%{{.*}} = %x)
// CHECK-NEXT: graph.neg
// CHECK-NEXT: graph.pad
// CHECK-NEXT: graph.yield
// CHECK: graph.scatter_elements %[[WIDE]], %i, %u
func.func @written(%x: !graph.tensor<[5, 6], f32>, %i: !graph.tensor<[1, 6], i64>, %u: !graph.tensor<[1, 6], f32>) -> !graph.tensor<[7, 6], f32> {
  %n = graph.neg %x : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[5, 6], f32>
  %w = graph.pad %n {pads = #graph.shape<[0, 0, 2, 0]>, mode = "constant"} : (!graph.tensor<[5, 6], f32>) -> !graph.tensor<[7, 6], f32>
  %y = graph.scatter_elements %w, %i, %u {axis = 0 : i64, reduction = "none"} : (!graph.tensor<[7, 6], f32>, !graph.tensor<[1, 6], i64>, !graph.tensor<[1, 6], f32>) -> !graph.tensor<[7, 6], f32>
  func.return %y : !graph.tensor<[7, 6], f32>
}
