// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// A matrix product, 16 registers of 8 lanes: sums of 6 rows by 2 vectors stay in registers, the weight lies in panels of
// 16 columns, panels run in parallel. Four terms are written out: the multiply-adds of one are few for an iteration.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-SAME: %a1: !loop.buffer<[64, 32], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [2, 64, 16]>
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK-NEXT: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[ZERO:[a-z_0-9]+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: loop.store %[[ZERO]], %[[SUMS]]
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 4 unroll reduction(add) {
// CHECK-NEXT: loop.for %[[II:[a-z_0-9]+]] = 0 to 6 unroll {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[6 * %[[IO]] + %[[II]], 4 * %[[KO]] + %[[KI]]]
// CHECK-NEXT: loop.load %a1[4 * %[[KO]] + %[[KI]], 16 * %[[JO]] + %[[JI]]]
// CHECK-NEXT: loop.load %[[SUMS]][%[[II]], %[[JI]]]
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %[[SUMS]][%[[II]], %[[JI]]]
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 6 unroll {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[SUM:[a-z_0-9]+]] = loop.load %[[SUMS]][%[[R]], %[[C]]]
// CHECK-NEXT: loop.store %[[SUM]], %a2[6 * %[[IO]] + %[[R]], 16 * %[[JO]] + %[[C]]]
func.func @main(%x: !graph.tensor<[12, 64], f32>) -> !graph.tensor<[12, 32], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[64, 32]>, element = f32} : () -> !graph.tensor<[64, 32], f32>
  %y = graph.matmul %x, %w : (!graph.tensor<[12, 64], f32>, !graph.tensor<[64, 32], f32>) -> !graph.tensor<[12, 32], f32>
  func.return %y : !graph.tensor<[12, 32], f32>
}

// -----

// Bias and activation are applied to the sums as they leave the registers; the temporary is gone. The sums fill the
// registers, so no more of the reduction is written out than four terms.
// CHECK-LABEL: loop.kernel @matmul_add_relu_
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.for %ko = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[SUM:[a-z_0-9]+]] = loop.load %t_r[
// CHECK-NEXT: %[[BIAS:[a-z_0-9]+]] = loop.load %a2[
// CHECK-NEXT: %[[SHIFTED:[a-z_0-9]+]] = arith.addf %[[SUM]], %[[BIAS]]
// CHECK: arith.maximumf %[[SHIFTED]]
// CHECK-NEXT: loop.store %{{.*}}, %a3[
func.func @main(%x: !graph.tensor<[6, 8], f32>, %bias: !graph.tensor<[16], f32>) -> !graph.tensor<[6, 16], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[8, 16]>, element = f32} : () -> !graph.tensor<[8, 16], f32>
  %p = graph.matmul %x, %w : (!graph.tensor<[6, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[6, 16], f32>
  %s = graph.add %p, %bias : (!graph.tensor<[6, 16], f32>, !graph.tensor<[16], f32>) -> !graph.tensor<[6, 16], f32>
  %y = graph.relu %s : (!graph.tensor<[6, 16], f32>) -> !graph.tensor<[6, 16], f32>
  func.return %y : !graph.tensor<[6, 16], f32>
}

// -----

// Columns and rows that only a call knows: whole tiles, then rows by ever smaller tiles, and what is left of the columns as
// vectors of which the last is masked. No part is scalar.
// CHECK-LABEL: loop.kernel @matmul_{{[0-9a-f]+}}[n0, n1]
// CHECK: loop.for %jo = 0 to (n1 floordiv 16)
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %{{.*}} = 0 to ((n0 mod 6) floordiv 3)
// CHECK: loop.alloc registers : !loop.buffer<[3, 16], f32
// CHECK: loop.alloc registers : !loop.buffer<[2, 16], f32
// CHECK: loop.alloc registers : !loop.buffer<[1, 16], f32
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to -(-(n1 mod 16) floordiv 8)
// CHECK: loop.alloc registers : !loop.buffer<[6, 8], f32
// CHECK: loop.for %{{.*}} = 0 to min(-8 * %[[JO]] + (n1 mod 16), 8) unroll vector(8)
func.func @main(%x: !graph.tensor<[m, 64], f32>, %w: !graph.tensor<[64, n], f32>) -> !graph.tensor<[m, n], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[m, 64], f32>, !graph.tensor<[64, n], f32>) -> !graph.tensor<[m, n], f32>
  func.return %y : !graph.tensor<[m, n], f32>
}

// -----

