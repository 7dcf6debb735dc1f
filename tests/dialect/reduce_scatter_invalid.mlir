// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_multiple(%x: tensor<6x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: dimension 0 of the operand is 6; it must be a multiple of the result's 4}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @grows(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: dimension 0 of the operand is 4; it must be a multiple of the result's 8}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @other_dimension(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: dimension 1 is 8 in the operand but 4 in the result; it must not change}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @rank(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: turns tensor<8x8xf32> into tensor<8xf32>; element type and rank must not change}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @dimension(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: dimension 2 does not exist in tensor<8x8xf32>}}
  %y = "dm.reduce_scatter"(%x) {dim = 2 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @narrow(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: accumulates f32 in bf16; it must be in the same class and no narrower}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = bf16, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @mean_of_integers(%x: tensor<8x8xi32>) {
  // expected-error @+1 {{dm.reduce_scatter: has no mean for i32; reduce with sum and divide, or convert to floating point first}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"mean">, accumulate = i32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xi32>) -> tensor<4x8xi32>
  return
}

// -----

func.func @no_accumulate(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{dm.reduce_scatter: attribute 'accumulate' is missing; it must be any type attribute}}
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}
