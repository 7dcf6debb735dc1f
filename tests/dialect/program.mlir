// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// Declarations, then commands in the order of issue.
// CHECK: "dm.program"() ({
// CHECK-NEXT: "dm.arena"
// CHECK-NEXT: "dm.lane"
// CHECK-NEXT: "dm.slot"
// CHECK-NEXT: "dm.buffer"
// CHECK-NEXT: "dm.launch"
// CHECK-NEXT: "dm.record"
// CHECK-NEXT: "dm.await"
// CHECK-NEXT: }) {ranks = array<i64: 0>, sym_name = "rank0"} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.slot"() {name = "x", role = "batch", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "x", category = "input", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 0 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @compute, event = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// A rank that has nothing to do.
// CHECK: "dm.program"() ({
// CHECK-NEXT: ^bb0:
// CHECK-NEXT: }) {ranks = array<i64: 1>, sym_name = "rank1"} : () -> ()
"dm.program"() ({
^bb0:
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()

// Nothing uses a program, and it stays: it is what runs.
// RUN: dmc-opt --allow-undefined-symbols %s -p canonicalize,cse,symbol-dce | %FileCheck %s
