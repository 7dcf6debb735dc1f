// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @overlap(%f: tensor<7xf32>) {
  // expected-error @+1 {{dm.unpack: tensor 0 (tensor<4xf32>) at offset 0 overlaps the tensor before it; it must start at 3 or up to 63 elements after}}
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 0, 0>} : (tensor<7xf32>) -> (tensor<4xf32>, tensor<3xf32>)
  return
}

// -----

// 256 bytes are no padding.
func.func @gap(%f: tensor<135xbf16>) {
  // expected-error @+1 {{dm.unpack: tensor 0 (tensor<4xbf16>) at offset 128 leaves a gap of 128 elements; it must start at 0 or up to 127 elements after}}
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 128, 132>} : (tensor<135xbf16>) -> (tensor<4xbf16>, tensor<3xbf16>)
  return
}

// -----

func.func @rest(%f: tensor<71xf32>) {
  // expected-error @+1 {{dm.unpack: the tensors end at 7, but the buffer is tensor<71xf32>; it must have 7 elements, or up to 63 more}}
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 0, 4>} : (tensor<71xf32>) -> (tensor<4xf32>, tensor<3xf32>)
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
  // expected-error @+1 {{dm.unpack: contains no tensor; a bucket needs at least one}}
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
