// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reshard: 'target' shards 1 dimensions, but tensor<8x8xf32> has 2}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], []], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @rank_of_source(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reshard: 'source' shards 3 dimensions, but tensor<8x8xf32> has 2}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], [], []], {}>, target = #dm.sharding<@mesh, [[], []], {}>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @meshes(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.reshard: goes from mesh @a to mesh @b; both must be the same}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@a, [[]], {}>, target = #dm.sharding<@b, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @becomes_partial(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.reshard: makes the value partial (max) over 'tp'; a value can only become partial by sum}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"max">}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @other_reduction(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.reshard: makes the value partial (mean) over 'tp'; a value can only become partial by sum}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"mean">}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @mixed_reductions(%x: tensor<8xf32>) {
  // expected-error @+1 {{is partial by max and sum; their order would matter, so complete one first}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"sum">, tp = #dm.reduction<"max">}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @axis_in_two_dimensions(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reshard: #dm.sharding<@mesh, [["dp"], ["dp"]], {}> uses axis 'dp' twice; an axis is used at most once}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], ["dp"]], {}>, target = #dm.sharding<@mesh, [[], []], {}>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @split_and_partial(%x: tensor<8xf32>) {
  // expected-error @+1 {{uses axis 'tp' twice; an axis is used at most once}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["tp"]], {tp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @partial_by_string(%x: tensor<8xf32>) {
  // expected-error @+1 {{partial axis 'tp' must give a #dm.reduction, got "sum"}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {tp = "sum"}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @partial_word(%x: tensor<8xf32>) {
  // expected-error @+1 {{partial axis 'tp' must give a #dm.reduction, got #dm.reduction<"total">}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"total">}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @axes_not_listed(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.reshard: attribute 'source' is #dm.sharding<@mesh, ["dp"], {}>; it must be #dm.sharding}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, ["dp"], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @element_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.reshard: turns tensor<8xf32> into tensor<8xbf16>; element type and rank must not change}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xbf16>
  return
}

// -----

func.func @rank_of_result(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.reshard: turns tensor<8xf32> into tensor<8x1xf32>; element type and rank must not change}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8x1xf32>
  return
}

// -----

func.func @no_number_of_blocks(%x: tensor<8xf32>) {
  // expected-error @+1 {{'0*dp' must be an axis, or a number of blocks and an axis as in '3*tp'}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["0*dp"]], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
