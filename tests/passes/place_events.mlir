// RUN: dmc-opt --allow-undefined-symbols %s -p dm-place-events --split-input-file | %FileCheck %s

// What the collective reduces is computed before it, and read after it; one event each.
// CHECK: "dm.launch"() {kernel = @f
// CHECK-NEXT: "dm.record"() {event = 0 : i64, lane = @compute}
// What touches other bytes goes on.
// CHECK-NEXT: "dm.launch"() {kernel = @f, lane = @compute, reads = [#dm.range<@device, [512, 64]>]
// CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @dp}
// CHECK-NEXT: "dm.collective"
// CHECK-NEXT: "dm.record"() {event = 1 : i64, lane = @dp}
// CHECK-NEXT: "dm.await"() {event = 1 : i64, lane = @compute}
// CHECK-NEXT: "dm.launch"() {kernel = @f, lane = @compute, reads = [#dm.range<@device, [256, 64]>]
// A lane is in order: what follows on it needs no event.
// CHECK-NEXT: "dm.launch"
// CHECK-NEXT: }) {ranks = array<i64: 0>, sym_name = "rank0"}
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 1>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @f(%x: tensor<16xf32>) -> tensor<16xf32> {
  return %x : tensor<16xf32>
}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 1024 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [512, 64]>], writes = [#dm.range<@device, [768, 64]>]} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [256, 64]>, target = #dm.range<@device, [256, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [256, 64]>], writes = [#dm.range<@device, [0, 64]>]} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// Memory that is used again is an edge too: the copy out must have read it.
// CHECK: "dm.move"() {lane = @copy_out
// CHECK-NEXT: "dm.record"() {event = 0 : i64, lane = @copy_out}
// CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @compute}
// CHECK-NEXT: "dm.launch"
func.func private @g() -> tensor<16xf32> {
  %0 = tensor.empty() : tensor<16xf32>
  return %0 : tensor<16xf32>
}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 1024 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 1024 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "copy_out", queue = #dm.queue<"copy_out">} : () -> ()
  "dm.move"() {lane = @copy_out, source = #dm.range<@device, [0, 64]>, target = #dm.range<@pinned_host, [0, 64]>} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @g, reads = [], writes = [#dm.range<@device, [0, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// Two ranks read other slices of one value; both wait, though only the second reads what was written.
// CHECK: "dm.record"() {event = 0 : i64, lane = @compute}
// CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @copy_out}
// CHECK-NEXT: "dm.move"() {lane = @copy_out
// CHECK-SAME: slices = [#dm.slice<0 : i64, {dp = 64 : i64}>]
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 1024 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 1024 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "copy_out", queue = #dm.queue<"copy_out">} : () -> ()
  "dm.move"() {lane = @compute, source = #dm.range<@device, [512, 64]>, target = #dm.range<@device, [64, 64]>} : () -> ()
  "dm.move"() {lane = @copy_out, source = #dm.range<@device, [0, 64]>, target = #dm.range<@pinned_host, [0, 64]>, slices = [#dm.slice<0 : i64, {dp = 64 : i64}>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0, 1>} : () -> ()
