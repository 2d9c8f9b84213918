// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Blocks of 8 by 8 elements are turned in registers: loaded along one side, stored along the other.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 1 {
// CHECK-NEXT: loop.for %[[JIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[IIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[III:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[JII:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[64 * %[[JO]] + 8 * %[[JIO]] + %[[JII]], 64 * %[[IO]] + 8 * %[[IIO]] + %[[III]]] :
// CHECK-NEXT: loop.store %{{.*}}, %a1[64 * %[[IO]] + 8 * %[[IIO]] + %[[III]], 64 * %[[JO]] + 8 * %[[JIO]] + %[[JII]]] :
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
func.func @main(%x: !graph.tensor<[128, 100], f32>) -> !graph.tensor<[100, 128], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[128, 100], f32>) -> !graph.tensor<[100, 128], f32>
  func.return %y : !graph.tensor<[100, 128], f32>
}

// -----

// Where the lines of a column are in each other's way, they are filled one after another.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK: loop.for %[[IIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[JIO:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[III:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[JII:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[64 * %{{.*}} + 8 * %[[JIO]] + %[[JII]], 64 * %{{.*}} + 8 * %[[IIO]] + %[[III]]] :
func.func @main(%x: !graph.tensor<[1024, 128], f32>) -> !graph.tensor<[128, 1024], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[1024, 128], f32>) -> !graph.tensor<[128, 1024], f32>
  func.return %y : !graph.tensor<[128, 1024], f32>
}

// -----

// What no cache holds goes past them: of four lines both halves, one soon after the other.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: loop.for %[[LINE:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[ROW:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[HALF:[a-z_0-9]+]] = 0 to 2 unroll {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 4 unroll {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NOT: loop.prefetch
// CHECK: loop.load %a0[32 * %[[JO]] + 16 * %[[LINE]] + 8 * %[[HALF]] + %[[J]], 16 * %[[IO]] + 4 * %[[ROW]] + %[[I]]] :
// CHECK-NEXT: loop.store %{{.*}}, %a1{{.*}} nontemporal :
func.func @main(%x: !graph.tensor<[2048, 1024], f32>) -> !graph.tensor<[1024, 2048], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[2048, 1024], f32>) -> !graph.tensor<[1024, 2048], f32>
  func.return %y : !graph.tensor<[1024, 2048], f32>
}

// -----

// Rows and columns that fill no lines are turned in smaller blocks.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK: loop.for %{{.*}} = 0 to 64 parallel {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
func.func @main(%x: !graph.tensor<[2052, 1028], f32>) -> !graph.tensor<[1028, 2052], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[2052, 1028], f32>) -> !graph.tensor<[1028, 2052], f32>
  func.return %y : !graph.tensor<[1028, 2052], f32>
}

// -----

