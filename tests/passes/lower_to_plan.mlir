// RUN: dmc-opt %s -p dm-lower-to-plan | %FileCheck %s

// Functions that nothing launches go; what kernels say of themselves stays.
// CHECK: func.func private @double(%{{.*}}: tensor<16xf32>) -> tensor<16xf32> attributes {dm.bytes = 128 : i64, dm.flops = 16 : i64, dm.scratch = 32 : i64}
// CHECK-NOT: @unused
// CHECK-NOT: func.func @step

// CHECK: "dm.program"() ({
// CHECK-DAG: "dm.arena"() {bytes = 2048 : i64, space = #dm.space<"device">
// CHECK-DAG: "dm.arena"() {bytes = 256 : i64, space = #dm.space<"pinned_host">
// CHECK: "dm.lane"() {queue = #dm.queue<"compute">, sym_name = "compute"}
// CHECK-NEXT: "dm.lane"() {queue = #dm.queue<"copy_in">, sym_name = "copy_in"}
// CHECK-NEXT: "dm.lane"() {channel = @dp, queue = #dm.queue<"comm">, sym_name = "dp"}
// CHECK-NEXT: "dm.lane"() {queue = #dm.queue<"copy_out">, sym_name = "copy_out"}
// CHECK-NEXT: "dm.slot"() {name = "w", range = #dm.range<@device, [0, 64]>, role = "parameter", type = tensor<16xf32>}
// CHECK-NEXT: "dm.slot"() {name = "x", range = #dm.range<@pinned_host, [0, 64]>, role = "batch", type = tensor<16xf32>}
// CHECK-NEXT: "dm.slot"() {name = "loss", range = #dm.range<@pinned_host, [64, 64]>, role = "output", type = tensor<16xf32>}
// CHECK: "dm.move"() {lane = @copy_in, source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [256, 64]>}
// A wait leaves nothing behind, a reshape neither.
// CHECK-NEXT: "dm.launch"() {kernel = @double, label = "fc", lane = @compute, reads = [#dm.range<@device, [256, 64]>], scratch = #dm.range<@device, [1024, 32]>, writes = [#dm.range<@device, [512, 64]>]}
// CHECK-NEXT: "dm.collective"() {accumulate = f32, count = 16 : i64, instance = 1 : i64, kind = "reduce_scatter", label = "gradient of w", lane = @dp, reduction = #dm.reduction<"sum">, source = #dm.range<@device, [512, 64]>, target = #dm.range<@device, [768, 32]>, type = f32}
// What comes after a token waits for an event.
// CHECK-NEXT: "dm.record"() {event = 0 : i64, lane = @dp}
// The first half of w; the other rank has the second, and its variant of the kernel.
// CHECK-NEXT: "dm.launch"() {group = #dm.group<@mesh, ["dp"]>, kernel = @first, lane = @compute, reads = [#dm.range<@device, [768, 32]>, #dm.range<@device, [0, 32]>], slices = [#dm.slice<1 : i64, {dp = 32 : i64}>], variants = [@first, @second], writes = [#dm.range<@device, [1280, 32]>]}
// CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @dp}
// CHECK-NEXT: "dm.collective"() {count = 8 : i64, instance = 2 : i64, kind = "all_gather", lane = @dp, source = #dm.range<@device, [1280, 32]>, target = #dm.range<@device, [1536, 64]>, type = f32}
// CHECK-NEXT: "dm.move"() {lane = @copy_out, source = #dm.range<@device, [512, 64]>, target = #dm.range<@pinned_host, [64, 64]>}
// The new value of w was not computed in place.
// CHECK-NEXT: "dm.move"() {label = "w", lane = @compute, source = #dm.range<@device, [1536, 64]>, target = #dm.range<@device, [0, 64]>}
// CHECK-NEXT: {ranks = array<i64: 0, 1>, sym_name = "program0"}
// CHECK-NOT: dm.program
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  return %x : tensor<16xf32>
}
func.func private @first(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @second(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  return %w : tensor<8xf32>
}
func.func private @unused() {
  return
}
func.func @step(
    %w: tensor<16xf32> {dm.name = "w", dm.role = "parameter", dm.offset = 0 : i64},
    %x: tensor<16xf32> {dm.name = "x", dm.role = "batch", dm.offset = 0 : i64})
    -> (tensor<16xf32> {dm.name = "w"}, tensor<16xf32> {dm.name = "loss"})
    attributes {dm.arenas = {device = 2048 : i64, pinned_host = 256 : i64}} {
  %hx, %tx = "dm.start"(%x) ({
  ^bb0(%a: tensor<16xf32>):
    %c = "dm.copy"(%a) {source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%c) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, dm.offsets = array<i64: 256, -1>}
      : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %xd = "dm.wait"(%hx) {dm.offsets = array<i64: 256>} : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %y = "dm.kernel"(%xd) {body = @double, flops = 16 : i64, bytes = 128 : i64, scratch = 32 : i64, dm.offsets = array<i64: 512>, dm.scratch_offset = 1024 : i64, dm.label = "fc"} : (tensor<16xf32>) -> tensor<16xf32>
  %square = tensor.expand_shape %y [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %hg, %tg = "dm.start"(%square) ({
  ^bb0(%a: tensor<4x4xf32>):
    %c = "dm.reduce_scatter"(%a) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp, dm.tensor = "gradient of w"} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    "dm.yield"(%c) : (tensor<2x4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>, dm.offsets = array<i64: 768, -1>}
      : (tensor<4x4xf32>) -> (!dm.handle<tensor<2x4xf32>>, !dm.token)
  %g = "dm.wait"(%hg) {dm.offsets = array<i64: 768>} : (!dm.handle<tensor<2x4xf32>>) -> tensor<2x4xf32>
  %flat = tensor.collapse_shape %g [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %half = "dm.all_slice"(%w) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, dm.offsets = array<i64: 0>} : (tensor<16xf32>) -> tensor<8xf32>
  %new = "dm.kernel"(%flat, %half) {body = @first, variants = [@first, @second], group = #dm.group<@mesh, ["dp"]>, dm.offsets = array<i64: 1280>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %hw, %tw = "dm.start"(%new, %tg) ({
  ^bb0(%a: tensor<8xf32>):
    %c = "dm.all_gather"(%a) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<8xf32>) -> tensor<16xf32>
    "dm.yield"(%c) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 1>, dm.offsets = array<i64: 1536, -1>}
      : (tensor<8xf32>, !dm.token) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %ho, %to = "dm.start"(%y) ({
  ^bb0(%a: tensor<16xf32>):
    %c = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%c) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>, dm.offsets = array<i64: 64, -1>}
      : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %w1 = "dm.wait"(%hw) {dm.offsets = array<i64: 1536>} : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %loss = "dm.wait"(%ho) {dm.offsets = array<i64: 64>} : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  return %w1, %loss : tensor<16xf32>, tensor<16xf32>
}
