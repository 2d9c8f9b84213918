// RUN: weft-opt %s --split-input-file -p 'weft-set-target{cpu=sapphirerapids},weft-fuse,weft-graph-to-loop,weft-schedule' | filecheck %s

// A weight of bytes that several tiles of rows read: a thread makes floats of each panel once.
// CHECK-LABEL: loop.kernel @cast_matmul_
// CHECK: parallel {
// CHECK: %[[P:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[{{[0-9]+, [0-9]+}}], f32
// CHECK: arith.sitofp
// CHECK: loop.store {{.*}} %[[P]]
// CHECK: loop.load %[[P]]
// CHECK-NOT: arith.sitofp
func.func @main(%x: !graph.tensor<[128, 384], f32>) -> !graph.tensor<[128, 768], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[384, 768]>, element = i8} : () -> !graph.tensor<[384, 768], i8>
  %f = graph.cast %w {to = f32} : (!graph.tensor<[384, 768], i8>) -> !graph.tensor<[384, 768], f32>
  %y = graph.matmul %x, %f : (!graph.tensor<[128, 384], f32>, !graph.tensor<[384, 768], f32>) -> !graph.tensor<[128, 768], f32>
  func.return %y : !graph.tensor<[128, 768], f32>
}

// -----

// Rows of a single tile make floats where they multiply them.
// CHECK-LABEL: loop.kernel @cast_matmul_
// CHECK-NOT: loop.alloc scratch
// CHECK: arith.sitofp
// CHECK-NOT: loop.alloc scratch
func.func @main(%x: !graph.tensor<[4, 384], f32>) -> !graph.tensor<[4, 768], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[384, 768]>, element = i8} : () -> !graph.tensor<[384, 768], i8>
  %f = graph.cast %w {to = f32} : (!graph.tensor<[384, 768], i8>) -> !graph.tensor<[384, 768], f32>
  %y = graph.matmul %x, %f : (!graph.tensor<[4, 384], f32>, !graph.tensor<[384, 768], f32>) -> !graph.tensor<[4, 768], f32>
  func.return %y : !graph.tensor<[4, 768], f32>
}

// -----

// Of rows that only a call knows what the next panel is made of is prefetched while this one is filled: there may be one tile of rows.
// CHECK-LABEL: loop.kernel @cast_matmul_
// CHECK: loop.prefetch %a0
// CHECK: %[[W:.*]] = arith.sitofp
// CHECK-NEXT: loop.store %[[W]], %[[P:[a-z_0-9]+]][
// CHECK: loop.load %[[P]]
func.func @main(%x: !graph.tensor<[m, n, 384], f32>) -> !graph.tensor<[m, n, 1536], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[384, 1536]>, element = i8} : () -> !graph.tensor<[384, 1536], i8>
  %f = graph.cast %w {to = f32} : (!graph.tensor<[384, 1536], i8>) -> !graph.tensor<[384, 1536], f32>
  %y = graph.matmul %x, %f : (!graph.tensor<[m, n, 384], f32>, !graph.tensor<[384, 1536], f32>) -> !graph.tensor<[m, n, 1536], f32>
  func.return %y : !graph.tensor<[m, n, 1536], f32>
}
