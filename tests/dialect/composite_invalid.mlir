// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @no_kind(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: attribute 'kind' is missing; it must be string attribute}}
  %y = "dm.composite"(%x) {decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @empty_kind(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: its kind is empty; name what it computes, such as layer_norm}}
  %y = "dm.composite"(%x) {kind = "", decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @a_flag(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: its parameter 'bias' has no value; write bias = none for an argument that was not given}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {bias}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_decomposition(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: attribute 'decomposition' is missing; it must be flat symbol reference attribute}}
  %y = "dm.composite"(%x) {kind = "gelu", parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @nested_decomposition(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: attribute 'decomposition' is @a::@gelu_0; it must be flat symbol reference attribute}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @a::@gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_parameters(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: attribute 'parameters' is missing; it must be dictionary of named attribute values}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @loose_parameter(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: takes no attribute 'eps' (it takes: decomposition, kind, parameters); others need a dialect's prefix}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}, eps = 1.0 : f32} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error @+1 {{dm.composite: operand 'inputs' is tensor<?xf32>; it must be statically shaped tensor}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<?xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @handle(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: result 'outputs' is !dm.token; it must be statically shaped tensor}}
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> !dm.token
  return
}

// -----

func.func @region(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.composite: has 1 regions; it must have 0}}
  %y = "dm.composite"(%x) ({
  }) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
