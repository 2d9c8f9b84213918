// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop,weft-schedule | filecheck %s

// Sums of columns: a stretch of them at a time, to which eight rows are added between a load and a store.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK-NEXT: loop.for %[[RO:[a-z_0-9]+]] = 0 to 125 reduction(add) {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 256 vector(8) {
// CHECK-NEXT: loop.for %[[RI:[a-z_0-9]+]] = 0 to 8 unroll reduction(add) {
// CHECK-NEXT: loop.load %a0[8 * %[[RO]] + %[[RI]], 256 * %[[JO]] + %[[JI]]]
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 256 vector(8) {
// CHECK-NEXT: loop.load %a0[%[[R]] + 1000, 256 * %[[JO]] + %[[J]]]
// CHECK-NOT: loop.for
func.func @main(%x: !graph.tensor<[1003, 1024], f32>) -> !graph.tensor<[1024], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[1003, 1024], f32>) -> !graph.tensor<[1024], f32>
  func.return %y : !graph.tensor<[1024], f32>
}

// -----

// What fits the caches is kept in registers, as a window is.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.alloc registers
func.func @main(%x: !graph.tensor<[16, 1024], f32>) -> !graph.tensor<[1024], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[16, 1024], f32>) -> !graph.tensor<[1024], f32>
  func.return %y : !graph.tensor<[1024], f32>
}

// -----

// Rows of 16 are too short for threads to share: blocks of 512 are, and their sums are added up, before what is no whole block.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %[[BLOCK:[a-z_0-9]+]] = 0 to 97 parallel {
// CHECK-NEXT: loop.for %[[N:[a-z_0-9]+]] = 0 to 16 vector(8) {
// CHECK: loop.store %{{.*}}, %[[W:[a-z_0-9]+]][%[[BLOCK]], %[[N]]]
// CHECK: loop.for %[[RO:[a-z_0-9]+]] = 0 to 64 reduction(add) {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 16 vector(8) {
// CHECK-NEXT: loop.for %[[RI:[a-z_0-9]+]] = 0 to 8 unroll reduction(add) {
// CHECK-NEXT: loop.load %a0[512 * %[[BLOCK]] + 8 * %[[RO]] + %[[RI]], %[[J]]]
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to 97 reduction(add) {
// CHECK-NEXT: loop.for %[[JB:[a-z_0-9]+]] = 0 to 16 vector(8) {
// CHECK: loop.load %[[W]][%[[B]], %[[JB]]]
// CHECK: loop.load %a0[{{.*}} + 49664, %{{.*}}]
func.func @main(%x: !graph.tensor<[50000, 16], f32>) -> !graph.tensor<[16], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[50000, 16], f32>) -> !graph.tensor<[16], f32>
  func.return %y : !graph.tensor<[16], f32>
}

// -----

// A batch of any size may be one image: threads share whole tiles of its columns, and then what is left.
// CHECK-LABEL: loop.kernel @reduce_max_
// CHECK: loop.for %[[IJ:[a-z_0-9]+]] = 0 to 2 * n0 parallel {
// CHECK: loop.load %a0[(%[[IJ]] floordiv 2), {{.*}}, {{.*}} + 128 * (%[[IJ]] mod 2)]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 parallel {
// CHECK: loop.load %a0[%[[I]], {{.*}} + 256]
func.func @main(%x: !graph.tensor<[n, 9, 300], f32>) -> !graph.tensor<[n, 300], f32> {
  %y = graph.reduce_max %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[n, 9, 300], f32>) -> !graph.tensor<[n, 300], f32>
  func.return %y : !graph.tensor<[n, 300], f32>
}

// -----

// Rows whose sums a quarter of L1 keeps are read whole, in blocks that threads share.
// CHECK-LABEL: loop.kernel @reduce_sum_
// CHECK: loop.for %{{.*}} = 0 to 16 parallel {
// CHECK: loop.for %{{.*}} = 0 to 1000 vector(8) {
// CHECK: loop.for %{{.*}} = 0 to 8 unroll reduction(add) {
func.func @main(%x: !graph.tensor<[2048, 1000], f32>) -> !graph.tensor<[1000], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[2048, 1000], f32>) -> !graph.tensor<[1000], f32>
  func.return %y : !graph.tensor<[1000], f32>
}
