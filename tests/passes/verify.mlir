// RUN: dmc-opt %s -p dm-verify --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-verify{cap=768}" --split-input-file | %FileCheck %s

// Nothing changes. Form scheduled, before memory is planned: what is started is waited for.
// CHECK-LABEL: func.func @step
// CHECK: "dm.start"
// CHECK: "dm.wait"
// CHECK-NEXT: return
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"}) {
  %g = "dm.kernel"(%w) {body = @double} : (tensor<16xf32>) -> tensor<16xf32>
  %h, %h_t = "dm.start"(%g) ({
  ^bb0(%a: tensor<16xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%r) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// -----

// With places: the sum lies where its summand did, what nobody reads any more is overwritten, and the new state is in the
// place of the old.
// CHECK-LABEL: func.func @step
// CHECK: "dm.wait"
// CHECK-NEXT: "dm.kernel"{{.*}}dm.offsets = array<i64: 0>
// CHECK-NEXT: return
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.offset = 0 : i64, dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"})
    attributes {dm.arenas = {device = 768 : i64}} {
  %f = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 512>} : (tensor<16xf32>) -> tensor<16xf32>
  %g = "dm.kernel"(%f) {body = @double, dm.offsets = array<i64: 256>} : (tensor<16xf32>) -> tensor<16xf32>
  %h, %h_t = "dm.start"(%g) ({
  ^bb0(%a: tensor<16xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%r) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, dm.offsets = array<i64: 256, -1>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %e = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 512>} : (tensor<16xf32>) -> tensor<16xf32>
  %s = "dm.wait"(%h) {dm.offsets = array<i64: 256>} : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %n = "dm.kernel"(%s) {body = @double, dm.offsets = array<i64: 0>} : (tensor<16xf32>) -> tensor<16xf32>
  return %n : tensor<16xf32>
}

// -----

// Form planned: two ranks that add up what they computed.
// CHECK: "dm.collective"
// CHECK-NEXT: "dm.record"() {event = 1
// CHECK: ranks = array<i64: 0, 1>
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 768 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 6 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 0 : i64, last = 3 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "communication", range = #dm.range<@device, [512, 64]>, first = 3 : i64, last = 6 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], label = "fc"} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @dp, event = 0 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [256, 64]>, target = #dm.range<@device, [512, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.record"() {lane = @dp, event = 1 : i64} : () -> ()
  "dm.await"() {lane = @compute, event = 1 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [512, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "ranks", ranks = array<i64: 0, 1>} : () -> ()

// -----

// Three ranks with a communicator for each pair, which no axes of a mesh can say: all follow one order of the pairs.
// CHECK: "dm.channel"() {groups = [array<i64: 0, 1>, array<i64: 1, 2>, array<i64: 2, 0>]
// CHECK: ranks = array<i64: 2>
module attributes {dm.stages = ["x"]} {
"dm.mesh"() {axes = ["x"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 3>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "pairs", groups = [array<i64: 0, 1>, array<i64: 1, 2>, array<i64: 2, 0>]} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 256 : i64} : () -> ()
  "dm.lane"() {sym_name = "pairs", queue = #dm.queue<"comm">, channel = @pairs} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 1 : i64} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.0"} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 2, 0>, instance = 2 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.2"} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 256 : i64} : () -> ()
  "dm.lane"() {sym_name = "pairs", queue = #dm.queue<"comm">, channel = @pairs} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 1 : i64} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.0"} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 1, 2>, instance = 1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.1"} : () -> ()
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 256 : i64} : () -> ()
  "dm.lane"() {sym_name = "pairs", queue = #dm.queue<"comm">, channel = @pairs} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 1 : i64} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 1, 2>, instance = 1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.1"} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 2, 0>, instance = 2 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.2"} : () -> ()
}) {sym_name = "rank2", ranks = array<i64: 2>} : () -> ()
}
