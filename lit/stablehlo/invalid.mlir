// RUN: weft-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// An operator has the properties that it has.
// CHECK: stablehlo.iota has no axis
func.func @unknown_property() -> tensor<4xi32> {
  %x = stablehlo.iota axis = 0 : tensor<4xi32>
  func.return %x : tensor<4xi32>
}

// -----

// CHECK: Operation stablehlo.frobnicate is not registered
func.func @unknown_operator(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.frobnicate %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
