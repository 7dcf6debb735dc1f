// RUN: dmc-opt %s -p dm-unroll-loops --verify-diagnostics

func.func @step(%x: tensor<4xf32> {dm.name = "x"}, %n: tensor<index> {dm.name = "n"})
    -> (tensor<4xf32> {dm.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %last = tensor.extract %n[] : tensor<index>
  // expected-error @+1 {{scf.for: its last place is not a constant}}
  %y = scf.for %i = %c0 to %last step %c1 iter_args(%a = %x) -> tensor<4xf32> {
    %s = arith.addf %a, %a : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
