// RUN: dmc-opt %s -p dm-pack-state --split-input-file --verify-diagnostics

// An element of the new value needs more than the same element of the old.
func.func @step(
    %w: tensor<2x2xf32> {dm.name = "w", dm.role = "parameter"},
    %g: tensor<2x2xf32> {dm.name = "g", dm.role = "batch"}) -> (tensor<2x2xf32> {dm.name = "w"}) {
  %new = "dm.composite"(%w, %g) {kind = "optimizer_update_sgd", decomposition = @transposed_0, parameters = {}}
      : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %new : tensor<2x2xf32>
}
#straight = affine_map<(i, j) -> (i, j)>
#across = affine_map<(i, j) -> (j, i)>
func.func private @transposed_0(%w: tensor<2x2xf32>, %g: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %empty = tensor.empty() : tensor<2x2xf32>
  // expected-error @+1 {{linalg.generic: is not elementwise: its operands are read at different places}}
  %0 = linalg.generic {indexing_maps = [#straight, #across, #straight], iterator_types = ["parallel", "parallel"]}
      ins(%w, %g : tensor<2x2xf32>, tensor<2x2xf32>) outs(%empty : tensor<2x2xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %1 = arith.subf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// Another loop than over the elements.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %g: tensor<4xf32> {dm.name = "g", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "w"}) {
  %new = "dm.composite"(%w, %g) {kind = "optimizer_update_sgd", decomposition = @copied_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new : tensor<4xf32>
}
func.func private @copied_0(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{tensor.insert_slice: is not elementwise}}
  %0 = tensor.insert_slice %g into %w[0] [4] [1] : tensor<4xf32> into tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A gradient that another update has to happen for.
func.func @step(
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %g: tensor<4xf32> {dm.name = "g", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}) {
  %new_v = "dm.composite"(%v, %g) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{dm.composite: reads what is computed after another update}}
  %new_w = "dm.composite"(%w, %new_v) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new_v, %new_w : tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}
