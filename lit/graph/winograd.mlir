// RUN: weft-opt %s --split-input-file -p weft-winograd | filecheck %s

// Of a large image tiles of 4 x 4 pay: 36 products of each channel for 16 results, of any batch.
// CHECK-LABEL: func.func @large
// CHECK: %[[F:[a-z_0-9]+]] = graph.constant {{.*}} -> !graph.tensor<[36, 64, 32], f32>
// CHECK: %[[T:[a-z_0-9]+]] = graph.winograd_tiles %x {size = 4 : i64, pads = #graph.shape<[1, 1, 1, 1]>} : (!graph.tensor<[n, 32, 30, 29], f32>) -> !graph.tensor<[n, 32, 36, 64], f32>
// CHECK: %[[P:[a-z_0-9]+]] = graph.einsum %[[T]], %[[F]] {equation = "ncpt,poc->nopt", block = 64 : i64}
// CHECK: graph.winograd_result %[[P]], %b {size = 4 : i64, spatial = #graph.shape<[30, 29]>
// CHECK-NOT: graph.conv
func.func @large(%x: !graph.tensor<[n, 32, 30, 29], f32>, %b: !graph.tensor<[64], f32>) -> !graph.tensor<[n, 64, 30, 29], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[64, 32, 3, 3]>, element = f32} : () -> !graph.tensor<[64, 32, 3, 3], f32>
  %y = graph.conv %x, %w, %b {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[n, 32, 30, 29], f32>, !graph.tensor<[64, 32, 3, 3], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[n, 64, 30, 29], f32>
  func.return %y : !graph.tensor<[n, 64, 30, 29], f32>
}

// -----

// Of a smaller image the filters are what is read and stored, and tiles of 2 x 2 need fewer bytes of them.
// CHECK-LABEL: func.func @small
// CHECK: graph.winograd_tiles %x {size = 2 : i64
// CHECK: graph.winograd_result
// CHECK-NOT: graph.conv
func.func @small(%x: !graph.tensor<[1, 256, 14, 14], f32>) -> !graph.tensor<[1, 256, 14, 14], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[256, 256, 3, 3]>, element = f32} : () -> !graph.tensor<[256, 256, 3, 3], f32>
  %y = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 256, 14, 14], f32>, !graph.tensor<[256, 256, 3, 3], f32>) -> !graph.tensor<[1, 256, 14, 14], f32>
  func.return %y : !graph.tensor<[1, 256, 14, 14], f32>
}

// -----

// Of a tiny image the filters would grow by more than the products that are saved are worth.
// CHECK-LABEL: func.func @tiny
// CHECK: graph.conv
func.func @tiny(%x: !graph.tensor<[1, 256, 7, 7], f32>) -> !graph.tensor<[1, 256, 7, 7], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[256, 256, 3, 3]>, element = f32} : () -> !graph.tensor<[256, 256, 3, 3], f32>
  %y = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 256, 7, 7], f32>, !graph.tensor<[256, 256, 3, 3], f32>) -> !graph.tensor<[1, 256, 7, 7], f32>
  func.return %y : !graph.tensor<[1, 256, 7, 7], f32>
}

// -----

// A filter that only a call knows is transformed in each call.
// CHECK-LABEL: func.func @given
// CHECK: %[[F:.*]] = graph.winograd_filter %v {size = 4 : i64} : (!graph.tensor<[64, 32, 3, 3], f32>) -> !graph.tensor<[36, 64, 32], f32>
// CHECK: graph.einsum %{{.*}}, %[[F]] {equation = "ncpt,poc->nopt", block = 64 : i64}
// CHECK-NOT: graph.conv
func.func @given(%x: !graph.tensor<[8, 32, 30, 30], f32>, %v: !graph.tensor<[64, 32, 3, 3], f32>) -> !graph.tensor<[8, 64, 28, 28], f32> {
  %y = graph.conv %x, %v {group = 1 : i64} : (!graph.tensor<[8, 32, 30, 30], f32>, !graph.tensor<[64, 32, 3, 3], f32>) -> !graph.tensor<[8, 64, 28, 28], f32>
  func.return %y : !graph.tensor<[8, 64, 28, 28], f32>
}

// -----

// Strides, a filter whose transformation in the call is most of the work, and few channels stay direct.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: graph.conv
// CHECK-NOT: graph.winograd_tiles
func.func @others(%x: !graph.tensor<[1, 32, 30, 30], f32>, %s: !graph.tensor<[1, 32, 9, 9], f32>, %v: !graph.tensor<[32, 32, 3, 3], f32>, %few: !graph.tensor<[1, 3, 30, 30], f32>) -> (!graph.tensor<[1, 32, 14, 14], f32>, !graph.tensor<[1, 32, 7, 7], f32>, !graph.tensor<[1, 32, 28, 28], f32>) {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[32, 32, 3, 3]>, element = f32} : () -> !graph.tensor<[32, 32, 3, 3], f32>
  %u = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[32, 3, 3, 3]>, element = f32} : () -> !graph.tensor<[32, 3, 3, 3], f32>
  %a = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2, 2>} : (!graph.tensor<[1, 32, 30, 30], f32>, !graph.tensor<[32, 32, 3, 3], f32>) -> !graph.tensor<[1, 32, 14, 14], f32>
  %b = graph.conv %s, %v {group = 1 : i64} : (!graph.tensor<[1, 32, 9, 9], f32>, !graph.tensor<[32, 32, 3, 3], f32>) -> !graph.tensor<[1, 32, 7, 7], f32>
  %c = graph.conv %few, %u {group = 1 : i64} : (!graph.tensor<[1, 3, 30, 30], f32>, !graph.tensor<[32, 3, 3, 3], f32>) -> !graph.tensor<[1, 32, 28, 28], f32>
  func.return %a, %b, %c : !graph.tensor<[1, 32, 14, 14], f32>, !graph.tensor<[1, 32, 7, 7], f32>, !graph.tensor<[1, 32, 28, 28], f32>
}

