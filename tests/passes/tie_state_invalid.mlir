// RUN: dmc-opt %s -p dm-tie-state --split-input-file --verify-diagnostics

// expected-error @+1 {{state 'w' comes as tensor<4xf32> and leaves as tensor<4xbf16>}}
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<4xbf16> {dm.name = "w"}) {
  %0 = arith.truncf %w : tensor<4xf32> to tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// expected-error @+1 {{result 0 changes 'table', whose role 'frozen' is never changed}}
func.func @step(%w: tensor<4xf32> {dm.name = "table", dm.role = "frozen"}) -> (tensor<4xf32> {dm.name = "table"}) {
  return %w : tensor<4xf32>
}

// -----

// The order of the results is part of the calling convention: an output may not stand before changed state.
// expected-error @+1 {{result 1 is the new value of 'w' but stands out of order}}
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<4xf32> {dm.name = "loss"}, tensor<4xf32> {dm.name = "w"}) {
  return %w, %w : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{result 1 is the new value of 'v' but stands out of order}}
func.func @step(
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter"}, %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "v"}) {
  return %w, %v : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @unknown {{no function @step}}
func.func @train(%w: tensor<4xf32>) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}
