// RUN: dmc-opt %s -p 'dm-plan-memory{cap=1000}' --split-input-file --verify-diagnostics

// Over the cap: where the peak is, and what is alive there, largest first.
func.func private @grow(%w: tensor<64xf32>) -> tensor<128xf32> {
  %c = arith.constant dense<0.0> : tensor<128xf32>
  return %c : tensor<128xf32>
}
func.func private @shrink(%x: tensor<128xf32>, %w: tensor<64xf32>) -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
// expected-error @unknown {{the step: needs 1,024 bytes of device memory, but the cap is 1,000; the peak is at h.1, backward (operation 1 of @step): 1,024 bytes}}
func.func @step(%w: tensor<64xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<64xf32> {dm.name = "w"}) {
  %x = "dm.kernel"(%w) {body = @grow, dm.label = "h.0"} : (tensor<64xf32>) -> tensor<128xf32>
  %new = "dm.kernel"(%x, %w) {body = @shrink, dm.label = "h.1, backward"} : (tensor<128xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %new : tensor<64xf32>
}

// -----

// State that changes places.
func.func @step(%a: tensor<4xf32> {dm.name = "a", dm.role = "buffer"}, %b: tensor<4xf32> {dm.name = "b", dm.role = "buffer"}) -> (tensor<4xf32> {dm.name = "a"}, tensor<4xf32> {dm.name = "b"}) {
  // expected-error @+1 {{func.return: gives state the old value of other state, which also changes}}
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// What is no kernel has no place.
func.func @step(%a: tensor<4xf32> {dm.name = "a", dm.role = "buffer"}) -> (tensor<4xf32> {dm.name = "a"}) {
  // expected-error @+1 {{math.tanh: does not belong to form scheduled}}
  %b = math.tanh %a : tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

// State that waits in host memory, but does not go back there.
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @step(%a: tensor<4xf32> {dm.name = "a.m", dm.role = "optimizer", dm.space = #dm.space<"host">}) -> (tensor<4xf32> {dm.name = "a.m"}) {
  %h, %t = "dm.start"(%a) ({
  ^bb0(%x: tensor<4xf32>):
    %c = "dm.copy"(%x) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<4xf32>) -> tensor<4xf32>
    "dm.yield"(%c) : (tensor<4xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4xf32>) -> (!dm.handle<tensor<4xf32>>, !dm.token)
  %y = "dm.wait"(%h) : (!dm.handle<tensor<4xf32>>) -> tensor<4xf32>
  %b = "dm.kernel"(%y) {body = @twice} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{func.return: leaves the new value of 'a.m' in device memory; it waits in host memory}}
  return %b : tensor<4xf32>
}

// -----

// State that waits in host memory, read there.
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @step(%a: tensor<4xf32> {dm.name = "a.m", dm.role = "optimizer", dm.space = #dm.space<"host">}) -> (tensor<4xf32> {dm.name = "out"}) {
  // expected-error @+1 {{dm.kernel: reads host memory}}
  %b = "dm.kernel"(%a) {body = @twice} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
