// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Loops that walk through memory in one stride are one loop: tiles of 4 vectors of 8 in parallel, the rest in vectors.
// A polynomial is computed for those of a tile side by side.
// CHECK-LABEL: loop.kernel @exp_{{[0-9a-f]+}}[n0]
// CHECK-NEXT: loop.for %[[O:[a-z]+]] = 0 to (n0 floordiv 4) parallel {
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 32 vector(32) {
// CHECK: math.exp
// CHECK: loop.for %{{[a-z]+}} = 0 to 8 * (n0 mod 4) vector(8) {
// CHECK: math.exp
// CHECK-NOT: loop.for
func.func @main(%x: !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32> {
  %y = graph.exp %x : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 8], f32>
  func.return %y : !graph.tensor<[n, 8], f32>
}

// -----

// A result of half the last cache, here 4 MB, and more, has no room there beside an operand as large: it goes past it.
// CHECK-LABEL: loop.kernel @neg_
// CHECK: loop.load %a0[{{.*}}] :
// CHECK: loop.store %{{.*}}, %a1[{{.*}}] nontemporal :
func.func @main(%x: !graph.tensor<[1048640], f32>) -> !graph.tensor<[1048640], f32> {
  %y = graph.neg %x : (!graph.tensor<[1048640], f32>) -> !graph.tensor<[1048640], f32>
  func.return %y : !graph.tensor<[1048640], f32>
}

// -----

// One as large has room beside a row, and one that just fits beside its operand.
// CHECK-LABEL: loop.kernel @expand_neg_
// CHECK-NOT: nontemporal
func.func @main(%x: !graph.tensor<[1024], f32>, %v: !graph.tensor<[1048576], f32>) -> (!graph.tensor<[1024, 1024], f32>, !graph.tensor<[1048576], f32>) {
  %y, %w = graph.fused(%a = %x, %b = %v) : (!graph.tensor<[1024], f32>, !graph.tensor<[1048576], f32>) -> (!graph.tensor<[1024, 1024], f32>, !graph.tensor<[1048576], f32>) {
    %c = graph.expand %a {shape = #graph.shape<[1024, 1024]>} : (!graph.tensor<[1024], f32>) -> !graph.tensor<[1024, 1024], f32>
    %d = graph.neg %b : (!graph.tensor<[1048576], f32>) -> !graph.tensor<[1048576], f32>
    graph.yield %c, %d : !graph.tensor<[1024, 1024], f32>, !graph.tensor<[1048576], f32>
  }
  func.return %y, %w : !graph.tensor<[1024, 1024], f32>, !graph.tensor<[1048576], f32>
}

// -----

// What fills a temporary moves to where it is read; no temporary is left.
// CHECK-LABEL: loop.kernel @add_mul_
// CHECK-NOT: loop.alloc
// CHECK: %[[V:[a-z_0-9]+]] = loop.load %a0
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %a0
// CHECK-NEXT: %[[SUM:[a-z_0-9]+]] = arith.addf %[[V]], %[[W]]
// CHECK-NEXT: %[[SQUARE:[a-z_0-9]+]] = arith.mulf %[[SUM]], %[[SUM]]
// CHECK-NEXT: loop.store %[[SQUARE]], %a1
// CHECK-NOT: loop.for
func.func @main(%x: !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32> {
  %t = graph.add %x, %x : (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  %y = graph.mul %t, %t : (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  func.return %y : !graph.tensor<[64], f32>
}

// -----

// Rows with a gap between them stay two loops; the inner one is the vector.
// CHECK-LABEL: loop.kernel @slice_
// CHECK-NEXT: loop.for %i = 0 to 64 parallel {
// CHECK-NEXT: loop.for %j = 0 to 16 vector(8) {
func.func @main(%x: !graph.tensor<[64, 20], f32>) -> !graph.tensor<[64, 16], f32> {
  %y = graph.slice %x {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[64, 16]>, steps = array<i64: 1, 1>} : (!graph.tensor<[64, 20], f32>) -> !graph.tensor<[64, 16], f32>
  func.return %y : !graph.tensor<[64, 16], f32>
}

// -----

// A vector holds 4 of the widest elements that take part.
// CHECK-LABEL: loop.kernel @cast_
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 8 parallel {
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 16 unroll vector(4) {
func.func @main(%x: !graph.tensor<[128], f32>) -> !graph.tensor<[128], f64> {
  %y = graph.cast %x {to = f64} : (!graph.tensor<[128], f32>) -> !graph.tensor<[128], f64>
  func.return %y : !graph.tensor<[128], f64>
}

// -----

// As few elements as fill 16 vectors are one loop, of one vector after another: more code takes longer to compile than it saves.
// CHECK-LABEL: loop.kernel @cast_
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 64 vector(4) {
// CHECK-NEXT: loop.load
// CHECK-NEXT: arith.extf
// CHECK-NEXT: loop.store
// CHECK-NEXT: }
func.func @main(%x: !graph.tensor<[64], f32>) -> !graph.tensor<[64], f64> {
  %y = graph.cast %x {to = f64} : (!graph.tensor<[64], f32>) -> !graph.tensor<[64], f64>
  func.return %y : !graph.tensor<[64], f64>
}

// -----

// Each element twice: both loops are one, whose vectors hold four elements in pairs.
// CHECK-LABEL: loop.kernel @expand_
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 6 parallel {
// CHECK-NEXT: loop.for %[[I:[a-z]+]] = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[{{.*}}(%[[I]] floordiv 2), 0]
func.func @main(%x: !graph.tensor<[96, 1], f32>) -> !graph.tensor<[96, 2], f32> {
  %y = graph.expand %x {shape = #graph.shape<[96, 2]>} : (!graph.tensor<[96, 1], f32>) -> !graph.tensor<[96, 2], f32>
  func.return %y : !graph.tensor<[96, 2], f32>
}

// -----

// Runs of three fill no vector of eight, but three vectors.
// CHECK-LABEL: loop.kernel @expand_
// CHECK-NEXT: loop.for %{{[a-z]+}} = 0 to 12 parallel {
// CHECK-NEXT: loop.for %[[I:[a-z]+]] = 0 to 24 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[{{.*}}(%[[I]] floordiv 3), 0]
func.func @main(%x: !graph.tensor<[96, 1], f32>) -> !graph.tensor<[96, 3], f32> {
  %y = graph.expand %x {shape = #graph.shape<[96, 3]>} : (!graph.tensor<[96, 1], f32>) -> !graph.tensor<[96, 3], f32>
  func.return %y : !graph.tensor<[96, 3], f32>
}

// -----

// Two rows side by side: each vector holds four elements of each, and the rest of both fills less.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK-NEXT: loop.for %[[Z:[a-z]+]]o = 0 to 6 parallel {
// CHECK-NEXT: loop.for %[[Z]]i = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[(%[[Z]]i mod 2), 16 * %[[Z]]o + (%[[Z]]i floordiv 2)]
// CHECK: loop.for %[[Z]]r = 0 to 10 vector(8) {
// CHECK-NEXT: loop.load %a0[(%[[Z]]r mod 2), (%[[Z]]r floordiv 2) + 96]
func.func @main(%x: !graph.tensor<[2, 101], f32>) -> !graph.tensor<[101, 2], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[2, 101], f32>) -> !graph.tensor<[101, 2], f32>
  func.return %y : !graph.tensor<[101, 2], f32>
}

// -----

// Of five rows a vector would hold runs of one element: the rows stay apart.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK-NOT: mod 5
func.func @main(%x: !graph.tensor<[5, 101], f32>) -> !graph.tensor<[101, 5], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[5, 101], f32>) -> !graph.tensor<[101, 5], f32>
  func.return %y : !graph.tensor<[101, 5], f32>
}

// -----

// The number of a row, which is the same for all of it, is found once and takes up no lanes.
// CHECK-LABEL: loop.kernel @gather_
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 16 parallel {
// CHECK-NEXT: loop.load %a1[%[[I]]]
// CHECK: %[[ROW:[a-z_0-9]+]] = arith.index_cast %{{.*}} : i64 to index
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 64 vector(8) {
// CHECK-NEXT: loop.load %a0[%[[ROW]], %[[J]]]
func.func @main(%x: !graph.tensor<[32, 64], f32>, %rows: !graph.tensor<[16], i64>) -> !graph.tensor<[16, 64], f32> {
  %y = graph.gather %x, %rows {axis = 0 : i64} : (!graph.tensor<[32, 64], f32>, !graph.tensor<[16], i64>) -> !graph.tensor<[16, 64], f32>
  func.return %y : !graph.tensor<[16, 64], f32>
}

// -----

// Counts of digits depend on each other; what is next to them in the kernel, such as the zeros that they start from and
// the result, does not.
// CHECK-LABEL: loop.kernel @argsort_
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 32 unroll vector(8) {
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 97 {
// CHECK: loop.store %{{.*}}, %counts[
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 16 unroll vector(4) {
// CHECK: loop.store %{{.*}}, %a1[
func.func @main(%x: !graph.tensor<[97], f32>) -> !graph.tensor<[97], i64> {
  %y = graph.argsort %x {axis = 0 : i64, descending = false, count = #graph.shape<[97]>} : (!graph.tensor<[97], f32>) -> !graph.tensor<[97], i64>
  func.return %y : !graph.tensor<[97], i64>
}
