// RUN: dmc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{dm.mesh: has no axis; a mesh of one rank has one axis of size 1}}
"dm.mesh"() {sym_name = "mesh", axes = [], sizes = array<i64>, device = #dm.device<"cpu">, links = []} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: axis 'dp' is declared twice}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "dp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: axis 1 has no name}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp", ""], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: has 2 axes but 1 sizes; each axis has one of each}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: has 1 axes but 2 links; each axis has one of each}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: axis 'tp' has size 0; it must be at least 1}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 0>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: attribute 'sizes' is array<i32: 2>; it must be i64 dense array attribute}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i32: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: attribute 'axes' is [0]; it must be string array attribute}}
"dm.mesh"() {sym_name = "mesh", axes = [0], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: attribute 'device' is #dm.device<"tpu">; it must be #dm.device of cpu, cuda}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"tpu">, links = [#dm.link<"memory">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: attribute 'links' is [#dm.link<"string">]; it must be array of links}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"string">]} : () -> ()

// -----

// expected-error @+1 {{dm.mesh: attribute 'sym_name' is missing; it must be string attribute}}
"dm.mesh"() {axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// -----

func.func @inside() {
  // expected-error @+1 {{dm.mesh: is in func.func; it belongs directly in builtin.module}}
  "dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  return
}
