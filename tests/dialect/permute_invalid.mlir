// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @source_twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: rank 0 is a source twice; each rank sends and receives at most once}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @target_twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: rank 2 is a target twice; each rank sends and receives at most once}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 2], [1, 2]]> : tensor<2x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @negative(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: target -1 is negative; it is an index in the group}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, -1]]> : tensor<1x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @triples(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: source_target_pairs is a tensor<1x3xi64>; it must have one row (source, target) per pair}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1, 2]]> : tensor<1x3xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @flat(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: source_target_pairs is a tensor<2xi64>; it must have one row (source, target) per pair}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[0, 1]> : tensor<2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_pair(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: source_target_pairs is a tensor<0x2xi64>; it must have one row (source, target) per pair}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<> : tensor<0x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @narrow_pairs(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: attribute 'source_target_pairs' is dense<[[0, 1]]> : tensor<1x2xi32>; it must be 64-bit signless integer elements attribute}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi32>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @list(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: attribute 'source_target_pairs' is [0, 1]; it must be 64-bit signless integer elements attribute}}
  %y = "dm.permute"(%x) {source_target_pairs = [0, 1], group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.permute: 'input' is tensor<8xf32> but 'result' is tensor<9xf32>; they must be the same type}}
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<9xf32>
  return
}
