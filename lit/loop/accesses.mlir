// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-nontemporal{kernel=k store="i:1"},weft-prefetch{kernel=k access="i:0" loop=i distance=1024 level=L2}' | filecheck %s

// Marks stand behind the subscripts; what was marked before reads as it prints.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.prefetch %x[%i + 1024] locality(2) : !loop.buffer<[n], f32>
// CHECK-NEXT: %v = loop.load %x[%i] : !loop.buffer<[n], f32>
// CHECK-NEXT: loop.store %v, %y[%i] nontemporal : !loop.buffer<[n], f32>
// CHECK: loop.prefetch %x[%j + 8] locality(2) :
// CHECK: loop.store %{{.*}}, %y[%j] nontemporal :
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    loop.store %v, %y[%i] : !loop.buffer<[n], f32>
  }
  loop.for %j = 0 to n {
    loop.prefetch %x[%j + 8] locality(2) : !loop.buffer<[n], f32>
    %w = loop.load %x[%j] : !loop.buffer<[n], f32>
    loop.store %w, %y[%j] nontemporal : !loop.buffer<[n], f32>
  }
}

// -----

// CHECK: nontemporal requires a buffer that the kernel does not read, got loop.load of %x[%i]
loop.kernel @k(%x: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %v, %x[%i] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: nontemporal requires an argument of the kernel, got loop.store of %t[%i]
loop.kernel @k(%x: !loop.buffer<[8], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[8], f32>
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %v, %t[%i] : !loop.buffer<[8], f32>
  }
}
