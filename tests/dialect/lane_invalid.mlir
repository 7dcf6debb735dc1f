// RUN: dmc-opt %s --split-input-file --verify-diagnostics

"dm.program"() ({
  // expected-error @+1 {{dm.lane: has queue comm and channel None; exactly lanes of queue comm have a channel}}
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  // expected-error @+1 {{dm.lane: has queue compute and channel @dp; exactly lanes of queue comm have a channel}}
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">, channel = @dp} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  // expected-error @+1 {{dm.lane: attribute 'queue' is missing; it must be #dm.queue}}
  "dm.lane"() {sym_name = "compute"} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.lane: is in func.func; it belongs directly in dm.program}}
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  return
}
