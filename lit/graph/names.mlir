// RUN: weft-opt %s | weft-opt | filecheck %s

// Names of any characters are escaped where they are printed, and stay texts when they are read.
// CHECK: attributes {input_names = ["gr\C3\B6\C3\9Fe", "\E2\80\AEcode", "a\22\0A\1B[31m"]}
func.func @names(%a: !graph.tensor<[n], f32>, %b: !graph.tensor<[n], f32>, %c: !graph.tensor<[n], f32>) attributes {input_names = ["größe", "\E2\80\AEcode", "a\22\n\1B[31m"]} {
  func.return
}
