// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.broadcast: 'input' is tensor<8xf32> but 'result' is tensor<8xbf16>; they must be the same type}}
  %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xbf16>
  return
}

// -----

func.func @negative_root(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.broadcast: attribute 'root' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  %y = "dm.broadcast"(%x) {root = -1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_root(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.broadcast: attribute 'root' is missing}}
  %y = "dm.broadcast"(%x) {group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_axis(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.broadcast: #dm.group<@mesh, []> has no axis; a group needs at least one}}
  %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, []>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @axis_twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.broadcast: #dm.group<@mesh, ["dp", "dp"]> uses axis 'dp' twice; an axis is used at most once}}
  %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp", "dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @axis_by_number(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.broadcast: attribute 'group' is #dm.group<@mesh, [0]>; it must be #dm.group}}
  %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, [0]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @mesh_by_number(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected base attribute 'builtin.symbol_ref' but got 'builtin.integer'}}
  %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<0, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
