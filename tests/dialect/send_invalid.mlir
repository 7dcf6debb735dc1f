// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_target(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.send: attribute 'target' is missing}}
  "dm.send"(%x) {instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @negative_target(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.send: attribute 'target' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.send"(%x) {target = -1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @negative_instance(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.send: attribute 'instance' is -7 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.send"(%x) {target = 1 : i64, instance = -7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @result(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.send: takes 0 results, got 1}}
  %y = "dm.send"(%x) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scalar(%x: f32) {
  // expected-error @+1 {{dm.send: operand 'input' is f32; it must be statically shaped tensor}}
  "dm.send"(%x) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (f32) -> ()
  return
}
