// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @two_movements(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: contains dm.broadcast, dm.broadcast, dm.yield; it must contain one movement and dm.yield}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    %s = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @no_movement(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: contains dm.yield; it must contain one movement and dm.yield}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.yield"(%a) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @computation(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: contains arith.addf, dm.yield; it must contain one movement and dm.yield}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = arith.addf %a, %a : tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @reshard(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: contains dm.reshard, dm.yield; it must contain one movement and dm.yield}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.reshard"(%a) {source = #dm.sharding<@mesh, [["dp"]], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @no_yield(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: contains dm.broadcast, ub.unreachable; it must contain one movement and dm.yield}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "ub.unreachable"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @region_arguments(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: region takes (tensor<4xf32>), but the inputs are (tensor<8xf32>); they must be the same}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    "dm.yield"(%r) : (tensor<4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @unused_input(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: dm.recv must take the region's arguments, all of them and in order}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.recv"() {source = 1 : i64, instance = 0 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @yields_its_input(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: dm.yield must return what dm.broadcast delivers, and nothing else}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%a) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @yields_nothing(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: dm.yield must return what dm.broadcast delivers, and nothing else}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @payload(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: returns !dm.handle<tensor<4xf32>>, but dm.broadcast delivers tensor<8xf32>}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<4xf32>>, !dm.token)
  return
}

// -----

func.func @payload_of_send(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: returns !dm.handle<tensor<8xf32>>, but dm.send delivers nothing}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.send"(%a) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 7 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @message_instance(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: is instance 0, but its message is instance 7}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.send"(%a) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<none>, !dm.token)
  return
}

// -----

func.func @collective_on_copy_queue(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: dm.broadcast cannot go on queue copy_in; use comm or compute}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @copy_on_comm(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: a copy from device to host cannot go on queue comm; use copy_out or compute}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @copy_in_the_wrong_way(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: a copy from host to device cannot go on queue copy_out; use copy_in or compute}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @copy_on_the_host(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: a copy from host to pinned_host cannot go on queue copy_in; use compute}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"host">, target = #dm.space<"pinned_host">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @queue(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: attribute 'queue' is #dm.queue<"fast">; it must be #dm.queue of compute, comm, copy_in, copy_out}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"fast">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @negative_instance(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: attribute 'instance' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = -1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @no_segments(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: attribute 'operandSegmentSizes' is missing; it must say how many operands are: input, after}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @segments(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: attribute 'operandSegmentSizes' is array<i32: 1, 1>, which does not match 1 operands for: input, after}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @after_a_tensor(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: operand 'after' is tensor<8xf32>; it must be !dm.token}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 0, 1>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @input_token(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: operand 'input' is !dm.token; it must be statically shaped tensor}}
  %h, %u = "dm.start"(%t) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (!dm.token) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @no_handle(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: result 'handle' is tensor<8xf32>; it must be !dm.handle}}
  %h, %u = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (tensor<8xf32>, !dm.token)
  return
}

// -----

func.func @no_token(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: takes 2 results, got 1}}
  %h = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> !dm.handle<tensor<8xf32>>
  return
}

// -----

func.func @no_block(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: region 'body' has 0 blocks; it must have one}}
  %h, %u = "dm.start"(%x) ({
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @no_region(%x: tensor<8xf32>, %t: !dm.token) {
  // expected-error @+1 {{dm.start: has 0 regions; it must have 1}}
  %h, %u = "dm.start"(%x) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

// What is captured would be borrowed without being an operand.
func.func @captures(%x: tensor<8xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %h, %u = "dm.start"() ({
    // expected-note @+2 {{see current operation}}
    // expected-error @+1 {{'dm.broadcast' op using value defined outside the region}}
    %r = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 0, 0>} : () -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}
