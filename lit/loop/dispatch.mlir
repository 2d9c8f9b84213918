// RUN: weft-opt %s | weft-opt | filecheck %s

// A program that goes on to the one for the sizes of the call, or to one for any.
// CHECK-LABEL: loop.program @main[batch]
// CHECK: loop.dispatch ["batch"] of [#loop.exprs<[1]>, #loop.exprs<[4]>] to [@main_0, @main_1] else @main_dynamic
loop.program @main[batch](%x: !loop.buffer<[batch], f32>, %y: !loop.buffer<[batch], f32>) inputs 1 {
  loop.dispatch ["batch"] of [#loop.exprs<[1]>, #loop.exprs<[4]>] to [@main_0, @main_1] else @main_dynamic
}

// CHECK-LABEL: loop.program @refusing[batch]
// CHECK: loop.dispatch ["batch"] of [#loop.exprs<[1]>] to [@main_0]
loop.program @refusing[batch](%x: !loop.buffer<[batch], f32>, %y: !loop.buffer<[batch], f32>) inputs 1 {
  loop.dispatch ["batch"] of [#loop.exprs<[1]>] to [@main_0]
}
