// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_multiple(%x: tensor<6x8xf32>) {
  // expected-error @+1 {{dm.all_slice: dimension 0 of the operand is 6; it must be a multiple of the result's 4}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @grows(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.all_slice: dimension 0 of the operand is 4; it must be a multiple of the result's 8}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @other_dimension(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.all_slice: dimension 1 is 8 in the operand but 4 in the result; it must not change}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @rank(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.all_slice: turns tensor<8x8xf32> into tensor<8xf32>; element type and rank must not change}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @element_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.all_slice: turns tensor<8xf32> into tensor<4xbf16>; element type and rank must not change}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xbf16>
  return
}

// -----

func.func @dimension(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.all_slice: dimension 2 does not exist in tensor<8x8xf32>}}
  %y = "dm.all_slice"(%x) {dim = 2 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @no_group(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.all_slice: attribute 'group' is missing; it must be #dm.group}}
  %y = "dm.all_slice"(%x) {dim = 0 : i64} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

// It moves nothing, so there is nothing to start.
func.func @started(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.start: contains dm.all_slice, dm.yield; it must contain one movement and dm.yield}}
  %h, %t = "dm.start"(%x) ({
  ^bb0(%i: tensor<8xf32>):
    %r = "dm.all_slice"(%i) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
    "dm.yield"(%r) : (tensor<4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<4xf32>>, !dm.token)
  return
}
