// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// A batch dim of 1 is read at 0.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: loop.for %b = 0 to n0 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 6 {
// CHECK-NEXT: loop.for %[[K:[a-z_0-9]+]] = 0 to 5 reduction(add) {
// CHECK-NEXT: loop.load %a0[%b, %[[I]], %[[K]]]
// CHECK-NEXT: loop.load %a1[0, %[[K]], %[[J]]]
// CHECK-NEXT: loop.load %a2[%b, %[[I]], %[[J]]]
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %a2[%b, %[[I]], %[[J]]]
func.func @main(%x: !graph.tensor<[n, 4, 5], f32>, %w: !graph.tensor<[1, 5, 6], f32>) -> !graph.tensor<[n, 4, 6], f32> {
  %y = graph.matmul %x, %w : (!graph.tensor<[n, 4, 5], f32>, !graph.tensor<[1, 5, 6], f32>) -> !graph.tensor<[n, 4, 6], f32>
  func.return %y : !graph.tensor<[n, 4, 6], f32>
}

// -----

// A transposed operand is read where it lies; scale and addend come last, a factor of 1 not at all.
// CHECK-LABEL: loop.kernel @gemm_
// CHECK: %total = loop.alloc workspace : !loop.buffer<[n0, 6], f32>
// CHECK: loop.for %k = 0 to 5 reduction(add) {
// CHECK-NEXT: loop.load %a0[%[[I:[a-z_0-9]+]], %k]
// CHECK-NEXT: loop.load %a1[%[[J:[a-z_0-9]+]], %k]
// CHECK-NEXT: loop.load %total[%[[I]], %[[J]]]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 6 {
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = loop.load %total[%[[I]], %[[J]]]
// CHECK-NEXT: %[[TWO:[a-z_0-9]+]] = arith.constant 2.000000e+00
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = arith.mulf %[[T]], %[[TWO]]
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = loop.load %a2[%[[J]]]
// CHECK-NEXT: arith.addf %[[P]], %[[C]]
func.func @main(%a: !graph.tensor<[n, 5], f32>, %b: !graph.tensor<[6, 5], f32>, %c: !graph.tensor<[6], f32>) -> !graph.tensor<[n, 6], f32> {
  %y = graph.gemm %a, %b, %c {alpha = 2.0 : f64, beta = 1.0 : f64, transpose_a = false, transpose_b = true} : (!graph.tensor<[n, 5], f32>, !graph.tensor<[6, 5], f32>, !graph.tensor<[6], f32>) -> !graph.tensor<[n, 6], f32>
  func.return %y : !graph.tensor<[n, 6], f32>
}

// -----

// Products of bf16 are added up in f32.
// CHECK-LABEL: loop.kernel @matmul_
// CHECK: %total = loop.alloc workspace : !loop.buffer<[4, 4], f32>
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @main(%x: !graph.tensor<[4, 4], bf16>) -> !graph.tensor<[4, 4], bf16> {
  %y = graph.matmul %x, %x : (!graph.tensor<[4, 4], bf16>, !graph.tensor<[4, 4], bf16>) -> !graph.tensor<[4, 4], bf16>
  func.return %y : !graph.tensor<[4, 4], bf16>
}

// -----

// Letters of the result are loops, the others are summed: the nest of a matrix product.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.store %{{.*}}, %a2
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to 5 {
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to 4 reduction(add) {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[I:[a-z_0-9]+]], %[[K]]]
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = loop.load %a1[%[[J]], %[[K]]]
// CHECK-NEXT: arith.mulf %[[X]], %[[Y]] : f32
func.func @main(%x: !graph.tensor<[3, 4], f32>, %y: !graph.tensor<[5, 4], f32>) -> !graph.tensor<[3, 5], f32> {
  %z = graph.einsum %x, %y {equation = "ik,jk->ij"} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[5, 4], f32>) -> !graph.tensor<[3, 5], f32>
  func.return %z : !graph.tensor<[3, 5], f32>
}

// -----

// A sum in blocks of at most 8 terms: equal ones, of 6.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 6 reduction(add) {
// CHECK-NEXT: loop.load %a0[%{{.*}}, 6 * %[[KO]] + %[[KI]]]
// CHECK-NEXT: loop.load %a1[%{{.*}}, 6 * %[[KO]] + %[[KI]]]
func.func @main(%x: !graph.tensor<[3, 12], f32>, %y: !graph.tensor<[5, 12], f32>) -> !graph.tensor<[3, 5], f32> {
  %z = graph.einsum %x, %y {equation = "ik,jk->ij", block = 8 : i64} : (!graph.tensor<[3, 12], f32>, !graph.tensor<[5, 12], f32>) -> !graph.tensor<[3, 5], f32>
  func.return %z : !graph.tensor<[3, 5], f32>
}

// -----

// No size from 5 to 8 divides 11: one sum.
// CHECK-LABEL: loop.kernel @einsum_
// CHECK: loop.for %{{.*}} = 0 to 11 reduction(add) {
func.func @main(%x: !graph.tensor<[3, 11], f32>, %y: !graph.tensor<[5, 11], f32>) -> !graph.tensor<[3, 5], f32> {
  %z = graph.einsum %x, %y {equation = "ik,jk->ij", block = 8 : i64} : (!graph.tensor<[3, 11], f32>, !graph.tensor<[5, 11], f32>) -> !graph.tensor<[3, 5], f32>
  func.return %z : !graph.tensor<[3, 5], f32>
}
