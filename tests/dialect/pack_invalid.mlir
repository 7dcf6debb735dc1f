// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @overlap(%a: tensor<2x2xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{dm.pack: tensor 1 (tensor<3xf32>) at offset 3 overlaps the tensor before it; it must start at 4 or up to 63 elements after}}
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0, 3>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<7xf32>
  return
}

// -----

func.func @gap(%a: tensor<2x2xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{dm.pack: tensor 1 (tensor<3xf32>) at offset 68 leaves a gap of 64 elements; it must start at 4 or up to 63 elements after}}
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0, 68>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<71xf32>
  return
}

// -----

func.func @negative(%a: tensor<2xf32>) {
  // expected-error @+1 {{dm.pack: tensor 0 (tensor<2xf32>) at offset -2 overlaps the tensor before it; it must start at 0 or up to 63 elements after}}
  %f = "dm.pack"(%a) {offsets = array<i64: -2>} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @too_small(%a: tensor<2x2xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{dm.pack: the tensors end at 7, but the buffer is tensor<6xf32>; it must have 7 elements, or up to 63 more}}
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0, 4>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @offsets(%a: tensor<2x2xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{dm.pack: has 2 tensors but 1 offsets; each tensor has one}}
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<7xf32>
  return
}

// -----

func.func @element_type(%a: tensor<2x2xf32>, %b: tensor<3xbf16>) {
  // expected-error @+1 {{dm.pack: mixes tensor<3xbf16> with tensor<7xf32>; a bucket has one element type}}
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0, 4>} : (tensor<2x2xf32>, tensor<3xbf16>) -> tensor<7xf32>
  return
}

// -----

func.func @nothing() {
  // expected-error @+1 {{dm.pack: contains no tensor; a bucket needs at least one}}
  %f = "dm.pack"() {offsets = array<i64>} : () -> tensor<0xf32>
  return
}

// -----

func.func @not_flat(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{dm.pack: result 'result' is tensor<2x2xf32>; it must be statically shaped tensor of rank 1}}
  %f = "dm.pack"(%a) {offsets = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @offset_list(%a: tensor<2xf32>) {
  // expected-error @+1 {{dm.pack: attribute 'offsets' is [0]; it must be i64 dense array attribute}}
  %f = "dm.pack"(%a) {offsets = [0]} : (tensor<2xf32>) -> tensor<2xf32>
  return
}
