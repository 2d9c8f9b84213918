// RUN: weft-opt %s --split-input-file | weft-opt --split-input-file | filecheck %s

// A choice by sizes, with programs that pad to them and one for all others.
// CHECK-LABEL: loop.program @main[n, m]
// CHECK-NEXT: loop.dispatch ["n"] of [#loop.exprs<[2]>, #loop.exprs<[4]>] to [@main_0, @main_1] padded [@main_0_padded, @main_1_padded] else @main_dynamic
loop.program @main[n, m](%x: !loop.buffer<[n, m], f32>, %y: !loop.buffer<[n, m], f32>) inputs 1 {
  loop.dispatch ["n"] of [#loop.exprs<[2]>, #loop.exprs<[4]>] to [@main_0, @main_1]
    padded [@main_0_padded, @main_1_padded] else @main_dynamic
}

// -----

// A program that runs another one, in a workspace out of its own.
// CHECK-LABEL: loop.program @main_0_padded[n, m]
// CHECK: loop.call_program @main_0 <[m]>(%a, %b) inputs #builtin.int<1> in %w : !loop.buffer<[4, m], f32>, !loop.buffer<[4, m], f32> in !loop.buffer<[64 * m], i8>
loop.program @main_0_padded[n, m](%x: !loop.buffer<[n, m], f32>, %y: !loop.buffer<[n, m], f32>) inputs 1 {
  %a = loop.alloc workspace : !loop.buffer<[4, m], f32>
  %b = loop.alloc workspace : !loop.buffer<[4, m], f32>
  %w = loop.alloc workspace : !loop.buffer<[64 * m], i8>
  loop.call_program @main_0 <[m]>(%a, %b) inputs #builtin.int<1> in %w
    : !loop.buffer<[4, m], f32>, !loop.buffer<[4, m], f32> in !loop.buffer<[64 * m], i8>
}
