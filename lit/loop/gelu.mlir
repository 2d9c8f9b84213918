// RUN: weft-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: loop.kernel @activation
// CHECK: %y = loop.gelu %x : f32
// CHECK: %z = loop.gelu %w : f64
loop.kernel @activation(%a: !loop.buffer<[1], f32>, %b: !loop.buffer<[1], f64>) {
  %x = loop.load %a[0] : !loop.buffer<[1], f32>
  %y = loop.gelu %x : f32
  loop.store %y, %a[0] : !loop.buffer<[1], f32>
  %w = loop.load %b[0] : !loop.buffer<[1], f64>
  %z = loop.gelu %w : f64
  loop.store %z, %b[0] : !loop.buffer<[1], f64>
}

// -----

// CHECK: loop.gelu requires an operand of f32 or f64, got f16
loop.kernel @activation(%a: !loop.buffer<[1], f16>) {
  %x = loop.load %a[0] : !loop.buffer<[1], f16>
  %y = loop.gelu %x : f16
  loop.store %y, %a[0] : !loop.buffer<[1], f16>
}
