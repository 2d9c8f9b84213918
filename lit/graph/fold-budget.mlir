// RUN: weft-opt %s --split-input-file -p 'weft-fold-constants{result_bytes=16 total_bytes=16 loop_operators=2 total_operators=3}' | filecheck %s

// Results of 8 and of 4 more bytes than their operands are within the 16 that all may have; the third is not.
// CHECK-LABEL: func.func @bytes
// CHECK-COUNT-1: graph.expand
// CHECK-NOT: graph.expand
func.func @bytes() -> (!graph.tensor<[3], f32>, !graph.tensor<[2], f32>, !graph.tensor<[3], f32>) {
  %a = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[1]>, element = f32} : () -> !graph.tensor<[1], f32>
  %p = graph.expand %a {shape = #graph.shape<[3]>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[3], f32>
  %q = graph.expand %a {shape = #graph.shape<[2]>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[2], f32>
  %r = graph.expand %a {shape = #graph.shape<[3]>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[3], f32>
  func.return %p, %q, %r : !graph.tensor<[3], f32>, !graph.tensor<[2], f32>, !graph.tensor<[3], f32>
}

// -----

// A conversion that is within the budget of all, but not of one, stays: a product reads the narrow weight.
// CHECK-LABEL: func.func @conversion
// CHECK: graph.cast
func.func @conversion() -> !graph.tensor<[5], f32> {
  %a = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 4.0, 5.0]>, shape = #graph.shape<[5]>, element = f16} : () -> !graph.tensor<[5], f16>
  %p = graph.cast %a {to = f32} : (!graph.tensor<[5], f16>) -> !graph.tensor<[5], f32>
  func.return %p : !graph.tensor<[5], f32>
}

// -----

// Two iterations of an operator are within the budget of a loop, three are not; a second loop of two is more than is left for all (the last loop is looked at first).
// CHECK-LABEL: func.func @rounds
// CHECK: graph.for {{.*}} {count = #graph.shape<[2]>, index = "a"}
// CHECK: graph.for {{.*}} {count = #graph.shape<[3]>, index = "b"}
// CHECK-NOT: graph.for
func.func @rounds(%x: !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) {
  %r = graph.for %x {count = #graph.shape<[2]>, index = "a"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.exp %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  %s = graph.for %x {count = #graph.shape<[3]>, index = "b"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.exp %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  %t = graph.for %x {count = #graph.shape<[2]>, index = "c"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.exp %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %r, %s, %t : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
}
