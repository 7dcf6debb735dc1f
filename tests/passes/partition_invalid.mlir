// RUN: dmc-opt %s -p dm-partition --split-input-file --verify-diagnostics

// expected-error @+1 {{builtin.module: has 2 meshes}}
module {
  "dm.mesh"() {sym_name = "a", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  "dm.mesh"() {sym_name = "b", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 3>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{math.exp: cannot be split as stated by dm.loops and dm.partial}}
  %y = math.exp %x {dm.loops = [["dp"]], dm.sharding = [#dm.sharding<@mesh, [[]], {}>]} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{math.exp: cannot be split as stated by dm.loops and dm.partial}}
  %y = math.exp %x {dm.partial = {dp = #dm.reduction<"sum">}} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @mean(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<8xf32>) outs(%zero : tensor<f32>) {
    ^bb0(%a: f32, %sum: f32):
      %r = arith.addf %sum, %a : f32
      linalg.yield %r : f32
  } -> tensor<f32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%s : tensor<f32>) outs(%e : tensor<8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = math.exp %a : f32
      linalg.yield %r : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{dm.composite: a part of 'gelu' needs data of other ranks, although its rule splits it}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @mean, parameters = {}, dm.loops = [["dp"]], dm.sharding = [#dm.sharding<@mesh, [["dp"]], {}>]} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
