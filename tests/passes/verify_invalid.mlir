// RUN: dmc-opt %s -p "dm-verify{cap=1024}" --split-input-file --verify-diagnostics

"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"}) {
  %g = "dm.kernel"(%w) {body = @double} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{dm.start: V1: dm.all_reduce #7 (gradient of w) is never waited for}}
  %h, %h_t = "dm.start"(%g) ({
  ^bb0(%a: tensor<16xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%r) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 7 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  return %g : tensor<16xf32>
}

// -----

"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"}) {
  %g = "dm.kernel"(%w) {body = @double} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{dm.start: V1: dm.all_reduce #7 (gradient of w) is waited for 2 times, at}}
  %h, %h_t = "dm.start"(%g) ({
  ^bb0(%a: tensor<16xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%r) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 7 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %t = "dm.wait"(%h) : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// -----

// The result of a kernel is put where a value lies that is still read.
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.offset = 0 : i64, dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"})
    attributes {dm.arenas = {device = 768 : i64}} {
  %f = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 256>} : (tensor<16xf32>) -> tensor<16xf32>
  %g = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 256>} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{dm.kernel: V7: reads}}
  %n = "dm.kernel"(%f) {body = @double, dm.offsets = array<i64: 0>} : (tensor<16xf32>) -> tensor<16xf32>
  return %n : tensor<16xf32>
}

// -----

// A summand is overwritten while the ranks add it up.
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.offset = 0 : i64, dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"})
    attributes {dm.arenas = {device = 768 : i64}} {
  %g = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 256>} : (tensor<16xf32>) -> tensor<16xf32>
  %h, %h_t = "dm.start"(%g) ({
  ^bb0(%a: tensor<16xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%r) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, dm.offsets = array<i64: 512, -1>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  // expected-error @+1 {{dm.kernel: V2: writes device [256, 320), which dm.all_reduce #0 (gradient of w) has borrowed until its wait}}
  %f = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 256>} : (tensor<16xf32>) -> tensor<16xf32>
  %s = "dm.wait"(%h) {dm.offsets = array<i64: 512>} : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %n = "dm.kernel"(%s) {body = @double, dm.offsets = array<i64: 0>} : (tensor<16xf32>) -> tensor<16xf32>
  return %n : tensor<16xf32>
}

// -----

// State is gone before the last reader of its old value.
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.offset = 0 : i64, dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"})
    attributes {dm.arenas = {device = 768 : i64}} {
  %n = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 0>} : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @+1 {{dm.kernel: V7: reads 'w' at device [0, 64), which by then holds}}
  %g = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 256>} : (tensor<16xf32>) -> tensor<16xf32>
  return %n : tensor<16xf32>
}

// -----

"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.offset = 0 : i64, dm.name = "w", dm.role = "parameter"}) -> (tensor<16xf32> {dm.name = "w"})
    attributes {dm.arenas = {device = 768 : i64}} {
  // expected-error @+1 {{is at device [768, 832), outside the arena of 768 bytes}}
  %n = "dm.kernel"(%w) {body = @double, dm.offsets = array<i64: 768>} : (tensor<16xf32>) -> tensor<16xf32>
  return %n : tensor<16xf32>
}

// -----

// The update does not wait for the sum.
// expected-error @unknown {{rank 0, lane compute, command 6, launch of @double (fc): V2: accesses device [512, 576) while all_reduce #0 (gradient of w) (command 3, lane dp) may still do}}
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
  "dm.await"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [512, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
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
  "dm.await"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [512, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()

// -----

// One rank issues two movements the other way round.
// expected-error @unknown {{communicator dp of ranks 0 and 1: V4: as movement 0 that both take part in, rank 0 issues all_reduce #0 (gradient of w), its command 3, but rank 1 all_reduce #1 (gradient of w), its command 3}}
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
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 7 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 0 : i64, last = 3 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "communication", range = #dm.range<@device, [512, 64]>, first = 3 : i64, last = 7 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], label = "fc"} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @dp, event = 0 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [256, 64]>, target = #dm.range<@device, [512, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [512, 64]>, target = #dm.range<@device, [512, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.record"() {lane = @dp, event = 1 : i64} : () -> ()
  "dm.await"() {lane = @compute, event = 1 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [512, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 768 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 7 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 0 : i64, last = 3 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "communication", range = #dm.range<@device, [512, 64]>, first = 3 : i64, last = 7 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], label = "fc"} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @dp, event = 0 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [256, 64]>, target = #dm.range<@device, [512, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [512, 64]>, target = #dm.range<@device, [512, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.record"() {lane = @dp, event = 1 : i64} : () -> ()
  "dm.await"() {lane = @compute, event = 1 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [512, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()

// -----

// More memory than the cap.
// expected-error @unknown {{rank 0, arena device: V8: has 1280 bytes; 1024 are allowed. At the peak it holds 192 bytes at command 3: 'w' (64 bytes), 'w' (64 bytes), 'w' (64 bytes)}}
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 1280 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 6 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 0 : i64, last = 3 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "communication", range = #dm.range<@device, [1024, 64]>, first = 3 : i64, last = 6 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], label = "fc"} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @dp, event = 0 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [256, 64]>, target = #dm.range<@device, [1024, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.record"() {lane = @dp, event = 1 : i64} : () -> ()
  "dm.await"() {lane = @compute, event = 1 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [1024, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 1280 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 6 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 0 : i64, last = 3 : i64} : () -> ()
  "dm.buffer"() {label = "w", category = "communication", range = #dm.range<@device, [1024, 64]>, first = 3 : i64, last = 6 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], label = "fc"} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.await"() {lane = @dp, event = 0 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [256, 64]>, target = #dm.range<@device, [1024, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "gradient of w"} : () -> ()
  "dm.record"() {lane = @dp, event = 1 : i64} : () -> ()
  "dm.await"() {lane = @compute, event = 1 : i64} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @double, reads = [#dm.range<@device, [1024, 64]>], writes = [#dm.range<@device, [0, 64]>], label = "fc"} : () -> ()
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()

// -----

// Each communicator has one movement, on which its two members agree, and yet the three wait for one another.
// expected-error @unknown {{rank 2 cannot begin all_reduce #1 (h.1) (command 1, lane pairs) before all_reduce #2 (h.2) (command 0, lane pairs), where it waits for rank 0}}
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
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 1, 2>, instance = 1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.1"} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 0 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.0"} : () -> ()
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 256 : i64} : () -> ()
  "dm.lane"() {sym_name = "pairs", queue = #dm.queue<"comm">, channel = @pairs} : () -> ()
  "dm.slot"() {name = "w", role = "parameter", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.buffer"() {label = "w", category = "parameter", range = #dm.range<@device, [0, 64]>, first = 0 : i64, last = 1 : i64} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 2, 0>, instance = 2 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.2"} : () -> ()
  "dm.collective"() {lane = @pairs, kind = "all_reduce", ranks = array<i64: 1, 2>, instance = 1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "h.1"} : () -> ()
}) {sym_name = "rank2", ranks = array<i64: 2>} : () -> ()

// -----

// Nothing is proven of a form that still computes by itself, so nothing is said to be.
func.func @step(%x: tensor<16xf32> {dm.name = "x", dm.role = "frozen"}) -> (tensor<16xf32> {dm.name = "y"}) {
  // expected-error @+1 {{arith.addf: may not appear in @step in form 'scheduled'}}
  %y = arith.addf %x, %x : tensor<16xf32>
  return %y : tensor<16xf32>
}
