// RUN: dmc-opt --allow-undefined-symbols %s --from=placed --to=placed --split-input-file --verify-diagnostics

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
// expected-error @+1 {{argument 'x' of @step has no placement on the mesh}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
// expected-error @+1 {{result 'loss' of @step has no placement on the mesh}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [[]], {}>})
    -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
// expected-error @+1 {{state 'w' comes as [dp] and leaves as [-]}}
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  return %w : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
// expected-error @+1 {{result 'loss' of @step is [-], sum over dp}}
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<4xf32> {dm.name = "loss", dm.sharding = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"sum">}>}) {
  return %x : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
// expected-error @+1 {{dm.mesh: is a second mesh}}
"dm.mesh"() {sym_name = "other", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<8xf32> {dm.name = "loss", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  // expected-error @+1 {{dm.reshard: not allowed in form 'placed'}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"]], {}>, target = #dm.sharding<@mesh, [[]], {}>}
      : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A collective is among the ranks of a mesh.
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  // expected-error @+1 {{dm.all_reduce: }}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
      : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
