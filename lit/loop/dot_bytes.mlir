// RUN: weft-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: loop.kernel @dot
// CHECK: %t = loop.dot_bytes %x, %x, %x : i32
loop.kernel @dot(%a: !loop.buffer<[1], i32>) {
  %x = loop.load %a[0] : !loop.buffer<[1], i32>
  %t = loop.dot_bytes %x, %x, %x : i32
  loop.store %t, %a[0] : !loop.buffer<[1], i32>
}
