// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK: "dm.move"() {label = "batch.0", lane = @copy_in, source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [0, 64]>} : () -> ()
// Side by side within one arena.
// CHECK-NEXT: "dm.move"() {lane = @compute, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [64, 64]>} : () -> ()
// CHECK-NEXT: "dm.move"() {lane = @compute, source = #dm.range<@device, [64, 64]>, target = #dm.range<@device, [0, 64]>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.move"() {lane = @copy_in, source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [0, 64]>, label = "batch.0"} : () -> ()
  "dm.move"() {lane = @compute, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [64, 64]>} : () -> ()
  "dm.move"() {lane = @compute, source = #dm.range<@device, [64, 64]>, target = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
