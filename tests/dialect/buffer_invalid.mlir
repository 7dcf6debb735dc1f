// RUN: dmc-opt %s --split-input-file --verify-diagnostics

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.buffer: is live from command 4 to command 3; it must not end before it begins}}
  "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 4 : i64, last = 3 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.buffer: attribute 'first' is -4 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [256, 64]>, first = -4 : i64, last = 9 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.buffer: attribute 'label' is missing; it must be string attribute}}
  "dm.buffer"() {category = "gradient", range = #dm.range<@device, [256, 64]>, first = 4 : i64, last = 9 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  // expected-error @+1 {{dm.buffer: #dm.range<@device, [0, -4]>: bounds are [0, -4]; they must be a first byte and a number of bytes above 0}}
  "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [0, -4]>, first = 4 : i64, last = 9 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{uses #dm.range<@device, [480, 64]>, but the arena has 512 bytes}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [480, 64]>, first = 4 : i64, last = 9 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.buffer: is in func.func; it belongs directly in dm.program}}
  "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 4 : i64, last = 9 : i64} : () -> ()
  return
}
