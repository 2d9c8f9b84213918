// RUN: weft-opt %s --split-input-file -p weft-plan-memory | weft-opt --split-input-file | filecheck %s

// A buffer whose size is found on the way grows, in a block that it shares with one that ended before;
// one that is used inside a loop lives as long as the loop.
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.bind "m" = %size
// CHECK-NEXT: %a = loop.alloc growing at 0 :
// CHECK: %b = loop.alloc growing at 1 :
// CHECK: loop.for
// CHECK-NEXT: loop.bind "i" = %i
// CHECK-NEXT: %c = loop.alloc growing at 0 :
// CHECK: %d = loop.alloc growing at 0 : !loop.buffer<[0, 4], f32>
// CHECK-NEXT: %e = loop.regrow %d keep : !loop.buffer<[0, 4], f32> to !loop.buffer<[m, 4], f32>
// CHECK-NEXT: %r = loop.row %e[m - 1] : !loop.buffer<[m, 4], f32> to !loop.buffer<[4], f32>
// CHECK-NEXT: %f = loop.reload %d
// CHECK-NEXT: loop.require_equal [m, n]
// CHECK: loop.give %b, %y : !loop.buffer<[m], f32>
loop.kernel @k(%x: !loop.buffer<[m], f32>, %y: !loop.buffer<[m], f32>) { }
loop.program @main[n](%k: !loop.buffer<[], i64>, %y: !loop.buffer<[m], f32>) inputs 1 {
  %count = loop.load %k[] : !loop.buffer<[], i64>
  %size = arith.index_cast %count : i64 to index
  loop.bind "m" = %size
  %a = loop.alloc workspace : !loop.buffer<[m], f32>
  %b = loop.alloc workspace : !loop.buffer<[m], f32>
  loop.call @k[m](%a, %b) : !loop.buffer<[m], f32>, !loop.buffer<[m], f32>
  loop.for %i = 0 to n {
    loop.bind "i" = %i
    %c = loop.alloc workspace : !loop.buffer<[m], f32>
    loop.call @k[m](%b, %c) : !loop.buffer<[m], f32>, !loop.buffer<[m], f32>
  }
  %d = loop.alloc growing : !loop.buffer<[0, 4], f32>
  %e = loop.regrow %d keep : !loop.buffer<[0, 4], f32> to !loop.buffer<[m, 4], f32>
  %r = loop.row %e[m - 1] : !loop.buffer<[m, 4], f32> to !loop.buffer<[4], f32>
  %f = loop.reload %d : !loop.buffer<[0, 4], f32> to !loop.buffer<[m, 4], f32>
  loop.require_equal [m, n]
  loop.copy %e, %f : !loop.buffer<[m, 4], f32>
  loop.give %b, %y : !loop.buffer<[m], f32>
}
