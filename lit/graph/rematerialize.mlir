// RUN: weft-opt %s --split-input-file -p weft-rematerialize | filecheck %s

// What is read early and, behind costly operators, late is computed again for the late use, for what it is computed from is kept until then anyway.
// CHECK-LABEL: func.func @again
// CHECK: %a = graph.matmul %x, %x
// CHECK-NEXT: %b = graph.mul %a, %a
// CHECK-NEXT: %r = graph.relu %b
// CHECK: %g = graph.matmul
// CHECK-NEXT: %[[B:.*]] = graph.mul %a, %a
// CHECK-NEXT: %[[R:.*]] = graph.relu %[[B]]
// CHECK-NEXT: %h = graph.matmul %g, %[[R]]
// CHECK-NEXT: %i = graph.add %h, %a
func.func @again(%x: !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32> {
  %a = graph.matmul %x, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %b = graph.mul %a, %a : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %r = graph.relu %b : (!graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %c = graph.matmul %r, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %d = graph.matmul %c, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %e = graph.matmul %d, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %f = graph.matmul %e, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %g = graph.matmul %f, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %h = graph.matmul %g, %r : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %i = graph.add %h, %a : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  func.return %i : !graph.tensor<[256, 256], f32>
}

// -----

// It is kept where what it is computed from would have to be kept in its place.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-1: graph.relu
// CHECK-NOT: graph.relu
func.func @kept(%x: !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32> {
  %a = graph.matmul %x, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %r = graph.relu %a : (!graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %c = graph.matmul %r, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %d = graph.matmul %c, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %e = graph.matmul %d, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %f = graph.matmul %e, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %g = graph.matmul %f, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %h = graph.matmul %g, %r : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  func.return %h : !graph.tensor<[256, 256], f32>
}

// -----

// It is kept where it is a result anyway, where it is small, and where nothing costly comes between the uses.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: graph.relu
// CHECK-NOT: graph.relu
func.func @others(%x: !graph.tensor<[256, 256], f32>, %s: !graph.tensor<[4, 4], f32>) -> (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>, !graph.tensor<[4, 4], f32>) {
  %a = graph.matmul %x, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %m = graph.matmul %s, %s : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %n = graph.relu %m : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %o = graph.matmul %n, %s : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %q = graph.relu %a : (!graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %r = graph.abs %a : (!graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %t = graph.relu %r : (!graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %c = graph.matmul %q, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %d = graph.matmul %c, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %e = graph.matmul %d, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %f = graph.matmul %e, %x : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %g = graph.matmul %f, %t : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %i = graph.add %g, %a : (!graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32>
  %j = graph.add %n, %o : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %q, %i, %j : !graph.tensor<[256, 256], f32>, !graph.tensor<[256, 256], f32>, !graph.tensor<[4, 4], f32>
}
