// RUN: weft-opt %s --split-input-file -p weft-fuse-attention,weft-graph-to-loop,weft-schedule | filecheck %s

// 16 rows at a time: their scores, the softmax and the weighted sums, with nothing but the result in memory. Of 16
// registers 12 hold sums: tiles of 6 rows at most, and of about one size.
// CHECK-LABEL: loop.kernel @matmul_softmax_matmul_
// CHECK-NEXT: loop.for %[[H:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.alloc scratch : !loop.buffer<[1, 16, 16], f32, [d0, d2, d1] in [1, 16, 16]>
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 1 {
// CHECK: loop.alloc registers : !loop.buffer<[1, 16, 6], f32, [d0, d2, d1] in [1, 6, 16]>
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 2 unroll reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 16 unroll vector(8) {
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 2 {
// CHECK: loop.alloc registers : !loop.buffer<[1, 16, 5], f32, [d0, d2, d1] in [1, 5, 16]>
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 16 reduction(max) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 16 unroll vector(8) {
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 16 unroll vector(8) {
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: loop.alloc registers : !loop.buffer<[1, 6, 16], f32
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 4 unroll reduction(add) {
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.alloc registers : !loop.buffer<[1, 5, 16], f32
// CHECK: loop.store %{{.*}}, %a3[%[[H]], 16 * %[[IO]] + 5 * %[[I]] +
func.func @main(%q: !graph.tensor<[2, 32, 4], f32>, %k: !graph.tensor<[2, 4, 16], f32>, %v: !graph.tensor<[2, 16, 16], f32>) -> !graph.tensor<[2, 32, 16], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[2, 32, 4], f32>, !graph.tensor<[2, 4, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[2, 32, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[2, 32, 16], f32>, !graph.tensor<[2, 16, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  func.return %y : !graph.tensor<[2, 32, 16], f32>
}

// -----

// Two products without anything between them that a row has to wait for are two contractions.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: scratch
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: scratch
// CHECK-LABEL: loop.program
func.func @main(%q: !graph.tensor<[2, 32, 4], f32>, %k: !graph.tensor<[2, 4, 16], f32>, %v: !graph.tensor<[2, 16, 8], f32>) -> !graph.tensor<[2, 32, 8], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[2, 32, 4], f32>, !graph.tensor<[2, 4, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  %y = graph.matmul %s, %v : (!graph.tensor<[2, 32, 16], f32>, !graph.tensor<[2, 16, 8], f32>) -> !graph.tensor<[2, 32, 8], f32>
  func.return %y : !graph.tensor<[2, 32, 8], f32>
}

// -----

// Of lengths that a call knows, a block of scores lies in a part of the workspace that is the head's own.
// CHECK-LABEL: loop.kernel @matmul_softmax_matmul_
// CHECK: %[[S:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[2, 1, 16, n1], f32, [d0, d1, d3, d2] in [2, 1, n1, 16]>
// CHECK: loop.for %[[H:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to (n0 floordiv 16) {
// CHECK: loop.for %{{.*}} = 0 to (n1 floordiv 6) {
// CHECK: loop.store %{{.*}}, %[[S]][%[[H]], 0,
// CHECK: loop.for %{{.*}} = 0 to ((n0 mod 16) floordiv 8) {
// CHECK: loop.for %{{.*}} = 0 to ((n0 mod 16) mod 8) {
func.func @main(%q: !graph.tensor<[2, m, 4], f32>, %k: !graph.tensor<[2, 4, n], f32>, %v: !graph.tensor<[2, n, 16], f32>) -> !graph.tensor<[2, m, 16], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[2, m, 4], f32>, !graph.tensor<[2, 4, n], f32>) -> !graph.tensor<[2, m, n], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[2, m, n], f32>) -> !graph.tensor<[2, m, n], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[2, m, n], f32>, !graph.tensor<[2, n, 16], f32>) -> !graph.tensor<[2, m, 16], f32>
  func.return %y : !graph.tensor<[2, m, 16], f32>
}

// -----

// Rows of queries and of a mask are brought next to each other in blocks that are turned in registers.
// CHECK-LABEL: loop.kernel @matmul_add_softmax_matmul_
// CHECK: %[[Q:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 16, 8], f32, [d0, d2, d1] in [1, 8, 16]>
// CHECK: loop.for %[[QJ:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[QI:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK: loop.store %{{.*}}, %[[Q]][0, 8 * %{{[a-z_0-9]+}} + %[[QI]], {{.*}}%[[QJ]]]
// CHECK: %[[M:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[16, 16], f32, [d1, d0] in [16, 16]>
// CHECK: loop.for %[[MJ:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[MI:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK: loop.store %{{.*}}, %[[M]][8 * %{{[a-z_0-9]+}} + %[[MI]], {{.*}}%[[MJ]]]
func.func @main(%q: !graph.tensor<[2, 32, 8], f32>, %k: !graph.tensor<[2, 8, 16], f32>, %m: !graph.tensor<[32, 16], f32>, %v: !graph.tensor<[2, 16, 16], f32>) -> !graph.tensor<[2, 32, 16], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[2, 32, 8], f32>, !graph.tensor<[2, 8, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  %t = graph.add %s, %m : (!graph.tensor<[2, 32, 16], f32>, !graph.tensor<[32, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  %p = graph.softmax %t {axis = -1 : i64} : (!graph.tensor<[2, 32, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[2, 32, 16], f32>, !graph.tensor<[2, 16, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  func.return %y : !graph.tensor<[2, 32, 16], f32>
}

// -----

// Of keys that only a call knows a mask is brought so in blocks of 32, and in single columns behind them.
// CHECK-LABEL: loop.kernel @matmul_add_softmax_matmul_
// CHECK: loop.for %{{.*}} = 0 to (n0 floordiv 32)
// CHECK: %[[M:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[16, 32], f32, [d1, d0] in [32, 16]>
// CHECK: loop.store %{{.*}}, %[[M]][
// CHECK: loop.load %[[M]][
// CHECK: loop.for %{{.*}} = 0 to (n0 mod 32)
func.func @main(%q: !graph.tensor<[2, 32, 8], f32>, %k: !graph.tensor<[2, 8, n], f32>, %m: !graph.tensor<[32, n], f32>, %v: !graph.tensor<[2, n, 16], f32>) -> !graph.tensor<[2, 32, 16], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[2, 32, 8], f32>, !graph.tensor<[2, 8, n], f32>) -> !graph.tensor<[2, 32, n], f32>
  %t = graph.add %s, %m : (!graph.tensor<[2, 32, n], f32>, !graph.tensor<[32, n], f32>) -> !graph.tensor<[2, 32, n], f32>
  %p = graph.softmax %t {axis = -1 : i64} : (!graph.tensor<[2, 32, n], f32>) -> !graph.tensor<[2, 32, n], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[2, 32, n], f32>, !graph.tensor<[2, n, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  func.return %y : !graph.tensor<[2, 32, 16], f32>
}

// -----

// Heads of a batch that a call counts run in parallel all together.
// CHECK-LABEL: loop.kernel @matmul_softmax_matmul_
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 3 * n0 parallel {
// CHECK-NOT: parallel
func.func @main(%q: !graph.tensor<[b, 3, 32, 4], f32>, %k: !graph.tensor<[b, 3, 4, 16], f32>, %v: !graph.tensor<[b, 3, 16, 16], f32>) -> !graph.tensor<[b, 3, 32, 16], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[b, 3, 32, 4], f32>, !graph.tensor<[b, 3, 4, 16], f32>) -> !graph.tensor<[b, 3, 32, 16], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[b, 3, 32, 16], f32>) -> !graph.tensor<[b, 3, 32, 16], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[b, 3, 32, 16], f32>, !graph.tensor<[b, 3, 16, 16], f32>) -> !graph.tensor<[b, 3, 32, 16], f32>
  func.return %y : !graph.tensor<[b, 3, 32, 16], f32>
}

// -----

// A long sum goes through all tiles of a block of rows some terms at a time. What all rows of a head are multiplied
// with lies in panels of a tile's columns.
// CHECK-LABEL: loop.kernel @matmul_softmax_matmul_
// CHECK: %[[P:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[2, 1, 320, 32], f32, [d0, (d3 floordiv 16), d1, d2, (d3 mod 16)] in [2, 2, 1, 320, 16]>
// CHECK: loop.for %[[H:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK: loop.store %{{.*}}, %[[P]][%[[H]], 0,
// CHECK: math.exp
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 2 {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 1 {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[1, 6, 16], f32
// CHECK: loop.for %{{[a-z_0-9]+}} = 0 to 40 reduction(add) {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %[[P]][%[[H]], 0, 160 * %[[KO]] +
func.func @main(%q: !graph.tensor<[2, 64, 4], f32>, %k: !graph.tensor<[2, 4, 320], f32>, %v: !graph.tensor<[2, 320, 32], f32>) -> !graph.tensor<[2, 64, 32], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[2, 64, 4], f32>, !graph.tensor<[2, 4, 320], f32>) -> !graph.tensor<[2, 64, 320], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[2, 64, 320], f32>) -> !graph.tensor<[2, 64, 320], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[2, 64, 320], f32>, !graph.tensor<[2, 320, 32], f32>) -> !graph.tensor<[2, 64, 32], f32>
  func.return %y : !graph.tensor<[2, 64, 32], f32>
}

// -----

// What a mask forbids is not computed: the loops over columns of both products end behind the last one that a row of
// the block may see, or that counts in the sum.
// CHECK-LABEL: loop.kernel @matmul_where_softmax_matmul_
// CHECK: %[[F:found[_0-9]*]] = loop.alloc registers : !loop.buffer<[24], i32>
// CHECK: loop.load %a2[{{.*}}, 24 * %{{[a-z_0-9]+}} + %{{[a-z_0-9]+}}]
// CHECK: %[[B:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 * min(4, max(0, %[[B]])) {
// CHECK: reduction(max) {
// CHECK: loop.alloc registers : !loop.buffer<[16], i32>
// CHECK: arith.cmpf une
// CHECK: %[[E:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: loop.for %{{.*}} = 0 to {{.*}}min(4, max(0, %[[E]])){{.*}} reduction(add) {
func.func @main(%q: !graph.tensor<[2, 32, 4], f32>, %k: !graph.tensor<[2, 4, 96], f32>, %m: !graph.tensor<[32, 96], i1>, %v: !graph.tensor<[2, 96, 16], f32>) -> !graph.tensor<[2, 32, 16], f32> {
  %z = graph.constant {literal = #graph.literal<[-1.0e30]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %s = graph.matmul %q, %k : (!graph.tensor<[2, 32, 4], f32>, !graph.tensor<[2, 4, 96], f32>) -> !graph.tensor<[2, 32, 96], f32>
  %w = graph.where %m, %s, %z : (!graph.tensor<[32, 96], i1>, !graph.tensor<[2, 32, 96], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 32, 96], f32>
  %p = graph.softmax %w {axis = -1 : i64} : (!graph.tensor<[2, 32, 96], f32>) -> !graph.tensor<[2, 32, 96], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[2, 32, 96], f32>, !graph.tensor<[2, 96, 16], f32>) -> !graph.tensor<[2, 32, 16], f32>
  func.return %y : !graph.tensor<[2, 32, 16], f32>
}
