// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_source() {
  // expected-error @+1 {{dm.recv: attribute 'source' is missing}}
  %x = "dm.recv"() {instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
  return
}

// -----

func.func @no_instance() {
  // expected-error @+1 {{dm.recv: attribute 'instance' is missing}}
  %x = "dm.recv"() {source = 0 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
  return
}

// -----

func.func @operand(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.recv: takes 0 operands, got 1}}
  %y = "dm.recv"(%x) {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @dynamic() {
  // expected-error @+1 {{dm.recv: result 'result' is tensor<?xf32>; it must be statically shaped tensor}}
  %x = "dm.recv"() {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<?xf32>
  return
}
