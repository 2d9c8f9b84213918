// RUN: weft-opt %s --split-input-file -p weft-sink-reindexing | filecheck %s

// Two inverse transposes around elementwise operators go; the constant is brought into the order.
// CHECK-LABEL: func.func @cancel
// CHECK-NOT: graph.transpose
// CHECK: %[[C:[a-z0-9_]+]] = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[1, 2, 1]>
// CHECK-NEXT: %[[A:[a-z]+]] = graph.add %x, %[[C]]
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.relu %[[A]]
// CHECK-NEXT: func.return %[[Y]]
func.func @cancel(%x: !graph.tensor<[n, 2, 4], f32>) -> !graph.tensor<[n, 2, 4], f32> {
  %c = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[n, 2, 4], f32>) -> !graph.tensor<[n, 4, 2], f32>
  %a = graph.add %t, %c : (!graph.tensor<[n, 4, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[n, 4, 2], f32>
  %r = graph.relu %a : (!graph.tensor<[n, 4, 2], f32>) -> !graph.tensor<[n, 4, 2], f32>
  %y = graph.transpose %r {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[n, 4, 2], f32>) -> !graph.tensor<[n, 2, 4], f32>
  func.return %y : !graph.tensor<[n, 2, 4], f32>
}

// -----

// Orders that are not inverse stay; so does a transpose whose result is needed elsewhere.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-4: graph.transpose
func.func @stay(%x: !graph.tensor<[2, 3, 4], f32>) -> (!graph.tensor<[4, 2, 3], f32>, !graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3, 2, 4], f32>) {
  %a = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[3, 4, 2], f32>
  %b = graph.relu %a : (!graph.tensor<[3, 4, 2], f32>) -> !graph.tensor<[3, 4, 2], f32>
  %c = graph.transpose %b {permutation = array<i64: 1, 2, 0>} : (!graph.tensor<[3, 4, 2], f32>) -> !graph.tensor<[4, 2, 3], f32>
  %d = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[3, 2, 4], f32>
  %e = graph.relu %d : (!graph.tensor<[3, 2, 4], f32>) -> !graph.tensor<[3, 2, 4], f32>
  %f = graph.transpose %e {permutation = array<i64: 1, 0, 2>} : (!graph.tensor<[3, 2, 4], f32>) -> !graph.tensor<[2, 3, 4], f32>
  func.return %c, %f, %d : !graph.tensor<[4, 2, 3], f32>, !graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3, 2, 4], f32>
}

// -----

