// RUN: weft-opt %s --split-input-file -p weft-merge-programs --verify-diagnostics | filecheck %s

// Programs for sizes stand behind the one that chooses among them, with the names that it calls; kernels that they share
// are there once.
// CHECK: loop.kernel @k(
// CHECK-NOT: loop.kernel @k(
// CHECK: loop.kernel @l[n](
// CHECK: loop.program @main[n](
// CHECK-NEXT: loop.dispatch
// CHECK: loop.program @main_0(
// CHECK-NEXT: loop.call @k
// CHECK: loop.program @main_dynamic[n](
// CHECK-NEXT: loop.call @l
// CHECK-NOT: builtin.module
loop.program @main[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 1 {
  loop.dispatch ["n"] of [#loop.exprs<[2]>] to [@main_0] else @main_dynamic
}
builtin.module {
  loop.kernel @k(%x: !loop.buffer<[2], f32>, %y: !loop.buffer<[2], f32>) { }
  loop.program @main(%x: !loop.buffer<[2], f32>, %y: !loop.buffer<[2], f32>) inputs 1 {
    loop.call @k(%x, %y) : !loop.buffer<[2], f32>, !loop.buffer<[2], f32>
  }
}
builtin.module {
  loop.kernel @k(%x: !loop.buffer<[2], f32>, %y: !loop.buffer<[2], f32>) { }
  loop.kernel @l[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) { }
  loop.program @main[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 1 {
    loop.call @l[n](%x, %y) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
  }
}

// -----

// A module for each is needed.
// CHECK: weft-merge-programs requires a module for each of main_0, main_1, got 1
loop.program @main[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 1 {
  loop.dispatch ["n"] of [#loop.exprs<[2]>, #loop.exprs<[4]>] to [@main_0, @main_1]
}
builtin.module {
  loop.program @main(%x: !loop.buffer<[2], f32>, %y: !loop.buffer<[2], f32>) inputs 1 { }
}