// An operand of a call that is larger than the second cache, and that many rows read, is copied into panels first
// where these are too few for threads to share. All rows go through one panel after the other; both loops become one,
// for threads to share. A long sum is one of the sums of 128 products.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: %a1_w = loop.alloc workspace : !loop.buffer<[2048, 64], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [4, 2048, 16]>
// CHECK-NEXT: loop.for %[[B:[a-z_0-9]+]] = 0 to 256 parallel {
// CHECK-NEXT: loop.for %[[P:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[K:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %a1[8 * %[[B]] + %[[K]], 16 * %[[P]] + %[[C]]]
// CHECK-NEXT: loop.store %[[W]], %a1_w[8 * %[[B]] + %[[K]], 16 * %[[P]] + %[[C]]]
// CHECK: loop.for %[[T:[a-z_0-9]+]] = 0 to 512 parallel {
// CHECK: %a2_r = loop.alloc registers
// CHECK: loop.for %ko = 0 to 16 reduction(add) {
// CHECK-NEXT: %[[PART:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %kio = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %kii = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %a1_w[128 * %ko + 4 * %kio + %kii, %{{.*}} + 16 * (%[[T]] floordiv 128)]
// CHECK: loop.store %{{.*}}, %[[PART]]
// CHECK: loop.load %a2_r
// CHECK-NEXT: loop.load %[[PART]]
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %a2_r
func.func @main(%x: !graph.tensor<[768, 2048], f32>, %w: !graph.tensor<[2048, 64], f32>) -> !graph.tensor<[768, 64], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[768, 2048], f32>, !graph.tensor<[2048, 64], f32>) -> !graph.tensor<[768, 64], f32>
  func.return %y : !graph.tensor<[768, 64], f32>
}

// -----

// Else each panel is copied onto the stack by who computes with it, and stays in the second cache for all rows. The
// first tile of rows copies it, each row of it right before it is multiplied.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NEXT: loop.for %jo = 0 to 16 parallel {
// CHECK-NEXT: %a1_s = loop.alloc scratch : !loop.buffer<[1024, 16], f32
// CHECK-NEXT: loop.for %[[F:[a-z_0-9]+]] = 0 to 1 {
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 8 reduction(add) {
// CHECK: loop.for %[[KIO:[a-z_0-9]+]] = 0 to 8 reduction(add) {
// CHECK: loop.for %[[KIIO:[a-z_0-9]+]] = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %[[KIII:[a-z_0-9]+]] = 0 to 4 unroll reduction(add) {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %a1[1024 * %[[F]] + 128 * %[[KO]] + 16 * %[[KIO]] + 4 * %[[KIIO]] + %[[KIII]], 16 * %jo + %[[C]]]
// CHECK-NEXT: loop.store %[[W]], %a1_s[1024 * %[[F]] + 128 * %[[KO]] + 16 * %[[KIO]] + 4 * %[[KIIO]] + %[[KIII]], %[[C]]]
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: loop.load %a1_s[128 * %[[KO]] + 16 * %[[KIO]] + 4 * %[[KIIO]] + %[[KIII]], %{{.*}}]
// The rows are read a block of the sum ahead, a line of each at a time, at its end those of the next tile; the lines that
// the next tile writes come ahead, too.
// CHECK: loop.for %ior = 0 to 127 {
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %kio = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 16 step 16 unroll {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to 6 unroll {
// CHECK-NEXT: loop.prefetch %a0[6 * %ior + %[[R]] + 6 * ((%ko + 1) floordiv 8) + 6, 16 * %kio + %[[L]] + 128 * ((%ko + 1) mod 8)]
// CHECK: loop.for %kiio = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %kiii = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %a1_s[128 * %ko + 16 * %kio + 4 * %kiio + %kiii, %{{.*}}]
// CHECK: loop.prefetch %a2[6 * %ior + %{{.*}} + 12, 16 * %jo + %{{.*}}]
func.func @main(%x: !graph.tensor<[768, 1024], f32>, %w: !graph.tensor<[1024, 256], f32>) -> !graph.tensor<[768, 256], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[768, 1024], f32>, !graph.tensor<[1024, 256], f32>) -> !graph.tensor<[768, 256], f32>
  func.return %y : !graph.tensor<[768, 256], f32>
}

// -----

// Columns that lie apart are copied onto the stack a panel at a time, in blocks of 8 by 8 that are turned on the way.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %jo = 0 to 2 parallel {
// CHECK: %a1_s = loop.alloc scratch : !loop.buffer<[16, 20], f32, [d1, d0] in [20, 16]>
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %a1[16 * %jo + 8 * %[[JO]] + %[[JI]], 8 * %[[KO]] + %[[KI]]]
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.load %a1_s[
func.func @main(%x: !graph.tensor<[12, 20], f32>, %w: !graph.tensor<[32, 20], f32>) -> !graph.tensor<[12, 32], f32> {
  %y = graph.einsum %x, %w {equation = "ik,jk->ij"} : (!graph.tensor<[12, 20], f32>, !graph.tensor<[32, 20], f32>) -> !graph.tensor<[12, 32], f32>
  func.return %y : !graph.tensor<[12, 32], f32>
}

// -----

// The tiles of an unknown number of rows, whole ones and smaller ones, share a panel.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.alloc scratch : !loop.buffer<[16, 20], f32
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.for %{{.*}} = 0 to (n0 floordiv 6) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %{{.*}} = 0 to ((n0 mod 6) floordiv 3) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[3, 16], f32
// CHECK: loop.for %{{.*}} = 0 to (((n0 mod 6) mod 3) floordiv 2) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[2, 16], f32
// CHECK: loop.for %{{.*}} = 0 to (((n0 mod 6) mod 3) mod 2) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[1, 16], f32
// CHECK-NOT: parallel
func.func @main(%x: !graph.tensor<[m, 20], f32>, %w: !graph.tensor<[32, 20], f32>) -> !graph.tensor<[m, 32], f32> {
  %y = graph.einsum %x, %w {equation = "ik,jk->ij"} : (!graph.tensor<[m, 20], f32>, !graph.tensor<[32, 20], f32>) -> !graph.tensor<[m, 32], f32>
  func.return %y : !graph.tensor<[m, 32], f32>
}

// -----

// So do the tiles of rows for each of many tiles of columns of a weight.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %jo = 0 to 12 parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to (n0 floordiv 2) {
// CHECK: loop.for %{{.*}} = 0 to (n0 mod 2) {
// CHECK-NOT: parallel
func.func @main(%x: !graph.tensor<[m, 20], f32>) -> !graph.tensor<[m, 384], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[20, 384]>, element = f32} : () -> !graph.tensor<[20, 384], f32>
  %y = graph.matmul %x, %w : (!graph.tensor<[m, 20], f32>, !graph.tensor<[20, 384], f32>) -> !graph.tensor<[m, 384], f32>
  func.return %y : !graph.tensor<[m, 384], f32>
}

