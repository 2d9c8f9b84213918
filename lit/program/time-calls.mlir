// RUN: weft-opt %s -p weft-time-calls | filecheck %s

// Every call is followed by one that adds what has passed, at a place of its own; the output is the
// last argument.
// CHECK: loop.kernel @k
// CHECK-LABEL: loop.kernel @clock_start(%ticks: !loop.buffer<[3], i64>)
// CHECK-NEXT: loop.for %i = 0 to 3
// CHECK: %now = loop.clock : i64
// CHECK-NEXT: loop.store %now, %ticks[2]
// CHECK-LABEL: loop.kernel @clock_add[slot](%ticks: !loop.buffer<[3], i64>)
// CHECK-NEXT: %now = loop.clock : i64
// CHECK: arith.subi %now, %before
// CHECK: loop.store %more, %ticks[slot]
// CHECK-NEXT: loop.store %now, %ticks[2]
// CHECK-LABEL: loop.program @main(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>, %ticks: !loop.buffer<[3], i64>) inputs 1
// CHECK-SAME: output_names = ["y", "weft.ticks"]
// CHECK-NEXT: loop.call @clock_start(%ticks)
// CHECK-NEXT: loop.call @k(%x, %y)
// CHECK-NEXT: loop.call @clock_add[0](%ticks)
// CHECK-NEXT: loop.call @k(%y, %y)
// CHECK-NEXT: loop.call @clock_add[1](%ticks)
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.program @main(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) inputs 1 attributes {input_names = ["x"], output_names = ["y"]} {
  loop.call @k(%x, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  loop.call @k(%y, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
}
