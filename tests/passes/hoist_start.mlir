// RUN: dmc-opt --allow-undefined-symbols %s -p dm-hoist-start --split-input-file | %FileCheck %s
// RUN: dmc-opt --allow-undefined-symbols %s -p "dm-hoist-start{reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// A start goes to just behind what makes its operand, the view and the pack between them along with it; one that takes
// an argument goes to the beginning. Waits and kernels stay.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[IN:[^:]+]]:2 = "dm.start"(%[[B]]) ({
// CHECK: queue = #dm.queue<"copy_in">
// CHECK-NEXT: %[[F:[^ ]+]] = "dm.kernel"(%[[X]]) {{.*}}body = @f
// CHECK-NEXT: %[[V:[^ ]+]] = tensor.expand_shape %[[F]]
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.pack"(%[[V]])
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[P]]) ({
// CHECK: queue = #dm.queue<"comm">
// CHECK-NEXT: %[[G:[^ ]+]] = "dm.kernel"(%[[F]]) {{.*}}body = @g
// CHECK-NEXT: %[[H:[^ ]+]] = "dm.kernel"(%[[G]]) {{.*}}body = @h
// CHECK-NEXT: "dm.wait"(%[[S]]#0)
// CHECK-NEXT: "dm.wait"(%[[IN]]#0)
// TABLE: movement{{ +}}queue{{ +}}up by ops{{ +}}bytes of kernels{{ +}}stopped by
// TABLE-NEXT: dm.broadcast (gradient){{ +}}comm{{ +}}2{{ +}}96{{ +}}dm.pack
// TABLE-NEXT: dm.copy {{.*}} copy_in 4 160 start of the step
func.func @step(%x: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %g = "dm.kernel"(%f) {body = @g, bytes = 64 : i64, dm.label = "g"} : (tensor<8xf32>) -> tensor<8xf32>
  %h = "dm.kernel"(%g) {body = @h, bytes = 32 : i64, dm.label = "h"} : (tensor<8xf32>) -> tensor<8xf32>
  %v = tensor.expand_shape %f [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %p = "dm.pack"(%v) {offsets = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<8xf32>
  %h0, %t0 = "dm.start"(%p) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "gradient", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%b) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y0, %y1, %h : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Near misses: the second has an operand from the start but its lane is in order; the third has a lane of its own but
// waits for a token; a view that no start reads stays.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[F:[^ ]+]] = "dm.kernel"(%[[X]]) {{.*}}body = @f
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[F]]) ({
// CHECK: "dm.broadcast"{{.*}}dm.tensor = "first"
// CHECK: "dm.start"(%[[X]]) ({
// CHECK: "dm.broadcast"{{.*}}dm.tensor = "second"
// CHECK: "dm.start"(%[[X]], %[[S]]#1) ({
// CHECK: "dm.copy"
// CHECK: queue = #dm.queue<"copy_out">
// CHECK-NEXT: "dm.kernel"(%[[F]]) {{.*}}body = @g
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: dm.wait
// CHECK-NEXT: dm.wait
// CHECK-NEXT: dm.wait
// TABLE: stopped by
// TABLE-NEXT: dm.broadcast (first){{ +}}comm{{ +}}2{{ +}}64{{ +}}@f (f)
// TABLE-NEXT: dm.broadcast (second){{ +}}comm{{ +}}3{{ +}}64{{ +}}start of dm.broadcast (first)
// TABLE-NEXT: dm.copy {{.*}} copy_out 4 64 start of dm.broadcast (first)
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>) {
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %g = "dm.kernel"(%f) {body = @g, bytes = 64 : i64, dm.label = "g"} : (tensor<8xf32>) -> tensor<8xf32>
  %v = tensor.expand_shape %f [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %h0, %t0 = "dm.start"(%f) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "first", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "second", root = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%x, %t0) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xf32>, !dm.token) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y0, %y1, %y2, %v : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>
}

// -----

// Each channel is a lane: the second need not stay behind the first. What a start takes of a wait stays behind that.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: "dm.start"(%[[X]]) ({
// CHECK: "dm.broadcast"{{.*}}channel = @tp
// CHECK: %[[F:[^ ]+]] = "dm.kernel"(%[[X]])
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[F]]) ({
// CHECK: "dm.broadcast"{{.*}}channel = @dp
// CHECK: %[[W:[^ ]+]] = "dm.wait"(%[[S]]#0)
// CHECK-NEXT: "dm.start"(%[[W]]) ({
// CHECK: "dm.broadcast"{{.*}}channel = @dp
// CHECK: "dm.wait"
// CHECK-NEXT: "dm.kernel"
// CHECK-NEXT: "dm.wait"
// TABLE: stopped by
// TABLE-NEXT: dm.broadcast (first){{ +}}comm@dp{{ +}}0{{ +}}0{{ +}}@f (f)
// TABLE-NEXT: dm.broadcast (second){{ +}}comm@tp{{ +}}2{{ +}}64{{ +}}start of the step
// TABLE-NEXT: dm.broadcast (third){{ +}}comm@dp{{ +}}2{{ +}}64{{ +}}wait for dm.broadcast (first)
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h0, %t0 = "dm.start"(%f) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "first", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "second", root = 1 : i64, group = #dm.group<@mesh, ["tp"]>, channel = @tp} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %g = "dm.kernel"(%f) {body = @g, bytes = 64 : i64, dm.label = "g"} : (tensor<8xf32>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%y0) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "third", root = 1 : i64, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y2, %y1, %g : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Where nothing moves, the table says so.
// CHECK-LABEL: func.func @step
// TABLE: movement
// TABLE-NEXT: none
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// State that waits in host memory does not come earlier: it would not have waited there.
// CHECK-LABEL: func.func @step
// CHECK: body = @f
// CHECK-NEXT: dm.start
// CHECK: queue = #dm.queue<"copy_in">
// CHECK-NEXT: dm.wait
// CHECK-NEXT: body = @g
// CHECK-NEXT: dm.start
// CHECK: queue = #dm.queue<"copy_out">
// CHECK-NEXT: dm.wait
// CHECK-NEXT: body = @e
func.func @step(%x: tensor<8xf32>, %m: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  %h0, %t0 = "dm.start"(%m) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %n = "dm.kernel"(%y) {body = @g, bytes = 64 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%n) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %z = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %e = "dm.kernel"(%f) {body = @e, bytes = 64 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %e, %z : tensor<8xf32>, tensor<8xf32>
}

// -----

// What is gathered in time stays where it is; the start behind it does not pass it.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: "dm.kernel"
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"
// CHECK: "dm.wait"(%[[S]]#0)
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>, %w: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h0, %t0 = "dm.start"(%w) ({
  ^bb0(%a: tensor<4xf32>):
    %r = "dm.all_gather"(%a) {dim = 0 : i64, dm.in_time = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %f, %y0 : tensor<8xf32>, tensor<8xf32>
}