// -----

// One row and a matrix of long rows: eight of them are read at once and added up before they join the sums in memory.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %jc = 0 to 2 parallel {
// CHECK: loop.for %ko = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %[[JP:[a-z_0-9]+]] = 0 to 16 {
// CHECK-NEXT: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1, 64], f32>
// CHECK: loop.for %{{.*}} = 0 to 8 unroll reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 64 unroll vector(8) {
// CHECK: loop.load %a2[0, 1024 * %jc + 64 * %[[JP]]
// CHECK: loop.store %{{.*}}, %a2[0, 1024 * %jc + 64 * %[[JP]]
func.func @main(%x: !graph.tensor<[1, 64], f32>, %w: !graph.tensor<[64, 2048], f32>) -> !graph.tensor<[1, 2048], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[1, 64], f32>, !graph.tensor<[64, 2048], f32>) -> !graph.tensor<[1, 2048], f32>
  func.return %y : !graph.tensor<[1, 2048], f32>
}

// -----

// Where both operands and the result go on from row to row of an image, its rows are one loop: tiles of 16 neighbours out
// of 49 fill the vectors that rows of 7 would not. The sums, at first in the result, get a buffer with one dim for both.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 3
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %co = 0 to 6 reduction(add) {
// CHECK-NEXT: loop.for %ci = 0 to 4 unroll reduction(add) {
// CHECK: loop.for %[[JI:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK: loop.load %a0[4 * %co + %ci, ((16 * %[[JO]] + %[[JI]]) floordiv 7), ((16 * %[[JO]] + %[[JI]]) mod 7)]
func.func @main(%x: !graph.tensor<[24, 7, 7], f32>) -> !graph.tensor<[6, 7, 7], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[6, 24]>, element = f32} : () -> !graph.tensor<[6, 24], f32>
  %y = graph.einsum %x, %w {equation = "cij,oc->oij"} : (!graph.tensor<[24, 7, 7], f32>, !graph.tensor<[6, 24], f32>) -> !graph.tensor<[6, 7, 7], f32>
  func.return %y : !graph.tensor<[6, 7, 7], f32>
}

// -----

// Every other column of an image is picked out of whole vectors where the results would else be stored apart: sums of 6
// channels by 16 columns, loaded as they lie, stored side by side.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.for %s = 0 to 3 reduction(add) {
// CHECK: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[0, %c, 2 * %{{[a-z]+}} + %r, {{.*}}2 * %[[JI]]{{.*}}] : !loop.buffer<[1, 3, 65, 65], f32>
func.func @main(%x: !graph.tensor<[1, 3, 65, 65], f32>) -> !graph.tensor<[1, 12, 32, 32], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[12, 3, 3, 3]>, element = f32} : () -> !graph.tensor<[12, 3, 3, 3], f32>
  %y = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2, 2>} : (!graph.tensor<[1, 3, 65, 65], f32>, !graph.tensor<[12, 3, 3, 3], f32>) -> !graph.tensor<[1, 12, 32, 32], f32>
  func.return %y : !graph.tensor<[1, 12, 32, 32], f32>
}

// -----

