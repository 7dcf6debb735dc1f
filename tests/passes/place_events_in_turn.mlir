// RUN: dmc-opt --allow-undefined-symbols %s -p dm-place-events | %FileCheck %s

// Where the plan wants no overlap, the sum begins when both kernels before it are done, also the one that touches other
// bytes, and the kernels behind it wait for it.
// CHECK: "dm.launch"() {kernel = @f
// CHECK-NEXT: "dm.launch"() {kernel = @f, lane = @compute, reads = [#dm.range<@device, [512, 64]>]
// CHECK-NEXT: "dm.record"() {event = 0 : i64, lane = @compute}
// CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @dp}
// CHECK-NEXT: "dm.collective"
// CHECK-NEXT: "dm.record"() {event = 1 : i64, lane = @dp}
// CHECK-NEXT: "dm.await"() {event = 1 : i64, lane = @compute}
// CHECK-NEXT: "dm.launch"
// CHECK-NEXT: "dm.launch"
module attributes {dm.verbs = [{verb = "overlap", enabled = false}]} {
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
}
