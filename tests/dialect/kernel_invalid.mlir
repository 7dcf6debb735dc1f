// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @captures(%x: tensor<8xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %y = "dm.kernel"() ({
    // expected-note @+2 {{see current operation}}
    // expected-error @+1 {{using value defined outside the region}}
    %r = arith.addf %x, %x : tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) : () -> tensor<8xf32>
  return
}

// -----

func.func @argument_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: region takes (tensor<4xf32>), but the inputs are (tensor<8xf32>); they must be the same}}
  %y = "dm.kernel"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    "dm.yield"(%a) : (tensor<4xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @argument_count(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: region takes (), but the inputs are (tensor<8xf32>); they must be the same}}
  "dm.kernel"(%x) ({
    "dm.yield"() : () -> ()
  }) : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @yields_less(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: yields (), but its results are (tensor<8xf32>); they must be the same}}
  %y = "dm.kernel"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.yield"() : () -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @yields_another_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: yields (tensor<8xf32>), but its results are (tensor<4xf32>); they must be the same}}
  %y = "dm.kernel"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.yield"(%a) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @moves(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: holds dm.broadcast; nothing moves inside a kernel, so move it out}}
  %y = "dm.kernel"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @moves_deep_inside(%x: tensor<8xf32>, %c: i1) {
  // expected-error @+1 {{dm.kernel: holds dm.copy; nothing moves inside a kernel, so move it out}}
  %y = "dm.kernel"(%x, %c) ({
  ^bb0(%a: tensor<8xf32>, %b: i1):
    %r = scf.if %b -> tensor<8xf32> {
      %h = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
      scf.yield %h : tensor<8xf32>
    } else {
      scf.yield %a : tensor<8xf32>
    }
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>, i1) -> tensor<8xf32>
  return
}

// -----

func.func @nested(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.kernel: holds dm.kernel; nothing moves inside a kernel, so move it out}}
  "dm.kernel"() ({
    "dm.kernel"() ({
      "dm.yield"() : () -> ()
    }) : () -> ()
    "dm.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @other_terminator() {
  // expected-error @+1 {{dm.kernel: ends in ub.unreachable; it must end in dm.yield}}
  "dm.kernel"() ({
    "ub.unreachable"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @two_blocks() {
  // expected-error @+1 {{dm.kernel: region 'body' has 2 blocks; it must have one}}
  "dm.kernel"() ({
    "dm.yield"() : () -> ()
  ^bb1:
    "dm.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @no_region() {
  // expected-error @+1 {{dm.kernel: has 0 regions; it must have 1}}
  "dm.kernel"() : () -> ()
  return
}

// -----

func.func @negative_estimate() {
  // expected-error @+1 {{dm.kernel: attribute 'estimated_ns' is -5 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.kernel"() ({
    "dm.yield"() : () -> ()
  }) {estimated_ns = -5 : i64} : () -> ()
  return
}

// -----

func.func @tiles() {
  // expected-error @+1 {{dm.kernel: attribute 'tiles' is [128]; it must be dictionary of named attribute values}}
  "dm.kernel"() ({
    "dm.yield"() : () -> ()
  }) {tiles = [128]} : () -> ()
  return
}

// -----

func.func @implementation() {
  // expected-error @+1 {{dm.kernel: attribute 'implementation' is 1 : i64; it must be string attribute}}
  "dm.kernel"() ({
    "dm.yield"() : () -> ()
  }) {implementation = 1} : () -> ()
  return
}

// -----

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error @+1 {{dm.kernel: operand 'inputs' is tensor<?xf32>; it must be statically shaped tensor}}
  "dm.kernel"(%x) ({
  ^bb0(%a: tensor<?xf32>):
    "dm.yield"() : () -> ()
  }) : (tensor<?xf32>) -> ()
  return
}
