// RUN: weft-opt %s --split-input-file -p "weft-set-options{guarded=before},weft-plan-memory" | filecheck %s --check-prefix=BEFORE
// RUN: weft-opt %s --split-input-file -p "weft-set-options{guarded=after},weft-plan-memory" | filecheck %s --check-prefix=AFTER

// For a fuzzer each buffer has pages of its own, and one of nobody lies between two: buffers start
// where that ends, or end where it starts. One that could follow another does not.
// BEFORE-LABEL: loop.program @chain
// BEFORE-SAME: workspace_bytes = #loop.exprs<[458752]>
// BEFORE-NEXT: %a = loop.alloc workspace at 65536 :
// BEFORE: %b = loop.alloc workspace at 196608 :
// BEFORE: %c = loop.alloc workspace at 327680 :
// AFTER-LABEL: loop.program @chain
// AFTER-SAME: workspace_bytes = #loop.exprs<[458752]>
// AFTER-NEXT: %a = loop.alloc workspace at 131008 :
// AFTER: %b = loop.alloc workspace at 262080 :
// AFTER: %c = loop.alloc workspace at 393152 :
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

// Growing buffers follow each other in no block either.
// AFTER-LABEL: loop.program @growable
// AFTER: %a = loop.alloc growable at 0 :
// AFTER: %b = loop.alloc growable at 1 :
// AFTER: %c = loop.alloc growable at 2 :
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) { }
loop.program @growable(%x: !loop.buffer<[], i64>) inputs 1 {
  %v = loop.load %x[] : !loop.buffer<[], i64>
  %i = arith.index_cast %v : i64 to index
  loop.bind_symbol "m" = %i
  %a = loop.alloc workspace : !loop.buffer<[m], f32>
  %b = loop.alloc workspace : !loop.buffer<[m], f32>
  loop.call @k[m](%a, %b) : !loop.buffer<[m], f32>, !loop.buffer<[m], f32>
  %c = loop.alloc workspace : !loop.buffer<[m], f32>
  loop.call @k[m](%b, %c) : !loop.buffer<[m], f32>, !loop.buffer<[m], f32>
}
