// RUN: weft-opt %s -p weft-drop-unused-weights | filecheck %s

// The weight that no call reads is not part of the artifact.
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %packed = loop.weight "w" : !loop.buffer<[16], f32, [(d0 floordiv 4), (d0 mod 4)] in [4, 4]>
// CHECK-NEXT: loop.call @k(%packed, %y)
loop.program @main(%y: !loop.buffer<[16], f32>) inputs 0 {
  %packed = loop.weight "w" : !loop.buffer<[16], f32, [(d0 floordiv 4), (d0 mod 4)] in [4, 4]>
  %plain = loop.weight "w" : !loop.buffer<[16], f32>
  loop.call @k(%packed, %y) : !loop.buffer<[16], f32, [(d0 floordiv 4), (d0 mod 4)] in [4, 4]>, !loop.buffer<[16], f32>
}
