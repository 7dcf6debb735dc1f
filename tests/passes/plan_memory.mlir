// RUN: dmc-opt %s -p dm-plan-memory --split-input-file | %FileCheck %s

// State lies first, by role, then what passes. A view and a wait lie in what they look at, host memory has an arena of
// its own, and a result takes the place of an operand that dies where the kernel works element by element.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "m", dm.offset = 256 : i64
// CHECK-SAME: dm.name = "w", dm.offset = 0 : i64
// CHECK-SAME: dm.name = "x", dm.offset = 0 : i64
// CHECK-SAME: dm.arenas = {device = 1792 : i64, pinned_host = 512 : i64}
// CHECK: "dm.start"
// CHECK: }) {dm.offsets = array<i64: [[X:[0-9]+]], -1>
// CHECK: "dm.wait"{{.*}}dm.offsets = array<i64: [[X]]>
// CHECK: tensor.expand_shape{{.*}}dm.offsets = array<i64: [[X]]>
// CHECK: body = @double, dm.offsets = array<i64: [[X]]>
// CHECK: body = @sum, dm.offsets = array<i64: [[LOSS:[0-9]+]]>, dm.scratch_offset = {{[0-9]+}} : i64, scratch = 600 : i64
// CHECK: "dm.start"
// CHECK: }) {dm.offsets = array<i64: 256, -1>
func.func private @double(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = arith.addf %x, %x : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
func.func private @sum(%x: tensor<2x8xf32>, %w: tensor<4xf32>, %m: tensor<4xf32>) -> tensor<f32> {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %c : tensor<f32>
}
func.func @step(%m: tensor<4xf32> {dm.name = "m", dm.role = "optimizer"},
                %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<16xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<f32> {dm.name = "loss"}) {
  %hx, %tx = "dm.start"(%x) ({
  ^bb0(%a: tensor<16xf32>):
    %c = "dm.copy"(%a) {source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%c) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %there = "dm.wait"(%hx) : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %rows = tensor.expand_shape %there [[0, 1]] output_shape [2, 8] : tensor<16xf32> into tensor<2x8xf32>
  %twice = "dm.kernel"(%rows) {body = @double} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %loss = "dm.kernel"(%twice, %w, %m) {body = @sum, scratch = 600 : i64} : (tensor<2x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %hl, %tl = "dm.start"(%loss) ({
  ^bb0(%a: tensor<f32>):
    %c = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<f32>) -> tensor<f32>
    "dm.yield"(%c) : (tensor<f32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<f32>) -> (!dm.handle<tensor<f32>>, !dm.token)
  %out = "dm.wait"(%hl) : (!dm.handle<tensor<f32>>) -> tensor<f32>
  return %out : tensor<f32>
}
