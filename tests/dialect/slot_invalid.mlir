// RUN: dmc-opt %s --split-input-file --verify-diagnostics

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: range #dm.range<@device, [0, 60]> does not have the 64 bytes of tensor<4x4xf32>}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [0, 60]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: f32 cannot be in an arena; it must be a tensor of static shape}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = f32, range = #dm.range<@device, [0, 4]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: tensor<?xf32> cannot be in an arena; it must be a tensor of static shape}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<?xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: elements of type index have no size}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<8xindex>, range = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: #dm.range<@device, [-1, 64]>: bounds are [-1, 64]; they must be a first byte and a number of bytes above 0}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [-1, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: #dm.range<@device, [0, 0]>: bounds are [0, 0]; they must be a first byte and a number of bytes above 0}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [0, 0]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: #dm.range<@device, [64]>: bounds are [64]; they must be a first byte and a number of bytes above 0}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: attribute 'range' is missing; it must be #dm.range}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: attribute 'name' is missing; it must be string attribute}}
  "dm.slot"() {role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.slot: attribute 'role' is 1 : i64; it must be string attribute}}
  "dm.slot"() {name = "fc.weight", role = 1 : i64, type = tensor<4x4xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.slot: is in func.func; it belongs directly in dm.program}}
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  return
}
