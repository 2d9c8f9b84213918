// RUN: weft-opt %s --split-input-file -p weft-plan-memory | weft-opt --split-input-file | filecheck %s

// A buffer whose size is found on the way grows, in a block that it shares with one that ended before;
// one that is used inside a loop lives as long as the loop.
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.bind_symbol "m" = %size
// CHECK-NEXT: %a = loop.alloc growable at 0 :
// CHECK: %b = loop.alloc growable at 1 :
// CHECK: loop.for
// CHECK-NEXT: loop.bind_symbol "i" = %i
// CHECK-NEXT: %c = loop.alloc growable at 0 :
// CHECK: %d = loop.alloc growable at 0 : !loop.buffer<[0, 4], f32>
// CHECK-NEXT: %e = loop.realloc %d keep : !loop.buffer<[0, 4], f32> to !loop.buffer<[m, 4], f32>
// CHECK-NEXT: %r = loop.subview %e[m - 1] : !loop.buffer<[m, 4], f32> to !loop.buffer<[4], f32>
// CHECK-NEXT: %f = loop.current_view %d
// CHECK-NEXT: loop.require_equal [m, n]
// CHECK: loop.transfer_ownership %b, %y : !loop.buffer<[m], f32>
loop.kernel @k(%x: !loop.buffer<[m], f32>, %y: !loop.buffer<[m], f32>) { }
loop.program @main[n](%k: !loop.buffer<[], i64>, %y: !loop.buffer<[m], f32>) inputs 1 {
  %count = loop.load %k[] : !loop.buffer<[], i64>
  %size = arith.index_cast %count : i64 to index
  loop.bind_symbol "m" = %size
  %a = loop.alloc workspace : !loop.buffer<[m], f32>
  %b = loop.alloc workspace : !loop.buffer<[m], f32>
  loop.call @k[m](%a, %b) : !loop.buffer<[m], f32>, !loop.buffer<[m], f32>
  loop.for %i = 0 to n {
    loop.bind_symbol "i" = %i
    %c = loop.alloc workspace : !loop.buffer<[m], f32>
    loop.call @k[m](%b, %c) : !loop.buffer<[m], f32>, !loop.buffer<[m], f32>
  }
  %d = loop.alloc growable : !loop.buffer<[0, 4], f32>
  %e = loop.realloc %d keep : !loop.buffer<[0, 4], f32> to !loop.buffer<[m, 4], f32>
  %r = loop.subview %e[m - 1] : !loop.buffer<[m, 4], f32> to !loop.buffer<[4], f32>
  %f = loop.current_view %d : !loop.buffer<[0, 4], f32> to !loop.buffer<[m, 4], f32>
  loop.require_equal [m, n]
  loop.copy %e, %f : !loop.buffer<[m, 4], f32>
  loop.transfer_ownership %b, %y : !loop.buffer<[m], f32>
}
