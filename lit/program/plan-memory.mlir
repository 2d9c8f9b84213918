// RUN: weft-opt %s --split-input-file -p weft-plan-memory | filecheck %s

// Buffers that live at the same time lie apart, one that starts when another has ended takes its place: 128 bytes for three.
// CHECK-LABEL: loop.program @chain
// CHECK-SAME: workspace_bytes = #loop.exprs<[128]>
// CHECK-NEXT: %a = loop.alloc workspace at 0 :
// CHECK: %b = loop.alloc workspace at 64 :
// CHECK: %c = loop.alloc workspace at 0 :
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) { }
loop.program @chain(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace : !loop.buffer<[16], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  %b = loop.alloc workspace : !loop.buffer<[16], f32>
  loop.call @k(%a, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  %c = loop.alloc workspace : !loop.buffer<[16], f32>
  loop.call @k(%b, %c) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @k(%c, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// A view keeps what it views alive.
// CHECK-LABEL: loop.program @view
// CHECK-NEXT: %a = loop.alloc workspace at 0 :
// CHECK: %b = loop.alloc workspace at 64 :
loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) { }
loop.kernel @square(%x: !loop.buffer<[4, 4], f32>, %y: !loop.buffer<[16], f32>) { }
loop.program @view(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
  %a = loop.alloc workspace : !loop.buffer<[16], f32>
  loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  %v = loop.view %a : !loop.buffer<[16], f32> to !loop.buffer<[4, 4], f32>
  %b = loop.alloc workspace : !loop.buffer<[16], f32>
  loop.call @k(%x, %b) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  loop.call @square(%v, %y) : !loop.buffer<[4, 4], f32>, !loop.buffer<[16], f32>
  loop.call @k(%b, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
}

// -----

// Offsets are multiples of 64 bytes; a bool takes one byte.
// CHECK-LABEL: loop.program @aligned
// CHECK-SAME: workspace_bytes = #loop.exprs<[192]>
// CHECK-NEXT: %a = loop.alloc workspace at 0 :
// CHECK-NEXT: %b = loop.alloc workspace at 128 :
loop.kernel @k(%x: !loop.buffer<[17], f32>, %y: !loop.buffer<[64], i1>) { }
loop.program @aligned() inputs 0 {
  %a = loop.alloc workspace : !loop.buffer<[17], f32>
  %b = loop.alloc workspace : !loop.buffer<[64], i1>
  loop.call @k(%a, %b) : !loop.buffer<[17], f32>, !loop.buffer<[64], i1>
}

// -----

// Sizes that vary: a slot behind the buffers of constant size is as large as the greatest of those that follow each other in it.
// CHECK-LABEL: loop.program @symbolic[n]
// CHECK-SAME: workspace_bytes = #loop.exprs<[1280 * n + 64]>
// CHECK-NEXT: %a = loop.alloc workspace at 64 :
// CHECK: %b = loop.alloc workspace at 768 * n + 64 :
// CHECK: %c = loop.alloc workspace at 64 :
// CHECK-NEXT: %d = loop.alloc workspace at 0 :
loop.kernel @k[n](%x: !loop.buffer<[64 * n], f32>, %y: !loop.buffer<[128 * n], f32>) { }
loop.kernel @l[n](%x: !loop.buffer<[128 * n], f32>, %y: !loop.buffer<[192 * n], f32>) { }
loop.kernel @m[n](%x: !loop.buffer<[192 * n], f32>, %y: !loop.buffer<[16], f32>) { }
loop.program @symbolic[n](%x: !loop.buffer<[64 * n], f32>) inputs 1 {
  %a = loop.alloc workspace : !loop.buffer<[64 * n], f32>
  %b = loop.alloc workspace : !loop.buffer<[128 * n], f32>
  loop.call @k[n](%a, %b) : !loop.buffer<[64 * n], f32>, !loop.buffer<[128 * n], f32>
  %c = loop.alloc workspace : !loop.buffer<[192 * n], f32>
  %d = loop.alloc workspace : !loop.buffer<[16], f32>
  loop.call @l[n](%b, %c) : !loop.buffer<[128 * n], f32>, !loop.buffer<[192 * n], f32>
  loop.call @m[n](%c, %d) : !loop.buffer<[192 * n], f32>, !loop.buffer<[16], f32>
}
