// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_body(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: attribute 'body' is missing; it must be flat symbol reference attribute}}
  %y = "dm.kernel"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @nested_body(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: attribute 'body' is @a::@double; it must be flat symbol reference attribute}}
  %y = "dm.kernel"(%x) {body = @a::@double} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @region(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: has 1 regions; it must have 0}}
  %y = "dm.kernel"(%x) ({
  }) {body = @double} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @variants_without_a_group(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: has variants without a group, or a group without variants; both or neither must be given}}
  %y = "dm.kernel"(%x) {body = @left, variants = [@left, @right]} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @group_without_variants(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: has variants without a group, or a group without variants; both or neither must be given}}
  %y = "dm.kernel"(%x) {body = @left, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @body_is_no_variant(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: its first variant is not its body @left}}
  %y = "dm.kernel"(%x) {body = @left, variants = [@right, @left], group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @empty_variants(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: its first variant is not its body @left}}
  %y = "dm.kernel"(%x) {body = @left, variants = [], group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @variants_are_strings(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: attribute 'variants' is ["left"]; it must be flat symbol ref array attribute}}
  %y = "dm.kernel"(%x) {body = @left, variants = ["left"], group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @negative_flops() {
  // expected-error @+1 {{dm.kernel: attribute 'flops' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.kernel"() {body = @f, flops = -1 : i64} : () -> ()
  return
}

// -----

func.func @negative_bytes() {
  // expected-error @+1 {{dm.kernel: attribute 'bytes' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.kernel"() {body = @f, bytes = -1 : i64} : () -> ()
  return
}

// -----

func.func @negative_scratch() {
  // expected-error @+1 {{dm.kernel: attribute 'scratch' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.kernel"() {body = @f, scratch = -1 : i64} : () -> ()
  return
}

// -----

func.func @negative_estimate() {
  // expected-error @+1 {{dm.kernel: attribute 'estimated_ns' is -5 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.kernel"() {body = @f, estimated_ns = -5 : i64} : () -> ()
  return
}

// -----

func.func @tiles() {
  // expected-error @+1 {{dm.kernel: attribute 'tiles' is [128]; it must be dictionary of named attribute values}}
  "dm.kernel"() {body = @f, tiles = [128]} : () -> ()
  return
}

// -----

func.func @implementation() {
  // expected-error @+1 {{dm.kernel: attribute 'implementation' is 1 : i64; it must be string attribute}}
  "dm.kernel"() {body = @f, implementation = 1} : () -> ()
  return
}

// -----

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error @+1 {{dm.kernel: operand 'inputs' is tensor<?xf32>; it must be statically shaped tensor}}
  "dm.kernel"(%x) {body = @f} : (tensor<?xf32>) -> ()
  return
}

// -----

func.func @scalar(%n: i64) {
  // expected-error @+1 {{dm.kernel: operand 'inputs' is i64; it must be statically shaped tensor}}
  "dm.kernel"(%n) {body = @f} : (i64) -> ()
  return
}

// -----

func.func @gives_a_scalar() {
  // expected-error @+1 {{dm.kernel: result 'outputs' is f32; it must be statically shaped tensor}}
  %y = "dm.kernel"() {body = @f} : () -> f32
  return
}
