// RUN: dmc-opt %s --from=scheduled --to=scheduled --split-input-file --verify-diagnostics

func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{may not appear in @step in form 'scheduled'}}
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Every second column is not one piece of memory.
func.func @step(%x: tensor<4x4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4x2xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{may not appear in @step in form 'scheduled'}}
  %y = tensor.extract_slice %x[0, 0] [4, 2] [1, 1] : tensor<4x4xf32> to tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// A composite stands in the body of a kernel, or nowhere.
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  %y = "dm.kernel"(%x) {body = @kernel} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{may not appear in @step in form 'scheduled'}}
  %z = "dm.composite"(%y) {kind = "negation", decomposition = @negation, parameters = {}}
      : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func private @kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "dm.composite"(%x) {kind = "negation", decomposition = @negation, parameters = {}}
      : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @negation(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.negf %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
