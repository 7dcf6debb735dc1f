// RUN: dmc-opt --allow-undefined-symbols %s -p dm-inline-composites --split-input-file --verify-diagnostics

func.func @step(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{decomposition @nowhere is not defined}}
  %y = "dm.composite"(%a) {kind = "k", decomposition = @nowhere, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @step(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = "dm.composite"(%a) {kind = "k", decomposition = @k_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @k_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{decomposition @k_0 is recursive}}
  %y = "dm.composite"(%x) {kind = "k", decomposition = @k_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A plain call is inlined too, and may reach itself no more than a composite may.
func.func @step(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{func.call: @again cannot be inlined}}
  %y = call @again(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
