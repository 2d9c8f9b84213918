// RUN: weft-opt %s --split-input-file -p weft-require-extents | weft-opt --split-input-file | filecheck %s

// Sizes of the call are checked at the start: each volume once, those that others imply not at all,
// products factor by factor, tensors inside of kernels under the sizes of the call.
// CHECK-LABEL: loop.program @main[n, m]
// CHECK-NEXT: loop.require_extents <[n, m], f64> of "output 'y'"
// CHECK-NEXT: loop.require_extents <[m, m, 2], f64> of "a tensor"
// CHECK-NEXT: loop.call @square[m]
// CHECK-NOT: loop.require_extents
loop.kernel @square[k](%x: !loop.buffer<[k], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[k, k, 2], f64>
}
loop.program @main[n, m](%x: !loop.buffer<[n], f32>, %z: !loop.buffer<[n * m], f32>, %y: !loop.buffer<[n, m], f64>) inputs 2 attributes {input_names = ["x", "z"], output_names = ["y"]} {
  loop.call @square[m](%x) : !loop.buffer<[n], f32>
}

// -----

// Bounds prove that nothing is too large.
// CHECK-LABEL: loop.program @bounded[n]
// CHECK-NOT: loop.require_extents
loop.program @bounded[n](%x: !loop.buffer<[n, n], f32>) inputs 1 attributes {bounds = {n = #loop.exprs<[1, 4096]>}} {
}

// -----

// Differences may be less than 0.
// CHECK-LABEL: loop.program @window[n]
// CHECK-NEXT: loop.require_extents <[n - 2], i8> of "output 'y'"
loop.program @window[n](%x: !loop.buffer<[n], i8>, %y: !loop.buffer<[n - 2], i8>) inputs 1 attributes {output_names = ["x", "y"]} {
}

// -----

// Found sizes are checked behind the last of their binds, once, in front of what takes them to be
// equal; in a branch at its start, and again where a loop finds another size.
// CHECK-LABEL: loop.program @found[n]
// CHECK-NEXT: loop.require_extents <[n, 8], f32> of "input 'x'"
// CHECK: loop.bind_symbol "m" = %size
// CHECK-NEXT: loop.require_extents <[m, 8], f32> of "a tensor"
// CHECK-NEXT: loop.require_equal [m, n]
// CHECK-NOT: loop.require_extents
// CHECK: loop.for
// CHECK-NEXT: loop.bind_symbol "m" = %i
// CHECK-NEXT: loop.require_extents <[m, 8], f32> of "a tensor"
// CHECK-NEXT: loop.alloc
// CHECK: loop.if
// CHECK-NEXT: loop.require_extents <[m, m], f32> of "a tensor"
// CHECK-NEXT: loop.alloc
loop.program @found[n](%x: !loop.buffer<[n, 8], f32>, %k: !loop.buffer<[], i64>) inputs 2 attributes {input_names = ["x", "k"]} {
  %count = loop.load %k[] : !loop.buffer<[], i64>
  %size = arith.index_cast %count : i64 to index
  loop.bind_symbol "m" = %size
  loop.require_equal [m, n]
  %v = loop.view %x : !loop.buffer<[n, 8], f32> to !loop.buffer<[n, 8], f32>
  %y = loop.alloc growable : !loop.buffer<[m, 8], f32>
  %z = loop.alloc growable : !loop.buffer<[m, 8], f32>
  loop.for %i = 0 to n {
    loop.bind_symbol "m" = %i
    %a = loop.alloc growable : !loop.buffer<[m, 8], f32>
    %zero = arith.constant 0 : i64
    %c = arith.cmpi eq, %count, %zero : i64
    loop.if %c {
      %b = loop.alloc growable : !loop.buffer<[m, m], f32>
    }
  }
}
