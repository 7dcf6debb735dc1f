// RUN: dmc-opt %s -p dm-drop-empty --verify-diagnostics

// expected-error @+1 {{output 'aux' has no elements (tensor<0xf32>)}}
func.func @step(%x: tensor<0xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<0xf32> {dm.name = "aux"}) {
  return %x : tensor<0xf32>
}
