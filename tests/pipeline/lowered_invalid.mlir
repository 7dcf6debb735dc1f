// RUN: dmc-opt %s --from=lowered --split-input-file --verify-diagnostics

// expected-error @+1 {{state 'w' is not tied to result 0, its new value}}
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<4xf32> {dm.name = "w"}) {
  return %w : tensor<4xf32>
}

// -----

// expected-error @+1 {{state 'v' is not tied to result 1, its new value}}
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", iree.abi.output = 0 : index},
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter", iree.abi.output = 0 : index})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "v"}) {
  return %w, %v : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{'x' of @step gives its storage to result 0, which is not its new value}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch", iree.abi.output = 0 : index})
    -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{dm.composite: not allowed in form 'lowered'}}
  %y = "dm.composite"(%x) {kind = "k", decomposition = @k_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @k_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{@left stands beside @step}}
func.func private @left(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// The calling convention is checked here as in form imported.
// expected-error @+1 {{argument 0 of @step has no name}}
func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}