// What is computed with on the way goes through copies of tiles of 64 by 64 elements, and of 36 that are left, which are transposed in registers.
// CHECK-LABEL: loop.kernel @transpose_neg_
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: %[[TILE:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[64, 64], f32, [d1, d0] in [64, 64]>
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %[[II:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 64 vector(8) {
// CHECK-NEXT: loop.load %[[TILE]][%[[JI]], %[[II]]]
// CHECK: loop.store %{{.*}}, %a1[64 * %{{.*}} + %[[II]], 64 * %[[JO]] + %[[JI]]]
// CHECK: loop.alloc scratch : !loop.buffer<[64, 36], f32, [d1, d0] in [36, 64]>
func.func @main(%x: !graph.tensor<[128, 100], f32>) -> !graph.tensor<[100, 128], f32> {
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[128, 100], f32>) -> !graph.tensor<[100, 128], f32>
  %y = graph.neg %t : (!graph.tensor<[100, 128], f32>) -> !graph.tensor<[100, 128], f32>
  func.return %y : !graph.tensor<[100, 128], f32>
}

// -----

// So does a matrix that is read both ways, whose rows stay where they are.
// CHECK-LABEL: loop.kernel @transpose_neg_add_
// CHECK: %[[TILE:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[64, 64], f32, [d1, d0] in [64, 64]>
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %[[JI:[a-z_0-9]+]] = 0 to 64 vector(8) {
// CHECK-DAG: loop.load %a0[64 * %{{.*}}, 64 * %{{.*}} + %[[JI]]]
// CHECK-DAG: loop.load %[[TILE]][%[[JI]], %{{.*}}]
// CHECK: arith.addf
func.func @main(%x: !graph.tensor<[128, 128], f32>) -> !graph.tensor<[128, 128], f32> {
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[128, 128], f32>) -> !graph.tensor<[128, 128], f32>
  %n = graph.neg %t : (!graph.tensor<[128, 128], f32>) -> !graph.tensor<[128, 128], f32>
  %y = graph.add %x, %n : (!graph.tensor<[128, 128], f32>, !graph.tensor<[128, 128], f32>) -> !graph.tensor<[128, 128], f32>
  func.return %y : !graph.tensor<[128, 128], f32>
}

// -----

// Of unknown sizes, what is left over whole tiles is turned in blocks too, down to four elements, and what no block holds an element at a time:
// gathering a vector takes longer.
// CHECK-LABEL: loop.kernel @transpose_{{[0-9a-f]+}}[n0, n1]
// CHECK: loop.for %{{.*}} = 0 to (n0 floordiv 64) parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to (n1 floordiv 64) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to ((n0 mod 64) floordiv 8)
// CHECK: loop.for %{{.*}} = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.for %{{.*}} = 0 to {{.*}}mod 8) floordiv 4)
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK-NOT: mod 4) vector
// CHECK: loop.for %{{.*}} = 0 to {{.*}}mod 4) {
func.func @main(%x: !graph.tensor<[m, n], f32>) -> !graph.tensor<[n, m], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[m, n], f32>) -> !graph.tensor<[n, m], f32>
  func.return %y : !graph.tensor<[n, m], f32>
}

// -----

// Half of a vector is enough for a block; what is less than four elements of it is copied without a loop.
// CHECK-LABEL: loop.kernel @transpose_{{[0-9a-f]+}}[n0]
// CHECK: loop.for %{{.*}} = 0 to 12 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(16) {
// CHECK: loop.for %{{.*}} = 0 to {{.*}}mod 16) floordiv 4) parallel {
// CHECK: loop.for %{{.*}} = 0 to {{.*}}mod 4) parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 12 unroll {
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[n, 12], f32>) -> !graph.tensor<[12, n], f32> {
    %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[n, 12], f32>) -> !graph.tensor<[12, n], f32>
    func.return %y : !graph.tensor<[12, n], f32>
  }
}

// -----

// Neighbours that lie close to each other are no columns.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK-NOT: scratch
// CHECK: vector
func.func @main(%x: !graph.tensor<[128, 2], f32>) -> !graph.tensor<[2, 128], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[128, 2], f32>) -> !graph.tensor<[2, 128], f32>
  func.return %y : !graph.tensor<[2, 128], f32>
}

// -----

// Loops that could be one are one where elements are only moved.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK: loop.for %[[WO:[a-z_0-9]+]] = 0 to 196
// CHECK: loop.for %[[WI:[a-z_0-9]+]] = 0 to 8 unroll
// CHECK: loop.load %a0[64 * {{.*}} floordiv 14), {{.*}} mod 14)]
func.func @main(%x: !graph.tensor<[64, 112, 112], f32>) -> !graph.tensor<[112, 112, 64], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (!graph.tensor<[64, 112, 112], f32>) -> !graph.tensor<[112, 112, 64], f32>
  func.return %y : !graph.tensor<[112, 112, 64], f32>
}

// -----

// They stay two where a tile is staged, which is a box.
// CHECK-LABEL: loop.kernel @transpose_neg_
// CHECK: loop.for %[[WO:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.load %a0[64 * %{{.*}}, %i, 56 * %[[WO]] + {{.*}}]
func.func @main(%x: !graph.tensor<[64, 112, 112], f32>) -> !graph.tensor<[112, 112, 64], f32> {
  %y = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (!graph.tensor<[64, 112, 112], f32>) -> !graph.tensor<[112, 112, 64], f32>
  %z = graph.neg %y : (!graph.tensor<[112, 112, 64], f32>) -> !graph.tensor<[112, 112, 64], f32>
  func.return %z : !graph.tensor<[112, 112, 64], f32>
}
