// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | weft-opt --split-input-file | filecheck %s

// Buffers are printed in the order of the program, with their types in the text; conditions end it.
// CHECK-LABEL: loop.program @main[n]
// CHECK-NEXT: loop.call @exp_{{[0-9a-f]+}}[n](%x, %y)
// CHECK-NEXT: loop.print "{float32,1,} of {{[{][{]}}n{{[}][}]}} {int64,0,int:3}\0A"(%y, %k) : !loop.buffer<[n], f32>, !loop.buffer<[], i64>
// CHECK-NEXT: %[[C:[0-9]+]] = loop.load %c[]
// CHECK-NEXT: %[[K:[0-9]+]] = loop.load %k[]
// CHECK-NEXT: loop.assert %[[C]] "assert requires c, got {}"(%[[K]]) : i1, i64
func.func @main(%x: !graph.tensor<[n], f32>, %c: !graph.tensor<[], i1>, %k: !graph.tensor<[], i64>) -> !graph.tensor<[n], f32> {
  %y = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  graph.print "{} of {{n}} {int:3}\0A"(%y, %k) : !graph.tensor<[n], f32>, !graph.tensor<[], i64>
  graph.assert %c "assert requires c, got {}"(%k) : !graph.tensor<[], i1>, !graph.tensor<[], i64>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// A function of the host fills buffers; the text says what they hold.
// CHECK-LABEL: loop.program @main[n]
// CHECK-NEXT: loop.call @exp_{{[0-9a-f]+}}[n](%x, %y)
// CHECK-NEXT: %[[Z:[0-9a-z]+]] = loop.alloc {{.*}}: !loop.buffer<[2], i32>
// CHECK-NEXT: loop.host_call "f({float32,1,}) -> ({int32,1,})"(%y) -> (%[[Z]]) : (!loop.buffer<[n], f32>) -> (!loop.buffer<[2], i32>)
func.func @main(%x: !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[2], i32>) {
  %y = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %z = graph.host_call "f"(%y) : (!graph.tensor<[n], f32>) -> !graph.tensor<[2], i32>
  %u = graph.neg %z : (!graph.tensor<[2], i32>) -> !graph.tensor<[2], i32>
  func.return %y, %u : !graph.tensor<[n], f32>, !graph.tensor<[2], i32>
}

// -----

// A function of the host may say how much another one fills.
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.host_call "rows({uint8,1,}) -> ({int64,0,})"(%x) -> (%[[S:[0-9a-z]+]])
// CHECK-NEXT: %[[L:[0-9a-z]+]] = loop.load %[[S]][]
// CHECK-NEXT: %[[H:[0-9a-z]+]] = arith.index_cast %[[L]]
// CHECK-NEXT: loop.bind_symbol "h" = %[[H]]
// CHECK-NEXT: %[[Y:[0-9a-z]+]] = loop.alloc workspace : !loop.buffer<[h, 3], ui8>
// CHECK-NEXT: loop.host_call "fill({uint8,1,}) -> ({uint8,2,})"(%x) -> (%[[Y]])
// CHECK-NEXT: loop.transfer_ownership %[[Y]], %y
func.func @main(%x: !graph.tensor<[n], ui8>) -> !graph.tensor<[h, 3], ui8> {
  %s = graph.host_call "rows"(%x) : (!graph.tensor<[n], ui8>) -> !graph.tensor<[], i64>
  graph.bind_sizes %s {sizes = ["h"]} : !graph.tensor<[], i64>
  %y = graph.host_call "fill"(%x) : (!graph.tensor<[n], ui8>) -> !graph.tensor<[h, 3], ui8>
  func.return %y : !graph.tensor<[h, 3], ui8>
}

// -----

// A native function reads and fills dense buffers, and gets the sizes that its signature names; those that it takes to be equal are checked.
// CHECK-LABEL: loop.program @main[k, m]
// CHECK: loop.call @exp_{{[0-9a-f]+}}[k](%x, %y)
// CHECK-NEXT: %[[N:[0-9a-z]+]] = loop.alloc workspace : !loop.buffer<[], i64>
// CHECK-NEXT: loop.require_equal [m, 3]
// CHECK-NEXT: loop.native_call "f"(%y, %w) -> (%z, %[[N]]) sizes <[k, 3]> code "f0VM" : (!loop.buffer<[k, 3], f32>, !loop.buffer<[m], f32>) -> (!loop.buffer<[k, 3], f32>, !loop.buffer<[], i64>)
func.func @main(%x: !graph.tensor<[k, 3], f32>, %w: !graph.tensor<[m], f32>) -> !graph.tensor<[k, 3], f32> {
  %y = graph.exp %x : (!graph.tensor<[k, 3], f32>) -> !graph.tensor<[k, 3], f32>
  %z:2 = graph.native_call "f(float32[a, b], float32[b]) -> (float32[a, b], int64[])"(%y, %w) code "f0VM" : (!graph.tensor<[k, 3], f32>, !graph.tensor<[m], f32>) -> (!graph.tensor<[k, 3], f32>, !graph.tensor<[], i64>)
  func.return %z#0 : !graph.tensor<[k, 3], f32>
}
