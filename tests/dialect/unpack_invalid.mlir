// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @overlap(%f: tensor<7xf32>) {
  // expected-error @+1 {{dm.unpack: tensor 0 (tensor<4xf32>) at offset 0 overlaps the tensor before it; it must start at 3}}
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 0, 0>} : (tensor<7xf32>) -> (tensor<4xf32>, tensor<3xf32>)
  return
}

// -----

func.func @gap(%f: tensor<9xf32>) {
  // expected-error @+1 {{dm.unpack: tensor 0 (tensor<4xf32>) at offset 2 leaves a gap of 2 elements; it must start at 0}}
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 2, 6>} : (tensor<9xf32>) -> (tensor<4xf32>, tensor<3xf32>)
  return
}

// -----

func.func @rest(%f: tensor<9xf32>) {
  // expected-error @+1 {{dm.unpack: the tensors have 7 elements together, but the buffer is tensor<9xf32>}}
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 0, 4>} : (tensor<9xf32>) -> (tensor<4xf32>, tensor<3xf32>)
  return
}

// -----

func.func @offsets(%f: tensor<4xf32>) {
  // expected-error @+1 {{dm.unpack: has 1 tensors but 2 offsets; each tensor has one}}
  %a = "dm.unpack"(%f) {offsets = array<i64: 0, 4>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @element_type(%f: tensor<4xf32>) {
  // expected-error @+1 {{dm.unpack: mixes tensor<4xi32> with tensor<4xf32>; a bucket has one element type}}
  %a = "dm.unpack"(%f) {offsets = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @nothing(%f: tensor<4xf32>) {
  // expected-error @+1 {{dm.unpack: holds no tensor; a bucket has at least one}}
  "dm.unpack"(%f) {offsets = array<i64>} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @not_flat(%f: tensor<2x2xf32>) {
  // expected-error @+1 {{dm.unpack: operand 'input' is tensor<2x2xf32>; it must be statically shaped tensor of rank 1}}
  %a = "dm.unpack"(%f) {offsets = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @no_operand() {
  // expected-error @+1 {{dm.unpack: takes 1 operand, got 0}}
  %a = "dm.unpack"() {offsets = array<i64: 0>} : () -> tensor<4xf32>
  return
}
