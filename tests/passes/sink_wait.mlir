// RUN: dmc-opt --allow-undefined-symbols %s -p dm-sink-wait --split-input-file | %FileCheck %s
// RUN: dmc-opt --allow-undefined-symbols %s -p "dm-sink-wait{reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// A wait goes to just before the first reader, with the views and the members of a bucket between them; what only the
// return reads, and what nothing reads, to the end.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[B:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: "dm.broadcast"
// CHECK: %[[S:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: "dm.broadcast"
// CHECK: %[[M:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: "dm.send"
// CHECK: %[[F:[^ ]+]] = "dm.kernel"(%[[X]]) {{.*}}body = @f
// CHECK-NEXT: %[[W:[^ ]+]] = "dm.wait"(%[[B]]#0)
// CHECK-NEXT: %[[U:[^:]+]]:2 = "dm.unpack"(%[[W]])
// CHECK-NEXT: %[[V:[^ ]+]] = tensor.expand_shape %[[U]]#0
// CHECK-NEXT: %[[G:[^ ]+]] = "dm.kernel"(%[[V]]) {{.*}}body = @g
// CHECK-NEXT: %[[H:[^ ]+]] = "dm.kernel"(%[[U]]#1) {{.*}}body = @h
// CHECK-DAG: %[[NEW:[^ ]+]] = "dm.wait"(%[[S]]#0)
// CHECK-DAG: "dm.wait"(%[[M]]#0)
// CHECK-NEXT: return %[[NEW]], %[[F]], %[[G]], %[[H]]
// TABLE: movement{{ +}}down by ops{{ +}}bytes of kernels{{ +}}stopped by
// TABLE-NEXT: dm.broadcast (bucket){{ +}}3{{ +}}64{{ +}}dm.unpack
// TABLE-NEXT: dm.broadcast (state){{ +}}4{{ +}}96{{ +}}func.return
// TABLE-NEXT: dm.send {{.*}}3{{ +}}96{{ +}}func.return
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<2x2xf32>, tensor<4xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "bucket", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %u:2 = "dm.unpack"(%y0) {offsets = array<i64: 0, 4>} : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %v = tensor.expand_shape %u#0 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %h1, %t1 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "state", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.send"(%a) {target = 1 : i64, instance = 2 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> ()
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<none>, !dm.token)
  "dm.wait"(%h2) : (!dm.handle<none>) -> ()
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %g = "dm.kernel"(%v) {body = @g, bytes = 16 : i64, dm.label = "g"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %h = "dm.kernel"(%u#1) {body = @h, bytes = 16 : i64, dm.label = "h"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y1, %f, %g, %h : tensor<8xf32>, tensor<8xf32>, tensor<2x2xf32>, tensor<4xf32>
}

// -----

// Near misses: the next operation reads it, a start reads it, one reads it within its region. A view of anything else
// stays.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: tensor.expand_shape %[[X]]
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[X]])
// CHECK: %[[A:[^ ]+]] = "dm.wait"(%[[S]]#0)
// CHECK-NEXT: %[[F:[^ ]+]] = "dm.kernel"(%[[A]])
// CHECK-NEXT: %[[R:[^:]+]]:2 = "dm.start"(%[[A]])
// CHECK: %[[T:[^:]+]]:2 = "dm.start"(%[[X]])
// CHECK: %[[B:[^ ]+]] = "dm.wait"(%[[R]]#0)
// CHECK-NEXT: %[[U:[^:]+]]:2 = "dm.start"(%[[B]])
// CHECK: %[[C:[^ ]+]] = "dm.wait"(%[[T]]#0)
// CHECK-NEXT: tensor.generate
// CHECK: tensor.extract %[[C]]
// CHECK: %[[G:[^ ]+]] = "dm.kernel"(%[[F]])
// CHECK-NEXT: %[[D:[^ ]+]] = "dm.wait"(%[[U]]#0)
// CHECK-NEXT: return %[[D]]
// TABLE: stopped by
// TABLE-NEXT: dm.broadcast (a){{ +}}0{{ +}}0{{ +}}@f (f)
// TABLE-NEXT: dm.broadcast (b){{ +}}1{{ +}}0{{ +}}start of dm.broadcast (d)
// TABLE-NEXT: dm.broadcast (c){{ +}}1{{ +}}0{{ +}}tensor.generate
// TABLE-NEXT: dm.broadcast (d){{ +}}2{{ +}}64{{ +}}func.return
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>) {
  %v = tensor.expand_shape %x [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "a", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %f = "dm.kernel"(%y0) {body = @f, bytes = 64 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%y0) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "b", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "c", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h3, %t3 = "dm.start"(%y1) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {dm.tensor = "d", root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y3 = "dm.wait"(%h3) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %n = tensor.generate {
  ^bb0(%i: index):
    %e = tensor.extract %y2[%i] : tensor<8xf32>
    tensor.yield %e : f32
  } : tensor<8xf32>
  %g = "dm.kernel"(%f) {body = @g, bytes = 64 : i64, dm.label = "g"} : (tensor<8xf32>) -> tensor<8xf32>
  return %y3, %n, %g, %v : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>
}

// -----

// State that goes back to host memory does not leave later.
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
