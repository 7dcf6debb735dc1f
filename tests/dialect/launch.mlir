// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK: "dm.launch"() {kernel = @relu, lane = @compute, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
// In place, with scratch, and where it comes from.
// CHECK-NEXT: "dm.launch"() {kernel = @relu, label = "fc", lane = @compute, reads = [#dm.range<@device, [0, 64]>], scratch = #dm.range<@device, [128, 64]>, writes = [#dm.range<@device, [0, 64]>]} : () -> ()
// CHECK-NEXT: "dm.launch"() {kernel = @zero, lane = @copy_in, reads = [], writes = []} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [0, 64]>], scratch = #dm.range<@device, [128, 64]>, label = "fc"} : () -> ()
  "dm.launch"() {lane = @copy_in, kernel = @zero, reads = [], writes = []} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
