// RUN: dmc-opt %s --split-input-file --verify-diagnostics
// RUN: not dmc-opt %s --split-input-file -p canonicalize 2>&1 | %FileCheck %s

// What names something else is checked on parse, before any pass.

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 4>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @pieces(%x: tensor<8xf32>) -> tensor<4xf32> {
  // CHECK: error: dm.all_slice: dimension 0 of the operand is 8
  // expected-error @+1 {{dm.all_slice: dimension 0 of the operand is 8; with 4 ranks in #dm.group<@mesh, ["dp"]> and 4 in the result it must be 16}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @axis(%x: tensor<8xf32>) -> tensor<4xf32> {
  // CHECK: @mesh has no axis 'tp'; its axes are dp
  // expected-error @+1 {{dm.all_slice: #dm.group<@mesh, ["tp"]>: @mesh has no axis 'tp'; its axes are dp}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @no_mesh(%x: tensor<8xf32>) -> tensor<4xf32> {
  // CHECK: @mesh is not defined; declare a dm.mesh
  // expected-error @+1 {{dm.all_slice: #dm.group<@mesh, ["dp"]>: @mesh is not defined; declare a dm.mesh}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @custom(%x: tensor<8xf32>) {
  // CHECK: :[[# @LINE+2]]:8: error: dm.copy: this dialect has generic syntax only
  // expected-error @+1 {{dm.copy: this dialect has generic syntax only}}
  %y = dm.copy %x to "host" : tensor<8xf32>
  return
}