// Sums of a length that only a call knows have a last block that may be shorter; of several loops the one is cut
// inside of which there are few terms.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %co = 0 to -(-n0 floordiv 17) reduction(add) {
// CHECK: loop.for %ci = 0 to min(-17 * %co + n0, 17) reduction(add) {
// CHECK: loop.for %ro = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %ri = 0 to 3 unroll reduction(add) {
func.func @main(%x: !graph.tensor<[c, 9, 12], f32>, %w: !graph.tensor<[c, 9, 32], f32>) -> !graph.tensor<[12, 32], f32> {
  %y = graph.einsum %x, %w {equation = "cri,crj->ij"} : (!graph.tensor<[c, 9, 12], f32>, !graph.tensor<[c, 9, 32], f32>) -> !graph.tensor<[12, 32], f32>
  func.return %y : !graph.tensor<[12, 32], f32>
}

// -----

// A sum too long for a panel in the second cache goes through blocks: all rows over a part of the panel, the sums in memory.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %{{.*}} = 0 to 4 parallel {
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 10 reduction(add) {
// CHECK-NEXT: loop.alloc scratch : !loop.buffer<[2000, 16], f32
// CHECK: loop.for %{{.*}} = 0 to 10 {
// CHECK: loop.alloc registers
// CHECK: loop.load %a2[
func.func @main(%x: !graph.tensor<[64, 20000], f32>, %y: !graph.tensor<[20000, 64], f32>) -> !graph.tensor<[64, 64], f32> {
  %z = graph.matmul %x, %y : (!graph.tensor<[64, 20000], f32>, !graph.tensor<[20000, 64], f32>) -> !graph.tensor<[64, 64], f32>
  func.return %z : !graph.tensor<[64, 64], f32>
}

// -----

// One row goes through a long sum at once: no part of the panel would be used again.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: scratch
// CHECK: loop.for %{{.*}} = 0 to 2 parallel {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[1, 64], f32
// CHECK-NOT: scratch
// CHECK: loop.load %a1[
// CHECK-NOT: scratch
func.func @main(%x: !graph.tensor<[1, 20000], f32>) -> !graph.tensor<[1, 128], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[20000, 128]>, element = f32} : () -> !graph.tensor<[20000, 128], f32>
  %z = graph.matmul %x, %w : (!graph.tensor<[1, 20000], f32>, !graph.tensor<[20000, 128], f32>) -> !graph.tensor<[1, 128], f32>
  func.return %z : !graph.tensor<[1, 128], f32>
}

// -----

// Rows that are columns of a large matrix are read once: a tile of them goes through all columns of the other operand.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4000 parallel {
// CHECK-NEXT: loop.alloc scratch : !loop.buffer<[64, 5], f32>
// CHECK: loop.for %{{.*}} = 0 to 2 {
func.func @main(%x: !graph.tensor<[64, 20000], f32>, %y: !graph.tensor<[64, 32], f32>) -> !graph.tensor<[20000, 32], f32> {
  %z = graph.einsum %x, %y {equation = "ki,kj->ij"} : (!graph.tensor<[64, 20000], f32>, !graph.tensor<[64, 32], f32>) -> !graph.tensor<[20000, 32], f32>
  func.return %z : !graph.tensor<[20000, 32], f32>
}

// -----

// Narrow floats of a call are extended once where many products use each: rows into a copy like the operand.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: %a0_w = loop.alloc workspace : !loop.buffer<[24, 32], f32>
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 24 parallel {
// CHECK-NEXT: loop.for %[[K:[a-z_0-9]+]] = 0 to 32 vector(8) {
// CHECK-NEXT: loop.load %a0[%[[I]], %[[K]]] : !loop.buffer<[24, 32], f16>
// CHECK-NEXT: arith.extf
// CHECK-NEXT: loop.store %{{.*}}, %a0_w[%[[I]], %[[K]]]
// CHECK-NOT: loop.load %a0[
// CHECK: loop.load %a0_w[{{.*}}] : !loop.buffer<[24, 32], f32>
// CHECK-NEXT: loop.load %a1[
// CHECK-NEXT: arith.extf
func.func @main(%x: !graph.tensor<[24, 32], f16>, %w: !graph.tensor<[32, 64], f16>) -> !graph.tensor<[24, 64], f16> {
  %y = graph.matmul %x, %w : (!graph.tensor<[24, 32], f16>, !graph.tensor<[32, 64], f16>) -> !graph.tensor<[24, 64], f16>
  func.return %y : !graph.tensor<[24, 64], f16>
}

// -----

// Fewer rows pay for copies of panels of an operand whose rows are a power of two apart: they crowd into few sets of the caches.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: %a1_s = loop.alloc scratch
func.func @main(%x: !graph.tensor<[64, 512], f32>, %w: !graph.tensor<[512, 1024], f32>) -> !graph.tensor<[64, 1024], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[64, 512], f32>, !graph.tensor<[512, 1024], f32>) -> !graph.tensor<[64, 1024], f32>
  func.return %y : !graph.tensor<[64, 1024], f32>
}

// -----

// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: loop.alloc {{workspace|scratch}}
func.func @main(%x: !graph.tensor<[8, 512], f32>, %w: !graph.tensor<[512, 168], f32>) -> !graph.tensor<[8, 168], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[8, 512], f32>, !graph.tensor<[512, 168], f32>) -> !graph.tensor<[8, 168], f32>
  func.return %y : !graph.tensor<[8, 168], f32>
}

