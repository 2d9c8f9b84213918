// RUN: weft-opt %s -p weft-split-systems --split-input-file | filecheck %s

// A system whose matrix is a factor, or the transpose of one, is solved by substitution.

// CHECK-LABEL: @factor
// CHECK: %l = graph.cholesky %a
// CHECK-NEXT: %x = graph.triangular_solve %l, %b {lower = true, unit = false}
// CHECK-NEXT: %u = graph.transpose %l
// CHECK-NEXT: %y = graph.triangular_solve %u, %x {lower = false, unit = false}
func.func @factor(%a: !graph.tensor<[5, 5], f64>, %b: !graph.tensor<[5, 2], f64>) -> !graph.tensor<[5, 2], f64> {
  %l = graph.cholesky %a : (!graph.tensor<[5, 5], f64>) -> !graph.tensor<[5, 5], f64>
  %x = graph.solve %l, %b : (!graph.tensor<[5, 5], f64>, !graph.tensor<[5, 2], f64>) -> !graph.tensor<[5, 2], f64>
  %u = graph.transpose %l {permutation = array<i64: 1, 0>} : (!graph.tensor<[5, 5], f64>) -> !graph.tensor<[5, 5], f64>
  %y = graph.solve %u, %x : (!graph.tensor<[5, 5], f64>, !graph.tensor<[5, 2], f64>) -> !graph.tensor<[5, 2], f64>
  func.return %y : !graph.tensor<[5, 2], f64>
}

// -----

// So is one of what `trilu` kept, if that is a triangle with its diagonal.

// CHECK-LABEL: @kept
// CHECK: graph.triangular_solve %u, %b {lower = false, unit = false}
// CHECK: graph.solve %v, %x
func.func @kept(%a: !graph.tensor<[n, n], f32>, %b: !graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 2], f32> {
  %u = graph.trilu %a {upper = true, k = 0} : (!graph.tensor<[n, n], f32>) -> !graph.tensor<[n, n], f32>
  %x = graph.solve %u, %b : (!graph.tensor<[n, n], f32>, !graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 2], f32>
  %v = graph.trilu %a {upper = true, k = -1} : (!graph.tensor<[n, n], f32>) -> !graph.tensor<[n, n], f32>
  %y = graph.solve %v, %x : (!graph.tensor<[n, n], f32>, !graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %y : !graph.tensor<[n, 2], f32>
}

// -----

// A great triangle is solved with by halves: the known part is taken from what the other solves.

// CHECK-LABEL: @triangle
// CHECK: %[[X:.*]] = graph.triangular_solve %{{.*}}, %{{.*}} : (!graph.tensor<[64, 64], f64>
// CHECK: %[[LOST:.*]] = graph.matmul %{{.*}}, %[[X]] : (!graph.tensor<[36, 64], f64>
// CHECK-NEXT: %[[REST:.*]] = graph.sub %{{.*}}, %[[LOST]]
// CHECK: %[[Y:.*]] = graph.triangular_solve %{{.*}}, %[[REST]] {{.*}} : (!graph.tensor<[36, 36], f64>
// CHECK-NEXT: %x = graph.concat %[[X]], %[[Y]]
func.func @triangle(%a: !graph.tensor<[100, 100], f64>, %b: !graph.tensor<[100, 3], f64>) -> !graph.tensor<[100, 3], f64> {
  %x = graph.triangular_solve %a, %b {lower = true, unit = true} : (!graph.tensor<[100, 100], f64>, !graph.tensor<[100, 3], f64>) -> !graph.tensor<[100, 3], f64>
  func.return %x : !graph.tensor<[100, 3], f64>
}

// -----

// So is a great matrix factored.

// CHECK-LABEL: @great
// CHECK: graph.cholesky %{{.*}} : (!graph.tensor<[1024, 1024], f64>
// CHECK: graph.triangular_solve
// CHECK: %[[ACROSS:.*]] = graph.transpose %{{.*}} : (!graph.tensor<[1024, 76], f64>
// CHECK: graph.matmul %[[ACROSS]]
// CHECK-NEXT: %[[LEFT:.*]] = graph.sub
// CHECK-NEXT: graph.cholesky %[[LEFT]] : (!graph.tensor<[76, 76], f64>
func.func @great(%a: !graph.tensor<[1100, 1100], f64>) -> !graph.tensor<[1100, 1100], f64> {
  %l = graph.cholesky %a : (!graph.tensor<[1100, 1100], f64>) -> !graph.tensor<[1100, 1100], f64>
  func.return %l : !graph.tensor<[1100, 1100], f64>
}
