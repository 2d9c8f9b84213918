// RUN: weft-opt %s --split-input-file -p weft-recognize-gelu | filecheck %s

// The error function as PyTorch's exporter writes it.
// CHECK-LABEL: func.func @erf
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.gelu %x {approximate = "none"}
// CHECK-NEXT: func.return %[[Y]]
func.func @erf(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %r = graph.constant {literal = #graph.literal<[1.4142135]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %half = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.div %x, %r : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %e = graph.erf %a : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %s = graph.add %e, %one : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %m = graph.mul %x, %s : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %y = graph.mul %m, %half : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// The approximation by tanh, its cube a power.
// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.gelu %x {approximate = "tanh"}
// CHECK-NEXT: func.return %[[Y]]
func.func @tanh(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %three = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %cubic = graph.constant {literal = #graph.literal<[0.044715]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %slope = graph.constant {literal = #graph.literal<[0.7978846]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %half = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %h = graph.mul %x, %half : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %p = graph.pow %x, %three : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %c = graph.mul %p, %cubic : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %i = graph.add %x, %c : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %u = graph.mul %i, %slope : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %t = graph.tanh %u : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %s = graph.add %t, %one : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %y = graph.mul %h, %s : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Another number is another function; so is a part that is needed elsewhere.
// CHECK-LABEL: func.func @others
// CHECK-NOT: graph.gelu
// CHECK-COUNT-2: graph.erf
// CHECK-NOT: graph.gelu
func.func @others(%x: !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) {
  %r = graph.constant {literal = #graph.literal<[1.4142135]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %q = graph.constant {literal = #graph.literal<[1.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %half = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.div %x, %q : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %e = graph.erf %a : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %s = graph.add %e, %one : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %m = graph.mul %x, %s : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %y = graph.mul %m, %half : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %b = graph.div %x, %r : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %f = graph.erf %b : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %t = graph.add %f, %one : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %k = graph.mul %x, %t : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %z = graph.mul %k, %half : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %y, %z, %t : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
}
