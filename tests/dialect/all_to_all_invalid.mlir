// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @split(%x: tensor<6x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 0 of the operand is 6; it must be a multiple of the result's 4}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<6x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @concat(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 1 of the result is 6; it must be a multiple of the operand's 4}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @factors(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 0 goes from 8 to 4 but dimension 1 from 4 to 16; one loses the factor that the other gains}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @other_dimension(%x: tensor<8x4x2xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 2 is 2 in the operand but 1 in the result; it must not change}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4x2xf32>) -> tensor<4x8x1xf32>
  return
}

// -----

func.func @one_dimension(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 0 is 8 in the operand but 4 in the result; it must not change}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @split_dimension(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 2 does not exist in tensor<8x4xf32>}}
  %y = "dm.all_to_all"(%x) {split_dim = 2 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @concat_dimension(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: dimension 3 does not exist in tensor<8x4xf32>}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 3 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @element_type(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dm.all_to_all: turns tensor<8x4xf32> into tensor<4x8xf16>; element type and rank must not change}}
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x8xf16>
  return
}
