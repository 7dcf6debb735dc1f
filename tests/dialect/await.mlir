// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// Of one event as often as needed.
// CHECK: "dm.await"() {event = 0 : i64, lane = @dp} : () -> ()
// CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @copy_in} : () -> ()
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @dp, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @copy_in, event = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
