// RUN: dmc-opt %s -p dm-async --split-input-file | %FileCheck %s

// Every kind of movement, on the queue that suits it, waited for at once; labels and locations stay with it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[S0:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK-NEXT: ^bb0(%[[A:[^:]+]]: tensor<8xf32>):
// CHECK-NEXT: %[[C:[^ ]+]] = "dm.copy"(%[[A]]) {source = #dm.space<"pinned_host">, target = #dm.space<"device">}
// CHECK-NEXT: "dm.yield"(%[[C]])
// CHECK-NEXT: instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_in">
// CHECK-NEXT: %[[D:[^ ]+]] = "dm.wait"(%[[S0]]#0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
// CHECK-NEXT: %[[S1:[^:]+]]:2 = "dm.start"(%[[D]]) ({
// CHECK-NEXT: ^bb0(%[[B:[^:]+]]: tensor<8xf32>):
// CHECK-NEXT: %[[R:[^ ]+]] = "dm.reduce_scatter"(%[[B]]) {{.*}}dm.tensor = "gradient of w"
// CHECK-NEXT: "dm.yield"(%[[R]]) : (tensor<4xf32>) -> ()
// CHECK-NEXT: instance = 1 : i64, {{.*}}queue = #dm.queue<"comm">} : (tensor<8xf32>) -> (!dm.handle<tensor<4xf32>>, !dm.token)
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.wait"(%[[S1]]#0)
// CHECK-NEXT: %[[Y:[^ ]+]] = arith.negf %[[P]]
// CHECK-NEXT: %[[S2:[^:]+]]:2 = "dm.start"(%[[Y]]) ({
// CHECK: queue = #dm.queue<"copy_out">
// CHECK-NEXT: %[[O:[^ ]+]] = "dm.wait"(%[[S2]]#0)
// CHECK-NEXT: %[[S3:[^:]+]]:2 = "dm.start"(%[[O]]) ({
// CHECK: queue = #dm.queue<"compute">
// CHECK-NEXT: %[[H:[^ ]+]] = "dm.wait"(%[[S3]]#0)
// CHECK-NEXT: return %[[H]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>) -> tensor<4xf32> {
  %d = "dm.copy"(%x) {source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
  %p = "dm.reduce_scatter"(%d) {dm.tensor = "gradient of w", dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %y = arith.negf %p : tensor<4xf32>
  %o = "dm.copy"(%y) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<4xf32>) -> tensor<4xf32>
  %h = "dm.copy"(%o) {source = #dm.space<"pinned_host">, target = #dm.space<"host">} : (tensor<4xf32>) -> tensor<4xf32>
  return %h : tensor<4xf32>
}

// -----

// A message keeps its number, and what is asynchronous already its own; others get numbers that are free. A slice moves
// nothing.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: "dm.broadcast"
// CHECK: instance = 0 : i64
// CHECK: dm.wait
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: "dm.send"
// CHECK-NEXT: "dm.yield"() : () -> ()
// CHECK-NEXT: instance = 1 : i64
// CHECK-NEXT: "dm.wait"(%[[S]]#0) : (!dm.handle<none>) -> ()
// CHECK-NEXT: %[[R:[^:]+]]:2 = "dm.start"() ({
// CHECK-NEXT: %[[M:[^ ]+]] = "dm.recv"()
// CHECK-NEXT: "dm.yield"(%[[M]])
// CHECK-NEXT: instance = 1 : i64, operandSegmentSizes = array<i32: 0, 0>
// CHECK-NEXT: %[[N:[^ ]+]] = "dm.wait"(%[[R]]#0)
// CHECK-NEXT: "dm.start"(%[[N]])
// CHECK: "dm.all_gather"
// CHECK: instance = 2 : i64
// CHECK-NEXT: %[[G:[^ ]+]] = "dm.wait"
// CHECK-NEXT: "dm.all_slice"(%[[G]])
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %b = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  "dm.send"(%x) {target = 1 : i64, instance = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> ()
  %m = "dm.recv"() {source = 0 : i64, instance = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : () -> tensor<8xf32>
  %g = "dm.all_gather"(%m) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<16xf32>
  %s = "dm.all_slice"(%g) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<16xf32>) -> tensor<8xf32>
  return %b, %s : tensor<8xf32>, tensor<8xf32>
}
