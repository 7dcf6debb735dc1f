// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK: "dm.record"() {event = 0 : i64, lane = @compute} : () -> ()
// CHECK-NEXT: "dm.record"() {event = 1 : i64, lane = @dp} : () -> ()
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.record"() {lane = @dp, event = 1 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
