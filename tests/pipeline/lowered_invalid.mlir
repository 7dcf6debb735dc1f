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

// -----

// %y may be computed after %new has overwritten what it reads.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", iree.abi.output = 0 : index},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{arith.mulf: may read 'w' after its new value is written there}}
  %y = arith.mulf %w, %x : tensor<4xf32>
  %new = arith.subf %w, %x : tensor<4xf32>
  return %new, %y : tensor<4xf32>, tensor<4xf32>
}

// -----

// %w is in the memory of %arena: its readers are readers of the arena.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"},
    %arena: tensor<4xf32> {dm.name = "a", dm.role = "arena", dm.members = {w = 0 : i64}, iree.abi.output = 0 : index})
    -> (tensor<4xf32> {dm.name = "a"}, tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{arith.mulf: may read 'a' after its new value is written there}}
  %y = arith.mulf %w, %x : tensor<4xf32>
  %new = arith.subf %arena, %x : tensor<4xf32>
  return %new, %y : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: %z comes late, but it reads what is already in memory, and what reads %w comes first.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", iree.abi.output = 0 : index},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}) {
  %y = arith.mulf %w, %x : tensor<4xf32>
  %there = "iree_tensor_ext.compute_barrier_start"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %new = arith.subf %w, %there : tensor<4xf32>
  %z = math.tanh %there : tensor<4xf32>
  return %new, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// %there is in memory, but in that of %w, of which it is a view.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", iree.abi.output = 0 : index})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<2x2xf32> {dm.name = "loss"}) {
  %square = tensor.expand_shape %w [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %there = "iree_tensor_ext.compute_barrier_start"(%square) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %line = tensor.collapse_shape %there [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %y = arith.negf %line : tensor<4xf32>
  %y_there = "iree_tensor_ext.compute_barrier_start"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %new = arith.subf %w, %y_there : tensor<4xf32>
  // expected-error @+1 {{math.tanh: may read 'w' after its new value is written there}}
  %z = math.tanh %there : tensor<2x2xf32>
  return %new, %z : tensor<4xf32>, tensor<2x2xf32>
}

// -----

// One kernel would read %w, not in order, and overwrite it.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %arena: tensor<4xf32> {dm.name = "a", dm.role = "arena", dm.members = {w = 0 : i64}, iree.abi.output = 0 : index})
    -> (tensor<4xf32> {dm.name = "a"}) {
  %y = math.tanh %w : tensor<4xf32>
  // expected-error @+1 {{arith.subf: may read 'a' after its new value is written there}}
  %new = arith.subf %arena, %y : tensor<4xf32>
  return %new : tensor<4xf32>
}

// -----

// Nothing orders the copy of %v before the change of %v.
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "buffer", iree.abi.output = 0 : index},
    %v: tensor<4xf32> {dm.name = "v", dm.role = "buffer", iree.abi.output = 1 : index})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "v"}) {
  %new = math.tanh %v : tensor<4xf32>
  // expected-error @+1 {{func.return: gives 'w' the value of another argument}}
  return %v, %new : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{output 'loss' is in the memory of an argument}}
func.func @step(%x: tensor<2x2xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %there = "iree_tensor_ext.compute_barrier_start"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %there : tensor<4xf32>
}