// A bias and an activation join the product that was reshaped: they keep its last dim.
// CHECK-LABEL: func.func @reshape
// CHECK-NEXT: %[[M:[a-z]+]] = graph.matmul %x, %w
// CHECK-NEXT: %[[A:[a-z]+]] = graph.add %[[M]], %b
// CHECK-NEXT: %[[R:[a-z]+]] = graph.relu %[[A]]
// CHECK-NEXT: %[[Y:[a-z0-9_]+]] = graph.reshape %[[R]]
// CHECK-NEXT: func.return %[[Y]]
func.func @reshape(%x: !graph.tensor<[6 * n, 4], f32>, %w: !graph.tensor<[4, 8], f32>, %b: !graph.tensor<[8], f32>) -> !graph.tensor<[n, 6, 8], f32> {
  %m = graph.matmul %x, %w : (!graph.tensor<[6 * n, 4], f32>, !graph.tensor<[4, 8], f32>) -> !graph.tensor<[6 * n, 8], f32>
  %r = graph.reshape %m {shape = #graph.shape<[n, 6, 8]>} : (!graph.tensor<[6 * n, 8], f32>) -> !graph.tensor<[n, 6, 8], f32>
  %a = graph.add %r, %b : (!graph.tensor<[n, 6, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[n, 6, 8], f32>
  %y = graph.relu %a : (!graph.tensor<[n, 6, 8], f32>) -> !graph.tensor<[n, 6, 8], f32>
  func.return %y : !graph.tensor<[n, 6, 8], f32>
}

// -----

// What broadcasts over dims that the reshape makes stays behind it.
// CHECK-LABEL: func.func @bias_of_new_dims
// CHECK: graph.relu
// CHECK-NEXT: graph.reshape
// CHECK-NEXT: graph.add
func.func @bias_of_new_dims(%x: !graph.tensor<[12, 4], f32>, %b: !graph.tensor<[6, 4], f32>) -> !graph.tensor<[2, 6, 4], f32> {
  %m = graph.relu %x : (!graph.tensor<[12, 4], f32>) -> !graph.tensor<[12, 4], f32>
  %r = graph.reshape %m {shape = #graph.shape<[2, 6, 4]>} : (!graph.tensor<[12, 4], f32>) -> !graph.tensor<[2, 6, 4], f32>
  %y = graph.add %r, %b : (!graph.tensor<[2, 6, 4], f32>, !graph.tensor<[6, 4], f32>) -> !graph.tensor<[2, 6, 4], f32>
  func.return %y : !graph.tensor<[2, 6, 4], f32>
}

// -----

// A whole activation goes into the product, and what goes around it, which others read too, is added as a view.
// CHECK-LABEL: func.func @residual
// CHECK: %[[M:[a-z]+]] = graph.matmul
// CHECK-NEXT: %[[S:[a-z]+]] = graph.sigmoid %[[M]] : (!graph.tensor<[6 * n, 4], f32>)
// CHECK-NEXT: %[[A:[a-z]+]] = graph.mul %[[M]], %[[S]]
// CHECK-NEXT: %[[V:[a-z0-9_]+]] = graph.reshape %h {shape = #graph.shape<[6 * n, 4]>}
// CHECK-NEXT: %[[Y:[a-z0-9_]+]] = graph.add %[[A]], %[[V]]
// CHECK-NEXT: %[[R:[a-z0-9_]+]] = graph.reshape %[[Y]] {shape = #graph.shape<[n, 6, 4]>}
// CHECK-NEXT: func.return %[[R]], %h
func.func @residual(%x: !graph.tensor<[6 * n, 4], f32>, %w: !graph.tensor<[4, 4], f32>, %z: !graph.tensor<[n, 6, 4], f32>) -> (!graph.tensor<[n, 6, 4], f32>, !graph.tensor<[n, 6, 4], f32>) {
  %h = graph.relu %z : (!graph.tensor<[n, 6, 4], f32>) -> !graph.tensor<[n, 6, 4], f32>
  %m = graph.matmul %x, %w : (!graph.tensor<[6 * n, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[6 * n, 4], f32>
  %r = graph.reshape %m {shape = #graph.shape<[n, 6, 4]>} : (!graph.tensor<[6 * n, 4], f32>) -> !graph.tensor<[n, 6, 4], f32>
  %s = graph.sigmoid %r : (!graph.tensor<[n, 6, 4], f32>) -> !graph.tensor<[n, 6, 4], f32>
  %a = graph.mul %r, %s : (!graph.tensor<[n, 6, 4], f32>, !graph.tensor<[n, 6, 4], f32>) -> !graph.tensor<[n, 6, 4], f32>
  %y = graph.add %a, %h : (!graph.tensor<[n, 6, 4], f32>, !graph.tensor<[n, 6, 4], f32>) -> !graph.tensor<[n, 6, 4], f32>
  func.return %y, %h : !graph.tensor<[n, 6, 4], f32>, !graph.tensor<[n, 6, 4], f32>
}

// -----

// What this operator alone reads may take it in where it is made: it stays behind the reshape.
// CHECK-LABEL: func.func @joins_the_other
// CHECK: %[[R:[a-z]+]] = graph.reshape
// CHECK: graph.add %[[R]]
func.func @joins_the_other(%x: !graph.tensor<[12, 4], f32>, %z: !graph.tensor<[2, 6, 4], f32>) -> !graph.tensor<[2, 6, 4], f32> {
  %m = graph.relu %x : (!graph.tensor<[12, 4], f32>) -> !graph.tensor<[12, 4], f32>
  %r = graph.reshape %m {shape = #graph.shape<[2, 6, 4]>} : (!graph.tensor<[12, 4], f32>) -> !graph.tensor<[2, 6, 4], f32>
  %h = graph.exp %z : (!graph.tensor<[2, 6, 4], f32>) -> !graph.tensor<[2, 6, 4], f32>
  %y = graph.add %r, %h : (!graph.tensor<[2, 6, 4], f32>, !graph.tensor<[2, 6, 4], f32>) -> !graph.tensor<[2, 6, 4], f32>
  func.return %y : !graph.tensor<[2, 6, 4], f32>
}

// -----

// A conversion that a product of bf16 takes in stays next to it.
// CHECK-LABEL: func.func @taken_in
// CHECK: %[[R:[a-z_0-9]+]] = graph.reshape %{{.*}} bf16>
// CHECK: %[[C:[a-z_0-9]+]] = graph.cast %[[R]] {to = f32}
// CHECK: graph.matmul %[[C]]
func.func @taken_in(%x: !graph.tensor<[4, 2, 4], f32>, %w: !graph.tensor<[8, 8], bf16>) -> !graph.tensor<[4, 8], f32> {
  %0 = graph.cast %x {to = bf16} : (!graph.tensor<[4, 2, 4], f32>) -> !graph.tensor<[4, 2, 4], bf16>
  %1 = graph.reshape %0 {shape = #graph.shape<[4, 8]>} : (!graph.tensor<[4, 2, 4], bf16>) -> !graph.tensor<[4, 8], bf16>
  %2 = graph.cast %1 {to = f32} : (!graph.tensor<[4, 8], bf16>) -> !graph.tensor<[4, 8], f32>
  %3 = graph.cast %w {to = f32} : (!graph.tensor<[8, 8], bf16>) -> !graph.tensor<[8, 8], f32>
  %4 = graph.matmul %2, %3 : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8, 8], f32>) -> !graph.tensor<[4, 8], f32>
  func.return %4 : !graph.tensor<[4, 8], f32>
}
