// RUN: weft-opt -p weft-poll-loops --split-input-file %s | weft-opt --split-input-file | filecheck %s

// A loop of unknown length is polled once an iteration, with the work of its calls: operations, bytes and what a call takes anyway.
// CHECK-LABEL: loop.program @main
// CHECK: loop.while {
// CHECK-NOT: loop.poll
// CHECK: } do {
// CHECK-NEXT: loop.call @double[n](%x, %y)
// CHECK-NEXT: loop.poll [
// CHECK-SAME: 9 * n
// CHECK-NEXT: }
loop.kernel @double[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %y[%i] : !loop.buffer<[n], f32>
  }
}
loop.program @main[n](%c: !loop.buffer<[], i1>, %x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 2 {
  loop.while {
    %v = loop.load %c[] : !loop.buffer<[], i1>
    loop.condition %v
  } do {
    loop.call @double[n](%x, %y) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
  }
}

// -----
// A loop that does little as a whole has no poll, and counts for the one around it.
// CHECK-LABEL: loop.program @main
// CHECK: loop.for %{{[a-z0-9_]+}} = 0 to n {
// CHECK-NEXT: loop.for %{{[a-z0-9_]+}} = 0 to 10 {
// CHECK-NEXT: loop.call @copy(%x, %y)
// CHECK-NEXT: }
// CHECK-NEXT: loop.poll [1{{[0-9]+}}]
// CHECK-NEXT: }
loop.kernel @copy(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.program @main[n](%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) inputs 1 {
  loop.for %i = 0 to n {
    loop.for %j = 0 to 10 {
      loop.call @copy(%x, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
    }
  }
}

// -----
// A long loop of a known length is polled; bounds say which one is short.
// CHECK-LABEL: loop.program @main
// CHECK: loop.for %{{[a-z0-9_]+}} = 0 to 100000000 {
// CHECK-NEXT: loop.poll [64]
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %{{[a-z0-9_]+}} = 0 to n {
// CHECK-NEXT: }
loop.program @main[n](%x: !loop.buffer<[n], f32>) inputs 1 attributes {bounds = {n = #loop.exprs<[1, 100]>}} {
  loop.for %i = 0 to 100000000 {
  }
  loop.for %i = 0 to n {
  }
}

// -----
// Work over sizes that a branch may have found is counted in the branch.
// CHECK-LABEL: loop.program @main
// CHECK: loop.if
// CHECK: loop.copy %x, %y
// CHECK-NEXT: loop.poll [4 * n]
// CHECK: loop.poll [
loop.program @main[n](%c: !loop.buffer<[], i1>, %x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 2 {
  loop.while {
    %v = loop.load %c[] : !loop.buffer<[], i1>
    loop.condition %v
  } do {
    %w = loop.load %c[] : !loop.buffer<[], i1>
    loop.if %w {
      loop.copy %x, %y : !loop.buffer<[n], f32>
    }
  }
}