// -----

// Channels are the vectors of the sums, rows are what lies together in the result: a tile that fills vectors
// either way is turned in registers, block by block, on its way to memory.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %ko = 0 to 30 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK: loop.for %{{.*}} = 0 to 1 unroll {
// CHECK-NEXT: loop.for %[[O:[a-z_0-9]+]] = 0 to 1 unroll {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK-NEXT: %[[V:[0-9]+]] = loop.load %a2_r[8 * %[[O]] + %[[I]], {{.*}}]
// CHECK-NEXT: loop.store %[[V]], %a2[{{.*}}8 * %[[O]] + %[[I]], {{.*}}]
func.func @main(%x: !graph.tensor<[8, 120], f32>) -> !graph.tensor<[8, 8], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[8, 120]>, element = f32} : () -> !graph.tensor<[8, 120], f32>
  %y = graph.einsum %x, %w {equation = "ik,ok->oi"} : (!graph.tensor<[8, 120], f32>, !graph.tensor<[8, 120], f32>) -> !graph.tensor<[8, 8], f32>
  func.return %y : !graph.tensor<[8, 8], f32>
}

// -----

// A weight of more than a quarter of the second cache: while the tiles of rows are computed over one, a
// row of the next, a line, comes into the second cache for each that is read. One thread's tiles of rows follow each other.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 128 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 4 {
// CHECK: loop.for %ko = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK-NEXT: %[[ROW:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1, 16], f32>
// CHECK-NEXT: loop.for %[[P:[a-z_0-9]+]] = 0 to 16 step 16 unroll {
// CHECK-NEXT: loop.prefetch %a1[4 * %ko + %ki, 16 * %[[JO]] + %[[P]] + 16] locality(2)
// CHECK: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %a1[4 * %ko + %ki, 16 * %[[JO]] + %[[C]]]
// CHECK-NEXT: loop.store %[[W]], %[[ROW]][0, %[[C]]]
// CHECK: loop.load %a0[6 * %[[IO]]
// CHECK-NEXT: loop.load %[[ROW]][0,
func.func @main(%x: !graph.tensor<[24, 128], f32>) -> !graph.tensor<[24, 2048], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[128, 2048]>, element = f32} : () -> !graph.tensor<[128, 2048], f32>
  %y = graph.matmul %x, %w : (!graph.tensor<[24, 128], f32>, !graph.tensor<[128, 2048], f32>) -> !graph.tensor<[24, 2048], f32>
  func.return %y : !graph.tensor<[24, 2048], f32>
}

// -----

// A long K goes by blocks: all rows of a block and a few panels are multiplied with a part of K before the next one, so
// that L1 keeps a panel's part for all tiles of rows, and L2 the rows'. The sums of a part are added to those in memory.
// A weight is read from its panels, and not copied once more.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to 18 parallel {
// CHECK: arith.constant 0.000000e+00
// CHECK-NEXT: loop.store %{{.*}}, %a2[
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to min(-5 * (%[[B]] floordiv 2) + 42, 5) {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 64 {
// CHECK-NEXT: %[[PART:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[4, 24], f32
// CHECK: loop.for %[[KI:[a-z_0-9]+]] = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %[[KII:[a-z_0-9]+]] = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %a0[4 * %[[IO]] + %{{.*}} + 256 * (%[[B]] mod 2), 128 * %[[KO]] + 4 * %[[KI]] + %[[KII]]]
// CHECK: loop.store %{{.*}}, %[[PART]]
// CHECK: %[[SUM:[a-z_0-9]+]] = loop.load %a2[
// CHECK-NEXT: %[[MORE:[a-z_0-9]+]] = loop.load %[[PART]]
// CHECK-NEXT: arith.addf %[[SUM]], %[[MORE]]
// CHECK-NEXT: loop.store %{{.*}}, %a2[
// CHECK-NOT: loop.alloc scratch
func.func @main(%x: !graph.tensor<[512, 1024], f32>) -> !graph.tensor<[512, 1024], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[1024, 1024]>, element = f32} : () -> !graph.tensor<[1024, 1024], f32>
  %y = graph.matmul %x, %w : (!graph.tensor<[512, 1024], f32>, !graph.tensor<[1024, 1024], f32>) -> !graph.tensor<[512, 1024], f32>
  func.return %y : !graph.tensor<[512, 1024], f32>
}

// -----

