// RUN: weft-opt %s --split-input-file -p weft-drop-unused-weights | filecheck %s

// The weight that no call reads is not part of the artifact.
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %packed = loop.weight "w" : !loop.buffer<[16], f32, [(d0 floordiv 4), (d0 mod 4)] in [4, 4]>
// CHECK-NEXT: loop.call @k(%packed, %y)
loop.program @main(%y: !loop.buffer<[16], f32>) inputs 0 {
  %packed = loop.weight "w" : !loop.buffer<[16], f32, [(d0 floordiv 4), (d0 mod 4)] in [4, 4]>
  %plain = loop.weight "w" : !loop.buffer<[16], f32>
  loop.call @k(%packed, %y) : !loop.buffer<[16], f32, [(d0 floordiv 4), (d0 mod 4)] in [4, 4]>, !loop.buffer<[16], f32>
}

// -----

// So is one of which a row is named that nothing reads.
// CHECK-LABEL: loop.program @main
// CHECK-NOT: "v"
// CHECK: %w = loop.weight "w"
// CHECK-NEXT: %r = loop.subview %w[1]
// CHECK-NEXT: loop.call @k(%r, %y)
loop.program @main(%y: !loop.buffer<[4], f32>) inputs 0 {
  %v = loop.weight "v" : !loop.buffer<[2, 4], f32>
  %s = loop.subview %v[1] : !loop.buffer<[2, 4], f32> to !loop.buffer<[4], f32>
  %w = loop.weight "w" : !loop.buffer<[2, 4], f32>
  %r = loop.subview %w[1] : !loop.buffer<[2, 4], f32> to !loop.buffer<[4], f32>
  loop.call @k(%r, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
}
