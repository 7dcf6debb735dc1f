// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_multiple(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: dimension 0 of the result is 6; it must be a multiple of the operand's 4}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

func.func @shrinks(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: dimension 0 of the result is 0; it must be a multiple of the operand's 4}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<0x8xf32>
  return
}

// -----

func.func @from_nothing(%x: tensor<0x8xf32>) {
  // expected-error @+1 {{dm.all_gather: dimension 0 of the result is 2; it must be a multiple of the operand's 0}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<0x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @other_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: dimension 1 is 8 in the operand but 16 in the result; it must not change}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @element_type(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: turns tensor<4x8xf32> into tensor<8x8xbf16>; element type and rank must not change}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xbf16>
  return
}

// -----

func.func @rank(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: turns tensor<4x8xf32> into tensor<2x4x8xf32>; element type and rank must not change}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: dimension 2 does not exist in tensor<4x8xf32>}}
  %y = "dm.all_gather"(%x) {dim = 2 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @negative_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: attribute 'dim' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  %y = "dm.all_gather"(%x) {dim = -1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @width_of_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: attribute 'dim' is 0 : i32; it must be 64-bit signless integer attribute}}
  %y = "dm.all_gather"(%x) {dim = 0 : i32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @no_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: attribute 'dim' is missing; it must be 64-bit signless integer attribute}}
  %y = "dm.all_gather"(%x) {group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @no_group(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: attribute 'group' is missing; it must be #dm.group}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @channel_by_string(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: attribute 'channel' is "weights"; it must be flat symbol reference attribute}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, channel = "weights"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @misspelt(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: takes no attribute 'chanel' (it takes: channel, dim, group); others need a dialect's prefix}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, chanel = @weights} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{dm.all_gather: operand 'input' is tensor<?x8xf32>; it must be statically shaped tensor}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<?x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @no_tensor(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: result 'result' is f32; it must be statically shaped tensor}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> f32
  return
}

// -----

func.func @two_operands(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: takes 1 operand, got 2}}
  %y = "dm.all_gather"(%x, %x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @no_result(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: takes 1 result, got 0}}
  "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> ()
  return
}

// -----

func.func @region(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_gather: has 1 regions; it must have 0}}
  %y = "dm.all_gather"(%x) ({
  }) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}
