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
