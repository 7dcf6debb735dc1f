// RUN: dmc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{dm.program: event 0 is recorded twice, again at}}
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{is on lane 'dp', which is not declared}}
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.record"() {lane = @dp, event = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.record: attribute 'event' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.record"() {lane = @compute, event = -1 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.record: attribute 'lane' is missing; it must be flat symbol reference attribute}}
  "dm.record"() {event = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.record: is in func.func; it belongs directly in dm.program}}
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  return
}