// Of an unknown number of rows whole blocks do; the rest goes a panel at a time, all of K at once, its sums in the same
// order.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %[[JC:[a-z_0-9]+]] = 0 to 8 parallel {
// CHECK-NEXT: loop.for %[[IC:[a-z_0-9]+]] = 0 to (n0 floordiv 128) {
// CHECK: loop.for %{{.*}} = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 2 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 32 {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[4, 24], f32
// CHECK: loop.for %{{.*}} = 0 to 16 parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to ((n0 mod 128) floordiv 4) {
// CHECK: loop.for %{{.*}} = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[4, 24], f32
builtin.module {
  func.func @main(%x: !graph.tensor<[n, 1024], f32>) -> !graph.tensor<[n, 384], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[1024, 384]>, element = f32} : () -> !graph.tensor<[1024, 384], f32>
    %y = graph.matmul %x, %w : (!graph.tensor<[n, 1024], f32>, !graph.tensor<[1024, 384], f32>) -> !graph.tensor<[n, 384], f32>
    func.return %y : !graph.tensor<[n, 384], f32>
  }
}

// -----

// The sums of a convolution's block are kept with the channels next to each other; bias and activation are applied to
// them, and transposed, when K is through.
// CHECK-LABEL: loop.kernel @conv_relu_
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to 8 parallel {
// CHECK-NEXT: %[[SUMS:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 64, 7, 28], f32, [d0, d2, d3, d1] in [1, 7, 28, 64]>
// CHECK: loop.for %[[CO:[a-z_0-9]+]] = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[H:[a-z_0-9]+]] = 0 to 7 {
// CHECK: loop.for %[[CI:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %[[S:[a-z_0-9]+]] = 0 to 3 unroll reduction(add) {
// CHECK: loop.load %a0[0, 16 * %[[CO]] + %[[CI]], 2 * %[[H]] + %[[R]] + 14 * (%[[B]] floordiv 2),
// CHECK: loop.load %[[SUMS]][
// CHECK: loop.store %{{.*}}, %[[SUMS]][
// CHECK: arith.maximumf
// CHECK-NEXT: loop.store %{{.*}}, %[[DONE:[a-z_0-9]+]][
// CHECK: loop.for %{{.*}} = 0 to 16 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(16) {
// CHECK-NEXT: loop.load %[[DONE]]
// CHECK-NEXT: loop.store %{{.*}}, %a3[
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[1, 128, 57, 57], f32>, %b: !graph.tensor<[128], f32>) -> !graph.tensor<[1, 128, 28, 28], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[128, 128, 3, 3]>, element = f32} : () -> !graph.tensor<[128, 128, 3, 3], f32>
    %y = graph.conv %x, %w, %b {group = 1 : i64, strides = array<i64: 2, 2>} : (!graph.tensor<[1, 128, 57, 57], f32>, !graph.tensor<[128, 128, 3, 3], f32>, !graph.tensor<[128], f32>) -> !graph.tensor<[1, 128, 28, 28], f32>
    %z = graph.relu %y : (!graph.tensor<[1, 128, 28, 28], f32>) -> !graph.tensor<[1, 128, 28, 28], f32>
    func.return %z : !graph.tensor<[1, 128, 28, 28], f32>
  }
}

// -----

// One tile of rows reads each panel once, in the order in which it lies. Where a line takes as long as 12 products, nothing comes ahead.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: loop.prefetch
func.func @main(%x: !graph.tensor<[6, 128], f32>) -> !graph.tensor<[6, 2048], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[128, 2048]>, element = f32} : () -> !graph.tensor<[128, 2048], f32>
  %y = graph.matmul %x, %w : (!graph.tensor<[6, 128], f32>, !graph.tensor<[128, 2048], f32>) -> !graph.tensor<[6, 2048], f32>
  func.return %y : !graph.tensor<[6, 2048], f32>
}

// -----

// Where it takes half as long, the prefetcher is late.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.prefetch %a1
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @main(%x: !graph.tensor<[8, 768], f32>) -> !graph.tensor<[8, 1024], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[768, 1024]>, element = f32} : () -> !graph.tensor<[768, 1024], f32>
    %y = graph.matmul %x, %w : (!graph.tensor<[8, 768], f32>, !graph.tensor<[768, 1024], f32>) -> !graph.tensor<[8, 1024], f32>
    func.return %y : !graph.tensor<[8, 1024], f32>
  }
}

// -----

// All of the images do not stay in the second cache from one panel of the weight to the next, but one image and all
// panels do: images are outside. They are few for threads to share, so that they and the tiles of rows become one loop.
// Panels are innermost, so that rows of the result are written whole.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %[[IK:[a-z_0-9]+]] = 0 to 128 parallel {
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 16 {
// CHECK: loop.load %a0[(%[[IK]] floordiv 16), [[C:.*]], %{{[a-z_0-9]+}} + 6 * (%[[IK]] mod 16)]
// CHECK-NEXT: loop.load %a1[[[C]], 16 * %[[JO]] + %{{[a-z_0-9]+}}]
func.func @main(%x: !graph.tensor<[8, 160, 96], f32>) -> !graph.tensor<[8, 96, 256], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[160, 256]>, element = f32} : () -> !graph.tensor<[160, 256], f32>
  %y = graph.einsum %x, %w {equation = "ick,cj->ikj"} : (!graph.tensor<[8, 160, 96], f32>, !graph.tensor<[160, 256], f32>) -> !graph.tensor<[8, 96, 256], f32>
  func.return %y : !graph.tensor<[8, 96, 256], f32>
}

