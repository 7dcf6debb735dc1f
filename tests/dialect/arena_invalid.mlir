// RUN: dmc-opt %s --split-input-file --verify-diagnostics

"dm.program"() ({
  // expected-error @+1 {{dm.arena: is named 'gpu' but is in device; name it 'device'}}
  "dm.arena"() {sym_name = "gpu", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  // expected-error @+1 {{dm.arena: has no bytes; omit it}}
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  // expected-error @+1 {{dm.arena: attribute 'bytes' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = -1 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  // expected-error @+1 {{dm.arena: attribute 'space' is missing; it must be #dm.space}}
  "dm.arena"() {sym_name = "device", bytes = 512 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.arena: is in func.func; it belongs directly in dm.program}}
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  return
}
