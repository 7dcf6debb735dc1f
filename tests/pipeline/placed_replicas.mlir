// RUN: dmc-opt %s --from=placed --to=placed --split-input-file --verify-diagnostics

// What ranks are to hold alike is the same on all of them.

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  // expected-error @+1 {{'w' may differ between ranks along dp, but is declared replicated}}
  %new = arith.addf %w, %x : tensor<4xf32>
  return %new : tensor<4xf32>
}

// -----

// Reduced, it is the same; so it is after the second of two axes, the first of which never split it.
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["tp"]], {}>})
    -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %sum = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %new = arith.addf %w, %sum : tensor<4xf32>
  return %new : tensor<4xf32>
}

// -----

// Reduced along another axis than the one that splits it.
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %sum = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{'w' may differ between ranks along dp, but is declared replicated}}
  %new = arith.addf %w, %sum : tensor<4xf32>
  return %new : tensor<4xf32>
}

// -----

// In a loop: what it carries is the same if each round reduces what it adds.
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
        tensor<4xf32> {dm.name = "loss", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  // expected-error @+1 {{'loss' may differ between ranks along dp, but is declared replicated}}
  %new:3 = scf.for %i = %zero to %two step %one iter_args(%a = %w, %b = %w, %c = %w)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %sum = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    %next = arith.addf %a, %sum : tensor<4xf32>
    scf.yield %next, %c, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %new#0, %new#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Along an axis of one rank nothing can differ.
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 1>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %new = arith.addf %w, %x : tensor<4xf32>
  return %new : tensor<4xf32>
}