// -----

// With the size of the image left open, such a filter stays.
// CHECK-LABEL: func.func @both
// CHECK: graph.conv
func.func @both(%x: !graph.tensor<[1, 32, h, w], f32>, %v: !graph.tensor<[32, 32, 3, 3], f32>) -> !graph.tensor<[1, 32, h, w], f32> {
  %y = graph.conv %x, %v {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 32, h, w], f32>, !graph.tensor<[32, 32, 3, 3], f32>) -> !graph.tensor<[1, 32, h, w], f32>
  func.return %y : !graph.tensor<[1, 32, h, w], f32>
}

// -----

// A height and width that only a call knows are taken to be those of a photograph's features.
// CHECK-LABEL: func.func @open
// CHECK: graph.winograd_tiles %x {size = 4 : i64, pads = #graph.shape<[1, 1, 1, 1]>} : (!graph.tensor<[1, 32, h, w], f32>) -> !graph.tensor<[1, 32, 36, ((h + 3) floordiv 4) * ((w + 3) floordiv 4)], f32>
// CHECK: graph.winograd_result
// CHECK-SAME: spatial = #graph.shape<[h, w]>
func.func @open(%x: !graph.tensor<[1, 32, h, w], f32>) -> !graph.tensor<[1, 32, h, w], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[32, 32, 3, 3]>, element = f32} : () -> !graph.tensor<[32, 32, 3, 3], f32>
  %y = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 32, h, w], f32>, !graph.tensor<[32, 32, 3, 3], f32>) -> !graph.tensor<[1, 32, h, w], f32>
  func.return %y : !graph.tensor<[1, 32, h, w], f32>
}

// -----

// Where bounds keep them small, the filters would grow by more than that is worth.
// CHECK-LABEL: func.func @bounded
// CHECK: graph.conv
func.func @bounded(%x: !graph.tensor<[1, 256, h, w], f32>) -> !graph.tensor<[1, 256, h, w], f32> attributes {bounds = {h = #loop.exprs<[1, 7]>, w = #loop.exprs<[1, 7]>}} {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[256, 256, 3, 3]>, element = f32} : () -> !graph.tensor<[256, 256, 3, 3], f32>
  %y = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 256, h, w], f32>, !graph.tensor<[256, 256, 3, 3], f32>) -> !graph.tensor<[1, 256, h, w], f32>
  func.return %y : !graph.tensor<[1, 256, h, w], f32>
}

// -----

// In an image that many layers gave the errors of tiles of 4 x 4 would be seen: few layers have them.
// CHECK-LABEL: func.func @image
// CHECK: size = 4
// CHECK: size = 2
// CHECK: size = 2
// CHECK-NOT: size = 4
// CHECK: func.return
func.func @image(%x: !graph.tensor<[1, 64, 30, 30], f32>) -> !graph.tensor<[1, 64, 30, 30], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[64, 64, 3, 3]>, element = f32} : () -> !graph.tensor<[64, 64, 3, 3], f32>
  %a = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, 30, 30], f32>, !graph.tensor<[64, 64, 3, 3], f32>) -> !graph.tensor<[1, 64, 30, 30], f32>
  %b = graph.conv %a, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, 30, 30], f32>, !graph.tensor<[64, 64, 3, 3], f32>) -> !graph.tensor<[1, 64, 30, 30], f32>
  %c = graph.conv %b, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, 30, 30], f32>, !graph.tensor<[64, 64, 3, 3], f32>) -> !graph.tensor<[1, 64, 30, 30], f32>
  func.return %c : !graph.tensor<[1, 64, 30, 30], f32>
}

// -----

// A mean over all positions makes them small.
// CHECK-LABEL: func.func @mean
// CHECK-COUNT-6: size = 4
// CHECK-NOT: size = 2
// CHECK: graph.global_average_pool
func.func @mean(%x: !graph.tensor<[1, 64, 30, 30], f32>) -> !graph.tensor<[1, 64, 1, 1], f32> {
  %w = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[64, 64, 3, 3]>, element = f32} : () -> !graph.tensor<[64, 64, 3, 3], f32>
  %a = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, 30, 30], f32>, !graph.tensor<[64, 64, 3, 3], f32>) -> !graph.tensor<[1, 64, 30, 30], f32>
  %b = graph.conv %a, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, 30, 30], f32>, !graph.tensor<[64, 64, 3, 3], f32>) -> !graph.tensor<[1, 64, 30, 30], f32>
  %c = graph.conv %b, %w {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 64, 30, 30], f32>, !graph.tensor<[64, 64, 3, 3], f32>) -> !graph.tensor<[1, 64, 30, 30], f32>
  %m = graph.global_average_pool %c : (!graph.tensor<[1, 64, 30, 30], f32>) -> !graph.tensor<[1, 64, 1, 1], f32>
  func.return %m : !graph.tensor<[1, 64, 1, 1], f32>
}
