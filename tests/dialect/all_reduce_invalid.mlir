// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.all_reduce: 'input' is tensor<8xf32> but 'result' is tensor<4xf32>; they must be the same type}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @narrow(%x: tensor<8xi32>) {
  // expected-error @+1 {{dm.all_reduce: accumulates i32 in i8; it must be in the same class and no narrower}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = i8, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xi32>) -> tensor<8xi32>
  return
}

// -----

func.func @class(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.all_reduce: accumulates f32 in i64; it must be in the same class and no narrower}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @complex(%x: tensor<8xcomplex<f32>>) {
  // expected-error @+1 {{dm.all_reduce: elements of type complex<f32> cannot be reduced; they must be floating point or integers}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return
}

// -----

func.func @mean(%x: tensor<8xi32>) {
  // expected-error @+1 {{dm.all_reduce: has no mean for i32; reduce with sum and divide, or convert to floating point first}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"mean">, accumulate = i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xi32>) -> tensor<8xi32>
  return
}

// -----

func.func @word(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.all_reduce: attribute 'reduction' is #dm.reduction<"average">; it must be #dm.reduction of sum, mean, prod, min, max}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"average">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @string(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.all_reduce: attribute 'reduction' is "sum"; it must be #dm.reduction of sum, mean, prod, min, max}}
  %y = "dm.all_reduce"(%x) {reduction = "sum", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
