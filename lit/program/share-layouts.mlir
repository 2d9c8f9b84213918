// RUN: weft-opt %s --split-input-file -p weft-share-layouts,weft-name-variants | filecheck %s

// What looks rows of a weight up reads them in the panels in which a product wants the same weight, transposed: the
// weight is stored once. The kernel that looks up can be scheduled from here on.
// CHECK-NOT: awaits_layout
// CHECK-LABEL: loop.kernel @product(
// CHECK: loop.kernel @[[LOOKUP:lookup_[0-9a-f]+]](%a0: !loop.buffer<[2000, 64], f32, [(d0 floordiv 16), d1, (d0 mod 16)] in [125, 64, 16]>
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %[[TABLE:[0-9]+]] = loop.weight "table" : !loop.buffer<[2000, 64], f32, [(d0 floordiv 16), d1, (d0 mod 16)] in [125, 64, 16]>
// CHECK-NEXT: %[[PANELS:[0-9]+]] = loop.view %[[TABLE]] {stands_for = "turned"}
// CHECK: loop.call @[[LOOKUP]](%[[TABLE]], %ids, %e)
// CHECK: loop.call @product(%e, %[[PANELS]], %y)
loop.kernel @lookup(%t: !loop.buffer<[2000, 64], f32>, %i: !loop.buffer<[1], i64>, %e: !loop.buffer<[1, 64], f32>) attributes {weights = [#builtin.int<0>], flops = #loop.exprs<[0]>, awaits_layout} {
  loop.for %j = 0 to 64 {
    %row = loop.load %i[0] : !loop.buffer<[1], i64>
    %n = arith.index_cast %row : i64 to index
    %v = loop.load %t[%n, %j] : !loop.buffer<[2000, 64], f32>
    loop.store %v, %e[0, %j] : !loop.buffer<[1, 64], f32>
  }
}
loop.kernel @product(%e: !loop.buffer<[1, 64], f32>, %w: !loop.buffer<[64, 2000], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [125, 64, 16]>, %y: !loop.buffer<[1, 2000], f32>) attributes {flops = #loop.exprs<[99000000]>, writes = [#builtin.int<2>]} { }
loop.program @main(%ids: !loop.buffer<[1], i64>, %y: !loop.buffer<[1, 2000], f32>) inputs 1 {
  %t = loop.weight "table" {transposed = {turned = #loop.exprs<[1, 0]>}} : !loop.buffer<[2000, 64], f32>
  %e = loop.alloc workspace : !loop.buffer<[1, 64], f32>
  loop.call @lookup(%t, %ids, %e) : !loop.buffer<[2000, 64], f32>, !loop.buffer<[1], i64>, !loop.buffer<[1, 64], f32>
  %w = loop.weight "turned" : !loop.buffer<[64, 2000], f32>
  loop.call @product(%e, %w, %y) : !loop.buffer<[1, 64], f32>, !loop.buffer<[64, 2000], f32>, !loop.buffer<[1, 2000], f32>
}

// -----

// A program that would take noticeably longer keeps both; its kernel can be scheduled all the same.
// CHECK-LABEL: loop.kernel @lookup(
// CHECK-NOT: awaits_layout
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @lookup(%t, %ids, %e)
// CHECK: loop.call @product(%e, %w, %y)
loop.kernel @lookup(%t: !loop.buffer<[2000, 64], f32>, %i: !loop.buffer<[1], i64>, %e: !loop.buffer<[1, 64], f32>) attributes {weights = [#builtin.int<0>], flops = #loop.exprs<[0]>, awaits_layout} {
  loop.for %j = 0 to 64 {
    %row = loop.load %i[0] : !loop.buffer<[1], i64>
    %n = arith.index_cast %row : i64 to index
    %v = loop.load %t[%n, %j] : !loop.buffer<[2000, 64], f32>
    loop.store %v, %e[0, %j] : !loop.buffer<[1, 64], f32>
  }
}
loop.kernel @product(%e: !loop.buffer<[1, 64], f32>, %w: !loop.buffer<[64, 2000], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [125, 64, 16]>, %y: !loop.buffer<[1, 2000], f32>) attributes {flops = #loop.exprs<[256000]>, writes = [#builtin.int<2>]} { }
loop.program @main(%ids: !loop.buffer<[1], i64>, %y: !loop.buffer<[1, 2000], f32>) inputs 1 {
  %t = loop.weight "table" {transposed = {turned = #loop.exprs<[1, 0]>}} : !loop.buffer<[2000, 64], f32>
  %e = loop.alloc workspace : !loop.buffer<[1, 64], f32>
  loop.call @lookup(%t, %ids, %e) : !loop.buffer<[2000, 64], f32>, !loop.buffer<[1], i64>, !loop.buffer<[1, 64], f32>
  %w = loop.weight "turned" : !loop.buffer<[64, 2000], f32>
  loop.call @product(%e, %w, %y) : !loop.buffer<[1, 64], f32>, !loop.buffer<[64, 2000], f32>, !loop.buffer<[1, 2000], f32>
}