// -----

// Of fewer channels all images stay there: panels are outside of the tiles of rows, image by image.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %[[IJ:[a-z_0-9]+]] = 0 to 128 parallel {
// CHECK-NEXT: loop.for %[[KO:[a-z_0-9]+]] = 0 to 16 {
func.func @main(%x: !graph.tensor<[8, 40, 96], f32>) -> !graph.tensor<[8, 96, 256], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[40, 256]>, element = f32} : () -> !graph.tensor<[40, 256], f32>
  %y = graph.einsum %x, %w {equation = "ick,cj->ikj"} : (!graph.tensor<[8, 40, 96], f32>, !graph.tensor<[40, 256], f32>) -> !graph.tensor<[8, 96, 256], f32>
  func.return %y : !graph.tensor<[8, 96, 256], f32>
}

// -----

// A sum that is in blocks of half the longest already stays in these: the sums of each are added to the tile's.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: %[[PART:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %{{.*}} = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 unroll reduction(add) {
// CHECK: loop.store %{{.*}}, %[[PART]][
// CHECK: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %[[SUMS]][
func.func @main(%x: !graph.tensor<[12, 128], f32>) -> !graph.tensor<[12, 32], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[128, 32]>, element = f32} : () -> !graph.tensor<[128, 32], f32>
  %y = graph.einsum %x, %w {equation = "ik,kj->ij", block = 64 : i64} : (!graph.tensor<[12, 128], f32>, !graph.tensor<[128, 32], f32>) -> !graph.tensor<[12, 32], f32>
  func.return %y : !graph.tensor<[12, 32], f32>
}

// -----

// An operand that the second cache holds, whose rows of a panel are a line each, a power of two apart: in few sets of the
// first cache. Its panels are copied one at a time, too.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 parallel {
// CHECK-NEXT: loop.alloc scratch : !loop.buffer<[256, 16], f32
func.func @main(%x: !graph.tensor<[256, 256], f32>, %w: !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  func.return %y : !graph.tensor<[256, 256], f32>
}

// -----

// Their lines do not crowd where they are not so far apart: the operand is read where it lies.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.load %a1[
func.func @main(%x: !graph.tensor<[256, 256], f32>, %w: !graph.tensor<[256, 272], f32>) -> !graph.tensor<[256, 272], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 272], f32>) -> !graph.tensor<[256, 272], f32>
  func.return %y : !graph.tensor<[256, 272], f32>
}

// -----

// 128 rows are tiles of 6 and of 5, so that no few of them are left over. All go through each panel of a large weight
// together, which is read from memory once.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 18 {
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %{{.*}} = 0 to 4 {
// CHECK: loop.alloc registers : !loop.buffer<[5, 16], f32
// CHECK-NOT: parallel
func.func @main(%x: !graph.tensor<[128, 128], f32>) -> !graph.tensor<[128, 1024], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[128, 1024]>, element = f32} : () -> !graph.tensor<[128, 1024], f32>
  %y = graph.matmul %x, %w : (!graph.tensor<[128, 128], f32>, !graph.tensor<[128, 1024], f32>) -> !graph.tensor<[128, 1024], f32>
  func.return %y : !graph.tensor<[128, 1024], f32>
}

// -----

// The pixels of an image are columns through two dims: all of it is copied into panels where these are one dim, whole
// panels in vectors and what is left apart.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.alloc workspace : !loop.buffer<[1024, 196], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [13, 1024, 16]>
// CHECK: loop.load %a0[{{.*}} floordiv 14), {{.*}} mod 14)]
// CHECK: loop.for %{{.*}} = 0 to 12
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.load %a0_w[
func.func @main(%x: !graph.tensor<[1024, 14, 14], f32>) -> !graph.tensor<[256, 14, 14], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[256, 1024]>, element = f32} : () -> !graph.tensor<[256, 1024], f32>
  %y = graph.einsum %x, %w {equation = "cij,oc->oij"} : (!graph.tensor<[1024, 14, 14], f32>, !graph.tensor<[256, 1024], f32>) -> !graph.tensor<[256, 14, 14], f32>
  func.return %y : !graph.tensor<[256, 14, 14], f32>
}

// -----

