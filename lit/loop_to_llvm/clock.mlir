// RUN: weft-opt %s -t weft-asm | filecheck %s

// A clock is read by one instruction, and never moved into or out of a loop.
// CHECK-LABEL: weft.twice:
// CHECK: rdtsc
// CHECK: rdtsc
// CHECK: ret
loop.kernel @twice(%x: !loop.buffer<[2], i64>) {
  loop.for %i = 0 to 2 unroll {
    %now = loop.clock : i64
    loop.store %now, %x[%i] : !loop.buffer<[2], i64>
  }
}
