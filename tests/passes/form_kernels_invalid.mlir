// RUN: dmc-opt %s -p dm-form-kernels --verify-diagnostics

func.func @step(%x: tensor<4xf32> {dm.name = "x"}) -> (tensor<4xf32> {dm.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // expected-error @+1 {{scf.for: cannot be part of a kernel: a step must be straight-line code here}}
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x) -> tensor<4xf32> {
    %s = math.tanh %a : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
