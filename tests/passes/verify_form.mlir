// RUN: dmc-opt --allow-undefined-symbols %s --dm-verify-form=form=imported --split-input-file --verify-diagnostics

// A module in the form says nothing.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}, %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}) {
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y, %x : tensor<4xf32>, tensor<4xf32>
}
func.func private @gelu_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.erf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The same module with an operation of another dialect, deep inside.
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @gelu_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = arith.constant true
  %0 = scf.if %true -> tensor<4xf32> {
    // expected-error @+1 {{cf.assert: not allowed in form 'imported'}}
    cf.assert %true, "message"
    scf.yield %x : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Of dm, only the composite belongs here.
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{dm.kernel: not allowed in form 'imported'}}
  %y = "dm.kernel"(%x) {body = @double} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// State may wait in host memory; an input is put in pinned memory.
// expected-error @+1 {{func.func: argument 1 'x' of @step, a batch, is in host memory}}
func.func @step(
    %m: tensor<4xf32> {dm.name = "w.m", dm.role = "optimizer", dm.space = #dm.space<"host">},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.space = #dm.space<"host">})
    -> (tensor<4xf32> {dm.name = "w.m"}, tensor<4xf32> {dm.name = "loss"}) {
  return %m, %x : tensor<4xf32>, tensor<4xf32>
}
