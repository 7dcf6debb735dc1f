// RUN: dmc-opt %s -p dm-link-ranks --split-input-file --verify-diagnostics

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{dm.reshard: cannot be linked: it is no collective on values}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [["dp"]], {}>} : (tensor<4xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
  // expected-error @+1 {{scf.if: holds a dm.all_reduce, which must run on all ranks or on none}}
  %y = scf.if %p -> tensor<4xf32> {
    %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // expected-error @+1 {{scf.for: holds collectives, but its number of rounds may differ between ranks}}
  %y = scf.for %i = %zero to %n step %one iter_args(%a = %x) -> tensor<4xf32> {
    %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "dm.composite"(%x) {kind = "mean", decomposition = @mean, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @mean(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{dm.all_reduce: stands in @mean, but ranks are linked in @step only}}
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xi1>) -> tensor<4xi1> {
  // expected-error @+1 {{dm.all_reduce: cannot reduce elements of type i1}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"max">, accumulate = i1, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xi1>) -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
// expected-error @+1 {{dm.mesh: is a second mesh}}
"dm.mesh"() {sym_name = "other", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{no function @step}}
module {
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
}
