// RUN: dmc-opt %s -p dm-join-stages | %FileCheck %s

// Programs of two stages, their kernels and channels, in one module; a message keeps its number, what each stage sums by
// itself gets one of its own.
// CHECK: module attributes {dm.stages = ["pp"]} {
// CHECK-NOT: module
// CHECK-COUNT-1: "dm.mesh"
// CHECK-COUNT-1: func.func private @f(
// CHECK: "dm.program"
// CHECK: instance = 0 : i64, kind = "send"
// CHECK: instance = 1 : i64, kind = "all_reduce"
// CHECK: ranks = array<i64: 0, 1>, sym_name = "program0"
// CHECK-NOT: func.func private @f(
// CHECK: "dm.program"
// CHECK: instance = 0 : i64, kind = "recv"
// CHECK: instance = 2 : i64, kind = "all_reduce"
// CHECK: ranks = array<i64: 2, 3>, sym_name = "program1"
module {
  module @stage0 attributes {dm.stage = {axis = "pp", index = 0 : i64}} {
    "dm.mesh"() {sym_name = "mesh", axes = ["pp", "dp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
    "dm.channel"() {sym_name = "pp", group = #dm.group<@mesh, ["pp"]>} : () -> ()
    "dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
    func.func private @f(%x: tensor<16xf32>) -> tensor<16xf32> {
      return %x : tensor<16xf32>
    }
    "dm.program"() ({
      "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
      "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
      "dm.lane"() {sym_name = "pp", queue = #dm.queue<"comm">, channel = @pp} : () -> ()
      "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
      "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
      "dm.collective"() {lane = @pp, kind = "send", instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, peer = 1 : i64} : () -> ()
      "dm.collective"() {lane = @dp, kind = "all_reduce", instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
    }) {sym_name = "program0", ranks = array<i64: 0, 1>} : () -> ()
  }
  module @stage1 attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
    "dm.mesh"() {sym_name = "mesh", axes = ["pp", "dp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
    "dm.channel"() {sym_name = "pp", group = #dm.group<@mesh, ["pp"]>} : () -> ()
    "dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
    func.func private @f(%x: tensor<16xf32>) -> tensor<16xf32> {
      return %x : tensor<16xf32>
    }
    "dm.program"() ({
      "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
      "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
      "dm.lane"() {sym_name = "pp", queue = #dm.queue<"comm">, channel = @pp} : () -> ()
      "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
      "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
      "dm.collective"() {lane = @pp, kind = "recv", instance = 0 : i64, type = f32, count = 16 : i64, target = #dm.range<@device, [0, 64]>, peer = 0 : i64} : () -> ()
      "dm.collective"() {lane = @dp, kind = "all_reduce", instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
    }) {sym_name = "program0", ranks = array<i64: 2, 3>} : () -> ()
  }
}
