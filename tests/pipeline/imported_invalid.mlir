// RUN: dmc-opt --allow-undefined-symbols %s --from=imported --to=imported --split-input-file --verify-diagnostics

// expected-error @unknown {{no function @step}}
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{@step is private}}
func.func private @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{@helper is public; only @step may be}}
func.func @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{@outside has no body}}
func.func private @outside(tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @+1 {{argument 0 'x' of @step is tensor<?xf32>, not a tensor of static shape}}
func.func @step(%x: tensor<?xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0 'x' of @step is f32, not a tensor of static shape}}
func.func @step(%x: f32 {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 'loss' of @step is tensor<?xf32>, not a tensor of static shape}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<?xf32> {dm.name = "loss"}) {
  %0 = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// expected-error @+1 {{argument 1 of @step has no name}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}, %y: tensor<4xf32> {dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

// Not even one attribute on the results.
// expected-error @+1 {{result 0 of @step has no name}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{arguments 0 and 1 of @step are both named 'x'}}
func.func @step(
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}, %y: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{results 0 and 1 of @step are both named 'loss'}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "loss"}, tensor<4xf32> {dm.name = "loss"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0 'x' of @step has role 'input'}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "input"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 1 'w' of @step, a parameter, is out of order}}
func.func @step(
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}, %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{state 'w' comes as tensor<4xf32> and leaves as tensor<2xf32>}}
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<2xf32> {dm.name = "w"}) {
  %0 = arith.constant dense<0.0> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// expected-error @+1 {{result 0 changes 'x', whose role 'batch' is read-only}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "x"}) {
  return %x : tensor<4xf32>
}

// -----

// The rules of dm that need a whole module hold too.
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{decomposition @nowhere is not defined}}
  %y = "dm.composite"(%x) {kind = "k", decomposition = @nowhere, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