// Lanes of a tile that lie apart in memory, where its rows lie side by side, are transposed in registers on their way
// there, with what an epilogue adds to them, which comes the same way.
// CHECK-LABEL: loop.kernel @conv_add_
// CHECK: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers
// CHECK: %[[MORE:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %[[P:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(16) {
// CHECK-NEXT: loop.load %a3[{{.*}}%[[C]], {{.*}}%[[P]]]
// CHECK: %[[DONE:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.load %[[SUMS]]
// CHECK: loop.load %[[MORE]]
// CHECK: loop.store %{{.*}}, %[[DONE]]
// CHECK: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll {
// CHECK-NEXT: loop.for %[[P:[a-z_0-9]+]] = 0 to 8 unroll vector(16) {
// CHECK-NEXT: loop.load %[[DONE]]
// CHECK-NEXT: loop.store %{{.*}}, %a4[{{.*}}%[[C]], {{.*}}%[[P]]]
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[n, 40, 16, 16], f32>, %bias: !graph.tensor<[32], f32>, %more: !graph.tensor<[n, 32, 8, 8], f32>) -> !graph.tensor<[n, 32, 8, 8], f32> {
    %w = graph.constant {key = "w", shape = #graph.shape<[32, 40, 1, 1]>, element = f32} : () -> !graph.tensor<[32, 40, 1, 1], f32>
    %y = graph.conv %x, %w, %bias {group = 1 : i64, strides = array<i64: 2, 2>} : (!graph.tensor<[n, 40, 16, 16], f32>, !graph.tensor<[32, 40, 1, 1], f32>, !graph.tensor<[32], f32>) -> !graph.tensor<[n, 32, 8, 8], f32>
    %z = graph.add %y, %more : (!graph.tensor<[n, 32, 8, 8], f32>, !graph.tensor<[n, 32, 8, 8], f32>) -> !graph.tensor<[n, 32, 8, 8], f32>
    func.return %z : !graph.tensor<[n, 32, 8, 8], f32>
  }
}

// -----

// Where rows go through two dims of the result, a tile is no box of it: the sums themselves are transposed as they leave
// the registers.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1, 32, 12], f32, [d0, d2, d1] in [1, 12, 32]>
// CHECK: loop.for %[[O:[a-z_0-9]+]] = 0 to 16 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 12 unroll vector(16) {
// CHECK-NEXT: loop.load %[[SUMS]]
// CHECK-NEXT: loop.store %{{.*}}, %a2[{{.*}}%[[O]], ({{.*}} floordiv 9), ({{.*}} mod 9)]
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%s: !graph.tensor<[4, 1, 256, 196], f32>, %c: !graph.tensor<[4, 1, 256, 9, 196], f32>) -> !graph.tensor<[1, 256, 256, 9], f32> {
    %y = graph.einsum %s, %c {equation = "ngop,ngctp->goct"} : (!graph.tensor<[4, 1, 256, 196], f32>, !graph.tensor<[4, 1, 256, 9, 196], f32>) -> !graph.tensor<[1, 256, 256, 9], f32>
    func.return %y : !graph.tensor<[1, 256, 256, 9], f32>
  }
}

// -----

// A matrix times a vector is read along its rows: lanes are added up in the end.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 40 parallel {
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 32 unroll vector(8) {
// CHECK-NEXT: loop.load %a0[%[[I]], 32 * %[[KO]] + %[[KI]]]
func.func @main(%x: !graph.tensor<[40, 72], f32>, %y: !graph.tensor<[72, 1], f32>) -> !graph.tensor<[40, 1], f32> {
  %z = graph.matmul %x, %y : (!graph.tensor<[40, 72], f32>, !graph.tensor<[72, 1], f32>) -> !graph.tensor<[40, 1], f32>
  func.return %z : !graph.tensor<[40, 1], f32>
}

// -----

// The columns of a convolution whose image's size only a call knows are its channels where that is the least loss for
// images of all sizes; the filter is packed in front of it.
// CHECK-LABEL: loop.kernel @conv_
// CHECK: loop.alloc registers : !loop.buffer<[1, 32, 1, 8], f32, [d0, d2, d3, d1]
builtin.module attributes {weft.target = "x86-64-v4"} {
  func.func @main(%x: !graph.tensor<[1, 64, h, w], f32>, %f: !graph.tensor<[48, 64, 3, 3], f32>) -> !graph.tensor<[1, 48, h, w], f32> {
    %y = graph.conv %x, %f {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, h, w], f32>, !graph.tensor<[48, 64, 3, 3], f32>) -> !graph.tensor<[1, 48, h, w], f32>
    func.return %y : !graph.tensor<[1, 48, h, w], f32>
  }
}

// -----

// The columns of a transposed operand are strided. One panel of them is nothing for threads to share, so it is packed in
// front of the rows, which they share.
// CHECK-LABEL: loop.kernel @transpose_matmul_
// CHECK: %[[P:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[16, 8], f32
// CHECK: loop.for %{{.*}} = 0 to 166 parallel {
// CHECK: loop.load %[[P]]
func.func @main(%x: !graph.tensor<[1000, 8], f32>, %w: !graph.tensor<[16, 8], f32>) -> !graph.tensor<[1000, 16], f32> {
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[8, 16], f32>
  %y = graph.matmul %x, %t : (!graph.tensor<[1000, 8], f32>, !graph.tensor<[8, 16], f32>) -> !graph.tensor<[1000, 16], f32>
  func.return %y : !graph.tensor<[1000, 16], f32>
}
