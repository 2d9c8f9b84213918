// RUN: weft-opt %s --split-input-file -p weft-fuse-attention | filecheck %s

// Both products and what lies between them are one group; the scale of an operand becomes one of the scores.
// CHECK-LABEL: func.func @main
// CHECK: graph.fused(%{{.*}} = %k, %{{.*}} = %q, %{{.*}} = %m, %{{.*}} = %v)
// CHECK: %[[KT:[a-z_0-9]+]] = graph.transpose
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.matmul %{{.*}}, %[[KT]]
// CHECK-NEXT: graph.mul %[[S]]
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.softmax
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.yield
func.func @main(%q: !graph.tensor<[1, 2, 32, 8], f32>, %k: !graph.tensor<[1, 2, 32, 8], f32>, %v: !graph.tensor<[1, 2, 32, 8], f32>, %m: !graph.tensor<[32], f32>) -> !graph.tensor<[1, 2, 32, 8], f32> {
  %c = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %qs = graph.mul %q, %c : (!graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[1, 2, 32, 8], f32>
  %kt = graph.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (!graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 8, 32], f32>
  %s = graph.matmul %qs, %kt : (!graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[1, 2, 8, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %t = graph.add %s, %m : (!graph.tensor<[1, 2, 32, 32], f32>, !graph.tensor<[32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %p = graph.softmax %t {axis = -1 : i64} : (!graph.tensor<[1, 2, 32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[1, 2, 32, 32], f32>, !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 32, 8], f32>
  func.return %y : !graph.tensor<[1, 2, 32, 8], f32>
}

// -----

// Scores that somebody else wants have to be in memory.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.fused
// CHECK: func.return
func.func @main(%q: !graph.tensor<[1, 2, 32, 8], f32>, %k: !graph.tensor<[1, 2, 8, 32], f32>, %v: !graph.tensor<[1, 2, 32, 8], f32>) -> (!graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[1, 2, 32, 32], f32>) {
  %s = graph.matmul %q, %k : (!graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[1, 2, 8, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[1, 2, 32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[1, 2, 32, 32], f32>, !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 32, 8], f32>
  func.return %y, %p : !graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[1, 2, 32, 32], f32>
}

// -----

// A single row is no block of rows; its scores are scaled rather than all keys.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.fused
// CHECK: %[[S:[a-z_0-9]+]] = graph.matmul %q, %k
// CHECK: graph.mul %[[S]]
// CHECK-NOT: graph.fused
// CHECK: func.return
func.func @main(%q: !graph.tensor<[1, 2, 1, 8], f32>, %k: !graph.tensor<[1, 2, 8, 32], f32>, %v: !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 1, 8], f32> {
  %c = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %ks = graph.mul %k, %c : (!graph.tensor<[1, 2, 8, 32], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[1, 2, 8, 32], f32>
  %s = graph.matmul %q, %ks : (!graph.tensor<[1, 2, 1, 8], f32>, !graph.tensor<[1, 2, 8, 32], f32>) -> !graph.tensor<[1, 2, 1, 32], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[1, 2, 1, 32], f32>) -> !graph.tensor<[1, 2, 1, 32], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[1, 2, 1, 32], f32>, !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 1, 8], f32>
  func.return %y : !graph.tensor<[1, 2, 1, 8], f32>
}

// -----

// Zeros that are added to scores do not show in their powers.
// CHECK-LABEL: func.func @main
// CHECK: graph.fused
// CHECK: %[[S:[a-z_0-9]+]] = graph.matmul
// CHECK-NEXT: graph.softmax %[[S]]
func.func @main(%q: !graph.tensor<[1, 2, 32, 8], f32>, %k: !graph.tensor<[1, 2, 8, 32], f32>, %v: !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 32, 8], f32> {
  %z = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[32, 32]>, element = f32} : () -> !graph.tensor<[32, 32], f32>
  %s = graph.matmul %q, %k : (!graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[1, 2, 8, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %t = graph.add %s, %z : (!graph.tensor<[1, 2, 32, 32], f32>, !graph.tensor<[32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %p = graph.softmax %t {axis = -1 : i64} : (!graph.tensor<[1, 2, 32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %y = graph.matmul %p, %v : (!graph.tensor<[1, 2, 32, 32], f32>, !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 32, 8], f32>
  func.return %y : !graph.tensor<[1, 2, 32, 8], f32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: graph.add
func.func @main(%s: !graph.tensor<[2, 32], f32>) -> !graph.tensor<[2, 32], f32> {
  %c = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[32]>, element = f32} : () -> !graph.tensor<[32], f32>
  %t = graph.add %s, %c : (!graph.tensor<[2, 32], f32>, !graph.tensor<[32], f32>) -> !graph.tensor<[2, 32], f32>
  %p = graph.softmax %t {axis = -1 : i64} : (!graph.tensor<[2, 32], f32>) -> !graph.tensor<[2, 32], f32>
  func.return %p : !graph.tensor<[2, 32], f32>
}

// -----

// Rows without any score are set to zero behind the softmax, which has two users then.
// CHECK-LABEL: func.func @main
// CHECK: graph.fused
// CHECK: %[[P:[a-z_0-9]+]] = graph.softmax
// CHECK-NEXT: %[[N:[a-z_0-9]+]] = graph.is_nan %[[P]]
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = graph.where %[[N]], %{{.*}}, %[[P]]
// CHECK-NEXT: graph.matmul %[[W]], %{{.*}}
func.func @main(%q: !graph.tensor<[1, 2, 32, 8], f32>, %k: !graph.tensor<[1, 2, 8, 32], f32>, %v: !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 32, 8], f32> {
  %s = graph.matmul %q, %k : (!graph.tensor<[1, 2, 32, 8], f32>, !graph.tensor<[1, 2, 8, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %p = graph.softmax %s {axis = -1 : i64} : (!graph.tensor<[1, 2, 32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %n = graph.is_nan %p : (!graph.tensor<[1, 2, 32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], i1>
  %z = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %w = graph.where %n, %z, %p : (!graph.tensor<[1, 2, 32, 32], i1>, !graph.tensor<[], f32>, !graph.tensor<[1, 2, 32, 32], f32>) -> !graph.tensor<[1, 2, 32, 32], f32>
  %y = graph.matmul %w, %v : (!graph.tensor<[1, 2, 32, 32], f32>, !graph.tensor<[1, 2, 32, 8], f32>) -> !graph.tensor<[1, 2, 32, 8], f32>
  func.return %y : !graph.tensor<[1, 2, 32, 8], f32>
}

// -----

// Queries of a group, few of them, are rows of one product that reads the keys of their group once; so are their weights.
// CHECK-LABEL: func.func @group
// CHECK-NOT: graph.expand
// CHECK: %[[Q:[a-z_0-9]+]] = graph.reshape %q {shape = #graph.shape<[1, 2, 4, 8]>}
// CHECK-NEXT: %[[KT:[a-z_0-9]+]] = graph.transpose %k {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.matmul %[[Q]], %[[KT]]
// CHECK-NEXT: graph.reshape %[[S]] {shape = #graph.shape<[1, 4, 2, n]>}
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.softmax
// CHECK: %[[R:[a-z_0-9]+]] = graph.reshape %[[P]] {shape = #graph.shape<[1, 2, 4, n]>}
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.matmul %[[R]], %v
// CHECK-NEXT: graph.reshape %[[Y]] {shape = #graph.shape<[1, 4, 2, 8]>}
// CHECK-NEXT: func.return
func.func @group(%q: !graph.tensor<[1, 4, 2, 8], f32>, %k: !graph.tensor<[1, 2, n, 8], f32>, %v: !graph.tensor<[1, 2, n, 8], f32>) -> !graph.tensor<[1, 4, 2, 8], f32> {
  %k1 = graph.reshape %k {shape = #graph.shape<[1, 2, 1, n, 8]>} : (!graph.tensor<[1, 2, n, 8], f32>) -> !graph.tensor<[1, 2, 1, n, 8], f32>
  %k2 = graph.expand %k1 {shape = #graph.shape<[1, 2, 2, n, 8]>} : (!graph.tensor<[1, 2, 1, n, 8], f32>) -> !graph.tensor<[1, 2, 2, n, 8], f32>
  %k3 = graph.reshape %k2 {shape = #graph.shape<[1, 4, n, 8]>} : (!graph.tensor<[1, 2, 2, n, 8], f32>) -> !graph.tensor<[1, 4, n, 8], f32>
  %kt = graph.transpose %k3 {permutation = array<i64: 0, 1, 3, 2>} : (!graph.tensor<[1, 4, n, 8], f32>) -> !graph.tensor<[1, 4, 8, n], f32>
  %s = graph.matmul %q, %kt : (!graph.tensor<[1, 4, 2, 8], f32>, !graph.tensor<[1, 4, 8, n], f32>) -> !graph.tensor<[1, 4, 2, n], f32>
  %p = graph.softmax %s {axis = 3 : i64} : (!graph.tensor<[1, 4, 2, n], f32>) -> !graph.tensor<[1, 4, 2, n], f32>
  %v1 = graph.reshape %v {shape = #graph.shape<[1, 2, 1, n, 8]>} : (!graph.tensor<[1, 2, n, 8], f32>) -> !graph.tensor<[1, 2, 1, n, 8], f32>
  %v2 = graph.expand %v1 {shape = #graph.shape<[1, 2, 2, n, 8]>} : (!graph.tensor<[1, 2, 1, n, 8], f32>) -> !graph.tensor<[1, 2, 2, n, 8], f32>
  %v3 = graph.reshape %v2 {shape = #graph.shape<[1, 4, n, 8]>} : (!graph.tensor<[1, 2, 2, n, 8], f32>) -> !graph.tensor<[1, 4, n, 8], f32>
  %y = graph.matmul %p, %v3 : (!graph.tensor<[1, 4, 2, n], f32>, !graph.tensor<[1, 4, n, 8], f32>) -> !graph.tensor<[1, 4, 2, 8], f32>
  func.return %y : !graph.tensor<[1, 4, 2, 8], f32>
}

// -----

// Batches that follow each other are not those of one matrix where each of its repetitions is behind all of them, nor
// is there one product where the other factor has no batches.
// CHECK-LABEL: func.func @tiled
// CHECK: graph.expand
// CHECK: graph.matmul %x, %
// CHECK: graph.expand
// CHECK: graph.matmul %w, %
func.func @tiled(%x: !graph.tensor<[4, 1, 8], f32>, %w: !graph.tensor<[1, 8], f32>, %k: !graph.tensor<[2, 8, n], f32>) -> (!graph.tensor<[4, 1, n], f32>, !graph.tensor<[4, 1, n], f32>) {
  %a1 = graph.reshape %k {shape = #graph.shape<[1, 2, 8, n]>} : (!graph.tensor<[2, 8, n], f32>) -> !graph.tensor<[1, 2, 8, n], f32>
  %a2 = graph.expand %a1 {shape = #graph.shape<[2, 2, 8, n]>} : (!graph.tensor<[1, 2, 8, n], f32>) -> !graph.tensor<[2, 2, 8, n], f32>
  %a3 = graph.reshape %a2 {shape = #graph.shape<[4, 8, n]>} : (!graph.tensor<[2, 2, 8, n], f32>) -> !graph.tensor<[4, 8, n], f32>
  %a = graph.matmul %x, %a3 : (!graph.tensor<[4, 1, 8], f32>, !graph.tensor<[4, 8, n], f32>) -> !graph.tensor<[4, 1, n], f32>
  %b1 = graph.reshape %k {shape = #graph.shape<[2, 1, 8, n]>} : (!graph.tensor<[2, 8, n], f32>) -> !graph.tensor<[2, 1, 8, n], f32>
  %b2 = graph.expand %b1 {shape = #graph.shape<[2, 2, 8, n]>} : (!graph.tensor<[2, 1, 8, n], f32>) -> !graph.tensor<[2, 2, 8, n], f32>
  %b3 = graph.reshape %b2 {shape = #graph.shape<[4, 8, n]>} : (!graph.tensor<[2, 2, 8, n], f32>) -> !graph.tensor<[4, 8, n], f32>
  %b = graph.matmul %w, %b3 : (!graph.tensor<[1, 8], f32>, !graph.tensor<[4, 8, n], f32>) -> !graph.tensor<[4, 1, n], f32>
  func.return %a, %b : !graph.tensor<[4, 1, n], f32>, !graph.tensor<[4, 1, n], f32>
}
